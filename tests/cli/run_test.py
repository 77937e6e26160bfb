"""`poolscope run` is transparent: the job's input, output, signals and exit code are its own."""

import os
import pathlib
import pty
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))
from harness import BUILD, POOLSCOPE, QUICK_TRAINER, EndToEnd, clean_environment, kill  # noqa: E402

ENDS = str(BUILD / "tests" / "nvtx_ends")

# Counts SIGINTs for a while after the first, then leaves with 40 + their number.
COUNT_INTERRUPTS = """
import signal, time
seen = 0
def count(*_):
    global seen
    seen += 1
signal.signal(signal.SIGINT, count)
print("ready", flush=True)
end = None
while end is None or time.monotonic() < end:
    time.sleep(0.02)
    if seen and end is None:
        end = time.monotonic() + 0.7
raise SystemExit(40 + seen)
"""


class Run(EndToEnd):
    def run_job(self, job, **options):
        flags = ["--no-report", "--store", self.store]
        process = self.start([POOLSCOPE, "run", *flags, "--", *job], **options)
        out, err = process.communicate(options.pop("input", None), timeout=60)
        return process.returncode, out, err

    def folders(self):
        return set(pathlib.Path("/dev/shm").glob(f"poolscope-{os.getuid()}-run-*"))

    def test_exit_code_is_the_jobs(self):
        self.assertEqual(self.run_job(["sh", "-c", "exit 7"])[0], 7)
        self.assertEqual(self.run_job(["true"])[0], 0)
        self.assertEqual(self.run_job(["sh", "-c", "kill -TERM $$"])[0], 128 + 15)

    def test_output_is_untouched(self):
        code, out, err = self.run_job(["sh", "-c", "printf 'a\\0b'; echo oops >&2"])
        self.assertEqual(code, 0)
        self.assertEqual(out, "a\0b")
        self.assertTrue(err.startswith("oops\n"), err)

    def test_input_reaches_the_job(self):
        process = self.start([POOLSCOPE, "run", "--no-report", "--store", self.store, "--", "cat"],
                             stdin=subprocess.PIPE)
        out, _ = process.communicate("three\nlines\nhere\n", timeout=60)
        self.assertEqual(out, "three\nlines\nhere\n")

    def test_signal_to_poolscope_is_passed_on(self):
        process = self.start([POOLSCOPE, "run", "--no-report", "--store", self.store, "--",
                              sys.executable, "-c", COUNT_INTERRUPTS])
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 41)

    def test_signals_that_batch_systems_send_are_passed_on(self):
        numbers = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU,
                   signal.SIGPWR, signal.SIGRTMIN + 3]
        process = self.start([POOLSCOPE, "run", "--no-report", "--store", self.store, "--",
                              sys.executable, "-c",
                              "import signal, sys\n"
                              "for n in sys.argv[1:]:\n"
                              "    signal.signal(int(n), lambda n, _: print(n, flush=True))\n"
                              "print('ready', flush=True)\n"
                              "while True: signal.pause()\n", *map(str, map(int, numbers))])
        self.assertEqual(process.stdout.readline(), "ready\n")
        for number in numbers:
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), f"{int(number)}\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 128 + signal.SIGTERM)

    def test_ctrl_c_at_a_terminal_reaches_the_job_once(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(POOLSCOPE, [POOLSCOPE, "run", "--no-report", "--store", self.store, "--",
                                  sys.executable, "-c", COUNT_INTERRUPTS], clean_environment())
        seen = b""
        while b"ready" not in seen:
            seen += os.read(terminal, 1024)
        os.write(terminal, b"\x03")
        while True:
            try:
                if not os.read(terminal, 1024):
                    break
            except OSError:
                break
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 41)
        os.close(terminal)

    def test_signal_to_the_process_group_reaches_the_job_once(self):
        process = self.start([POOLSCOPE, "run", "--no-report", "--store", self.store, "--",
                              sys.executable, "-c", COUNT_INTERRUPTS], start_new_session=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGINT)  # as timeout does: to the process, then to its group
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(60), 41)

    def test_interrupted_trainer_has_its_run_stored(self):
        process = self.start([POOLSCOPE, "run", "--no-report", "--store", self.store, "--",
                              *QUICK_TRAINER, "--steps", "100000"], stdout=subprocess.DEVNULL)
        time.sleep(1.5)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        self.assertGreater(self.value("SELECT count(*) FROM step"), 10)
        self.assertEqual(self.value("SELECT ended FROM run"), 1)

    def test_run_folder_is_private_and_goes(self):
        before = self.folders()
        code, out, _ = self.run_job(["sh", "-c", "stat -c %a $POOLSCOPE_RUN_DIR"])
        self.assertEqual((code, out), (0, "700\n"))
        self.assertEqual(self.folders() - before, set())

    def test_killed_poolscope_leaves_a_store_that_holds_the_run(self):
        process = self.start([POOLSCOPE, "run", "--no-report", "--store", self.store, "--run-dir",
                              str(self.shm), "--", *QUICK_TRAINER, "--steps", "100000"],
                             stdout=subprocess.DEVNULL)
        time.sleep(1.5)
        children = self.children(process.pid)
        process.kill()
        process.wait()
        # The collector stores what there is and leaves; the job never depended on it.
        job = next(p for p, c in children.items() if c.startswith(QUICK_TRAINER[0]))
        self.wait_until("the collector leaves", lambda: all(
            p == job or not pathlib.Path(f"/proc/{p}").exists() for p in children))
        self.assertTrue(pathlib.Path(f"/proc/{job}").exists())
        kill(job)
        self.assertGreater(self.value("SELECT count(*) FROM step"), 10)

    def test_injection_path_of_the_user_is_kept_and_said(self):
        process = self.start([POOLSCOPE, "run", "--no-report", "--store", self.store, "--", "sh",
                              "-c", "echo $NVTX_INJECTION64_PATH"],
                             env=clean_environment(NVTX_INJECTION64_PATH="/tmp/other.so"))
        out, err = process.communicate(timeout=60)
        self.assertEqual(out, "/tmp/other.so\n")
        self.assertIn("NVTX_INJECTION64_PATH is set to /tmp/other.so", err)

    def started_with(self, *flags, store=None, job=None, expect=0, **variables):
        """Output and messages of a run that its environment says something of."""
        job = job or ["sh", "-c", f"echo $POOLSCOPE_RUN_ID $POOLSCOPE_RUN_DIR; {ENDS} return"]
        return self.run_program([POOLSCOPE, "run", "--no-report", "--store", store or self.store,
                                 *flags, "--", *job], expect=expect,
                                env=clean_environment(**variables))

    def runs(self, store=None):
        return {row["run_id"]: row["processes"] for row in self.sql(
            "SELECT run_id, count(*) AS processes FROM process GROUP BY run_id", store)}

    def test_run_id_of_the_launcher_is_kept_on_every_node(self):
        identity = "00112233445566778899aabbccddeeff"
        for node in ("a", "b"):
            store = str(self.folder / f"{node}.db")
            out, err = self.started_with(store=store, POOLSCOPE_RUN_ID=identity.upper())
            self.assertEqual(out.split()[0], identity)
            self.assertRegex(out.split()[1], r"/dev/shm/poolscope-\d+-run-")
            self.assertNotIn("POOLSCOPE_RUN_ID", err)
            self.assertEqual(self.runs(store), {identity: 1})
        # And one after the other into one store, as ranks that follow each other.
        self.started_with(store=store, POOLSCOPE_RUN_ID=identity)
        self.assertEqual(self.runs(store), {identity: 2})
        self.assertEqual(self.value("SELECT ended FROM run", store), 1)

    def test_without_one_every_run_has_an_id_of_its_own(self):
        self.started_with()
        self.started_with(POOLSCOPE_RUN_ID="")
        self.assertEqual(sorted(self.runs().values()), [1, 1])

    def test_run_id_that_is_none_starts_nothing(self):
        for value in ("today", "0" * 31, "0" * 33, "g" * 32, "../" + "0" * 29):
            out, err = self.started_with(expect=2, POOLSCOPE_RUN_ID=value)
            self.assertEqual(out, "")
            self.assertEqual(err, f"poolscope: POOLSCOPE_RUN_ID is '{value}', no run's id: it "
                                  "takes 32 hex digits; unset it for a new one\n")
        self.assertFalse(pathlib.Path(self.store).exists())

    def test_run_folder_of_the_user_is_kept(self):
        out, _ = self.started_with(POOLSCOPE_RUN_DIR=str(self.shm))
        self.assertEqual(out.split()[1], str(self.shm))
        self.assertTrue(self.shm.exists())
        other = self.shm / "flag"
        out, _ = self.started_with("--run-dir", str(other), POOLSCOPE_RUN_DIR=str(self.shm))
        self.assertEqual(out.split()[1], str(other))
        self.assertEqual(sum(self.runs().values()), 2)

    def test_run_folder_given_relatively_holds_wherever_the_job_goes(self):
        self.run_program([POOLSCOPE, "run", "--no-report", "--store", self.store, "--run-dir",
                          "here", "--", "sh", "-c", f"cd /; {ENDS} return"], cwd=self.shm,
                         env=clean_environment())
        self.assertEqual(sum(self.runs().values()), 1)

    def test_run_folder_that_is_none_starts_nothing(self):
        for flags, variables in ((["--run-dir", str(self.folder)], {}),
                                 ([], {"POOLSCOPE_RUN_DIR": str(self.folder)})):
            out, err = self.started_with(*flags, expect=2, **variables)
            self.assertEqual((out, err.count("\n")), ("", 1), err)
            self.assertIn(f"the run folder {self.folder} ", err)
        self.assertFalse(pathlib.Path(self.store).exists())

    def test_run_within_a_run_is_the_same_run_in_a_store_of_its_own(self):
        inner = str(self.folder / "inner.db")
        job = ["sh", "-c", f"{ENDS} return; {POOLSCOPE} run --no-report --store {inner} -- "
                           f"{ENDS} return; {ENDS} return"]
        _, err = self.started_with(job=job)
        self.assertRegex(err, "POOLSCOPE_RUN_DIR is /dev/shm/.*, which another collector drains")
        outer, = self.runs()
        self.assertEqual(self.runs(), {outer: 2})
        self.assertEqual(self.runs(inner), {outer: 1})

    def test_runs_that_start_at_once_share_a_folder_that_only_one_can_have(self):
        both = [self.start([POOLSCOPE, "run", "--no-report", "--store",
                            str(self.folder / f"{i}.db"), "--", ENDS, "return"],
                           env=clean_environment(POOLSCOPE_RUN_DIR=str(self.shm)))
                for i in range(6)]
        said = [process.communicate(timeout=60)[1] for process in both]
        self.assertEqual([process.returncode for process in both], [0] * 6, said)
        stored = sum(sum(self.runs(str(self.folder / f"{i}.db")).values()) for i in range(6))
        self.assertEqual(stored, 6, said)

    def test_run_without_a_command_is_wrong_usage(self):
        process = self.start([POOLSCOPE, "run"])
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
