"""What the end-to-end tests share: where the programs are, how to run them, how to ask a store."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ.get("POOLSCOPE_BUILD", "build")).resolve()
POOLSCOPE = str(BUILD / "bin" / "poolscope")
TRAINER = str(BUILD / "bin" / "poolscope-trainer")
AGENT = str(BUILD / "lib" / "libpoolscope_agent.so")
STORM = str(BUILD / "tests" / "nvtx_storm")
CURSORS = str(BUILD / "tests" / "session_cursors")

# A small run on emulated devices, asynchronous, without arithmetic: about 12 ms a step.
QUICK_TRAINER = [TRAINER, "--device", "emulated", "--math", "none", "--mode", "disaggregated",
                 "--async", "--compute-workers", "3", "--update-workers", "1", "--forward-ms", "3",
                 "--backward-ms", "5", "--update-ms", "4", "--gradient-bytes", "1M",
                 "--weight-bytes", "1M", "--micro-batches", "4"]


def clean_environment(**more):
    loading = ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN",
               "LD_PRELOAD")
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith("POOLSCOPE_") and k not in loading}
    return dict(kept, **more)


class EndToEnd(unittest.TestCase):
    """Each test gets a folder on disk, one in shared memory, and no process left behind."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="poolscope-e2e-"))
        self.shm = pathlib.Path(tempfile.mkdtemp(prefix="poolscope-e2e-", dir="/dev/shm"))
        self.store = str(self.folder / "run.db")
        self.started = []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.shm, ignore_errors=True)

    def start(self, command, **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("env", clean_environment())
        process = subprocess.Popen(command, text=True, **options)
        self.started.append(process)
        return process

    def run_program(self, command, expect=0, **options):
        process = self.start(command, **options)
        out, err = process.communicate(timeout=300)
        if expect is not None:
            self.assertEqual(process.returncode, expect, f"{command}\n{out}\n{err}")
        return out, err

    def run_under_agent(self, job, *flags, expect=0):
        """Runs a job under `poolscope run`; returns its stdout and stderr."""
        return self.run_program([POOLSCOPE, "run", "--no-report", "--store", self.store, *flags,
                                 "--", *job], expect=expect)

    def sql(self, query, store=None):
        out, _ = self.run_program([POOLSCOPE, "sql", "--json", store or self.store, query])
        return json.loads(out)

    def value(self, query, store=None):
        """The single value of a query with one row and one column."""
        rows = self.sql(query, store)
        self.assertEqual(len(rows), 1, query)
        return next(iter(rows[0].values()))

    def report(self, store=None):
        out, _ = self.run_program([POOLSCOPE, "report", "--format", "json", store or self.store])
        return json.loads(out)

    def lost(self, store=None):
        """Events that the store says are lost; fails where the count is not known."""
        rows = self.sql("SELECT cause, events FROM event_loss", store)
        self.assertFalse([r for r in rows if r["events"] is None], rows)
        return sum(r["events"] for r in rows)

    def wait_until(self, what, condition, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.02)
        self.fail(f"{what}: not within {seconds} s")

    def cursors(self, folder):
        """{(session, slot, incarnation): (tid, written, read)} of the sessions in a folder."""
        out, _ = self.run_program([CURSORS, str(folder)])
        rows = [line.split() for line in out.splitlines()]
        return {(r[0], int(r[1]), int(r[2])): tuple(map(int, r[3:])) for r in rows}

    def children(self, pid):
        """Process ids of the direct children of a process, with their command lines."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit():
                    fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                    if int(fields[1]) == pid and fields[0] != "Z":
                        found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                pass
        return found


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
