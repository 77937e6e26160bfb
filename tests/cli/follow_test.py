"""`poolscope run` follows a job's descendants and changes nothing else about its process."""

import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from harness import BUILD, POOLSCOPE, EndToEnd, clean_environment  # noqa: E402

FORK = [str(BUILD / "tests" / "nvtx_fork"), "--before", "10", "--after", "5", "--children", "0"]

# As torchrun does: a session and a rank for each worker, none of which the launcher is.
LAUNCHER = """
import os, subprocess, sys
workers = [subprocess.Popen(sys.argv[1:], start_new_session=True, close_fds=True,
                            env=dict(os.environ, RANK=str(rank))) for rank in range(3)]
raise SystemExit(max(worker.wait() for worker in workers))
"""

# Twice forked, in a session of its own, with no descriptor left; waits for its parent's end.
DAEMON = """
import os, subprocess, sys, time
if os.fork() or os.setsid() or os.fork():
    os._exit(0)
os.closerange(0, 256)
end = time.monotonic() + 30
while os.path.exists(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.02)
os.open(os.devnull, os.O_RDWR)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Follow(EndToEnd):
    def ranges(self):
        """How many each process has made."""
        return [row["n"] for row in self.sql(
            "SELECT count(*) AS n FROM event WHERE name = 'inherited' GROUP BY pid")]

    def test_workers_of_a_launcher(self):
        self.run_under_agent([sys.executable, "-c", LAUNCHER, *FORK])
        self.assertEqual(self.ranges(), [15] * 3)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_ranks_of_mpirun(self):
        self.run_under_agent(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", *FORK])
        self.assertEqual(self.ranges(), [15] * 3)

    def test_pipelines_and_programs_behind_others(self):
        job = shlex.join(FORK)
        self.run_under_agent(["sh", "-c", f"{job} | {job} | env X=1 nice sh -c 'exec {job}'; "
                                          f"({job}) & wait"])
        self.assertEqual(self.ranges(), [15] * 4)

    def test_daemon_that_begins_to_record_after_the_job(self):
        flag = self.folder / "job runs"
        flag.touch()
        daemon = shlex.join([sys.executable, "-c", DAEMON, str(flag), *FORK])
        self.run_under_agent(["sh", "-c", f"{daemon}; {shlex.join(FORK)}; rm '{flag}'"],
                             "--run-dir", str(self.shm))
        collector = self.start([POOLSCOPE, "collect", "--store", self.store, "--run-dir",
                                str(self.shm)])
        self.wait_until("both are stored", lambda: self.ranges() == [15] * 2)
        collector.terminate()
        collector.communicate(timeout=60)
        self.assertEqual(self.value("SELECT count(*) FROM run"), 1)

    def test_job_sees_the_process_that_it_would_be_without(self):
        look = ["sh", "-c", "grep -E '^(Sig(Blk|Ign|Cgt)|Groups|Seccomp|NoNewPrivs)' "
                            "/proc/self/status; umask; pwd; ulimit -a; ls /proc/self/fd | cat; "
                            "env | cut -d= -f1 | sort"]
        bare, _ = self.run_program(look)
        seen, _ = self.run_under_agent(look)
        added = set(seen.splitlines()) - set(bare.splitlines())
        self.assertEqual(added, {"NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH",
                                 "NCCL_PROFILER_PLUGIN", "POOLSCOPE_RUN_ID", "POOLSCOPE_RUN_DIR"})
        self.assertEqual([line for line in seen.splitlines() if line not in added],
                         bare.splitlines())


class Terminal(EndToEnd):
    """A job at a terminal of its own."""

    def spawn(self, command):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, clean_environment())
        self.addCleanup(os.close, self.terminal)
        self.shown = ""

    def expect(self, pattern):
        """Reads what is shown until it holds the pattern; forgets it up to there."""
        while not (found := re.search(pattern, self.shown)):
            ready, _, _ = select.select([self.terminal], [], [], 30)
            self.assertTrue(ready, f"{pattern!r} was not shown: {self.shown!r}")
            try:
                self.shown += os.read(self.terminal, 4096).decode()
            except OSError:
                self.fail(f"{pattern!r} was not shown: {self.shown!r}")
        self.shown = self.shown[found.end():]
        return found

    def type(self, text):
        os.write(self.terminal, text.encode())

    def state(self, pid):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def exit_code(self):
        try:
            while os.read(self.terminal, 4096):
                pass
        except OSError:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def test_job_reads_the_terminal_and_is_in_its_foreground(self):
        self.spawn([POOLSCOPE, "run", "--no-report", "--store", self.store, "--", "sh", "-c",
                    "test -t 0 && test -t 1 && test -t 2 && tty;"
                    "set -- $(cat /proc/$$/stat); test $5 = $8 && echo front;"
                    "read line && echo got:$line; exit 9"])
        self.expect(r"/dev/pts/\d+\r\nfront\r\n")
        self.type("three words here\n")
        self.expect("got:three words here\r\n")
        self.assertEqual(self.exit_code(), 9)

    def test_shell_of_the_user_stops_it_and_takes_it_up_again(self):
        self.spawn(["bash", "--norc", "-i"])
        self.type(shlex.join([POOLSCOPE, "run", "--no-report", "--store", self.store, "--", "sh",
                              "-c", "echo job:$$:; read line; echo got:$line; exit 4"]) + "\n")
        job = int(self.expect(r"job:(\d+):")[1])
        self.type("\x1a")
        self.expect("Stopped")
        self.wait_until("the job stops too", lambda: self.state(job) == "T")
        self.type("fg\n")
        self.wait_until("it goes on", lambda: self.state(job) != "T")
        self.type("a line\n")
        self.expect("got:a line\r\n")
        self.type("exit $?\n")
        self.assertEqual(self.exit_code(), 4)

    def test_job_that_is_a_shell_controls_its_own_jobs(self):
        self.spawn([POOLSCOPE, "run", "--no-report", "--store", self.store, "--", "bash", "--norc",
                    "-i"])
        self.type("sleep 100\n")
        self.wait_until("sleep runs", lambda: any(
            "sleep" in command for shell in self.children(self.pid)
            for command in self.children(shell).values()))
        self.type("\x03")  # to the foreground group, which the job has made
        self.type("echo ended:$?\n")
        self.expect(r"ended:130\r\n")
        self.type("exit 6\n")
        self.assertEqual(self.exit_code(), 6)


if __name__ == "__main__":
    sys.exit(unittest.main())
