#!/usr/bin/env python3
"""The memory that jobs which make endless names, threads and events cost: the job's own resident
set with its session (whose rings are shared memory), and the collector's."""

import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(__file__).resolve().parent.parent  # this file is a copy in build/bench
AGENT = str(BUILD / "lib" / "libpoolscope_agent.so")
STORM = str(BUILD / "tests" / "nvtx_storm")
PROBE = str(BUILD / "tests" / "nvtx_probe")
SECONDS = int(os.environ.get("POOLSCOPE_BENCH_SECONDS", "60"))


def megabytes(command, folder, watched):
    """Peak resident set of a job without a collector."""
    environment = {k: v for k, v in os.environ.items() if k != "NVTX_INJECTION64_PATH"}
    if watched:
        environment.update(NVTX_INJECTION64_PATH=AGENT, POOLSCOPE_RUN_DIR=folder)
    job = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    most = 0
    while job.poll() is None:
        most = max(most, resident(job.pid, "VmHWM"))
        time.sleep(0.02)
    if job.returncode != 0:
        sys.exit(f"memory_bench: {command} ended with {job.returncode}")
    return most


def resident(pid, what):
    """VmHWM or VmRSS of a process in MB, 0 once it has ended."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    return 0


def row(figure, value, bar, beside):
    print(f"{figure}\t{value:.1f}\tMB\t<= {bar}\t{beside}", flush=True)
    return value <= bar


def full_rate(folder):
    """Job and collector at full rate: what the second half of the run adds to the first."""
    store = folder / "run.db"
    run = subprocess.Popen([str(BUILD / "bin" / "poolscope"), "run", "--no-report", "--store",
                            str(store), "--", STORM, "--ranges", str(10**12)],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(SECONDS / 2)
    children = [int(pid) for pid in
                pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
    first = [resident(pid, "VmRSS") for pid in children]
    time.sleep(SECONDS / 2)
    second = [resident(pid, "VmRSS") for pid in children]
    run.terminate()
    run.wait()
    stored, = sqlite3.connect(store).execute("SELECT sum(events) FROM chunk").fetchone()
    grown = ", ".join(f"{a:.1f} to {b:.1f}" for a, b in zip(first, second))
    beside = (f"{SECONDS} s at full rate stand for an hour, {stored / 1e6:.0f} million stored; "
              f"MB of job and collector: {grown}")
    return row("memory grown in the second half at full rate", sum(second) - sum(first), 16,
               beside)


def main():
    folder = tempfile.mkdtemp(prefix="poolscope-bench-", dir="/dev/shm")
    names = [STORM, "--ranges", "10000000", "--names", "10000000"]
    threads = [PROBE, "many_threads"]
    good = row("memory for 10 million names", megabytes(names, folder, True), 64,
               f"{megabytes(names, folder, False):.1f} MB without the agent")
    good &= row("memory for 10000 short-lived threads", megabytes(threads, folder, True), 128,
                f"{megabytes(threads, folder, False):.1f} MB without the agent; "
                "65 rings of 1 MiB kept for a late collector")
    shutil.rmtree(folder)
    with tempfile.TemporaryDirectory() as scratch:
        good &= full_rate(pathlib.Path(scratch))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
