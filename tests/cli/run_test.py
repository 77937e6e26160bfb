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
from harness import POOLSCOPE, QUICK_TRAINER, EndToEnd, clean_environment, kill  # noqa: E402

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

    def test_run_without_a_command_is_wrong_usage(self):
        process = self.start([POOLSCOPE, "run"])
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
