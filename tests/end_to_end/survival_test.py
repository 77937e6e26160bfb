"""A job under the agent ends as it does without it, however it ends, and whatever is wrong around
it; and what it recorded before is in the store."""

import os
import pathlib
import shutil
import struct
import subprocess
import sys
import textwrap
import unittest

from harness import AGENT, BUILD, POOLSCOPE, STORM, EndToEnd, clean_environment

ENDS = str(BUILD / "tests" / "nvtx_ends")
CHAIN = str(BUILD / "tests" / "libnvtx_chain.so")
PLUGIN = str(BUILD / "tests" / "libnvtx_plugin.so")

# Scenario of nvtx_ends: how many ranges named "kept" it makes, in all its processes.
KEPT = {
    "return": 2, "exit": 1, "_exit": 1, "quick_exit": 1, "abort": 1, "segv": 1, "kill": 1,
    "term": 1, "exit_in_thread": 2, "thread_in_range": 3, "main_exits_first": 2, "cancel": 3,
    "fork": 3, "fork_silent": 2, "fork_killed": 3, "fork_in_thread": 4, "fork_exec": 3,
    "vfork_exec": 3, "spawn": 3, "exec": 2, "system": 2, "daemon": 3, "at_exit": 3, "signal": 3,
    "segv_handled": 4, "dlclose": 2, "close_all": 3,
    "open_exit": 1, "open__exit": 1, "open_abort": 1, "open_segv": 1, "open_kill": 1,
}

POOL = """
    import ctypes, multiprocessing, sys
    def work(n):
        ctypes.CDLL(sys.argv[1]).nvtx_plugin_record()
        return n * n
    if __name__ == "__main__":
        multiprocessing.set_start_method(sys.argv[2])
        with multiprocessing.Pool(3) as pool:
            print(pool.map(work, range(40), 1))
            pool.close()
            pool.join()
"""


class Survival(EndToEnd):
    def environment(self, **more):
        return clean_environment(NVTX_INJECTION64_PATH=AGENT, POOLSCOPE_RUN_DIR=str(self.shm),
                                 **more)

    def outcome(self, command, **options):
        process = self.start(command, **options)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def kept(self, name="kept"):
        return self.value(f"SELECT count(*) FROM event WHERE name = '{name}' AND kind = 'range'")

    def assert_same_under_run(self, command):
        code, out, err = self.outcome(command)
        run = self.outcome([POOLSCOPE, "run", "--no-report", "--store", self.store, "--",
                            *command])
        own = [line for line in run[2].splitlines() if not line.startswith("poolscope: ")]
        self.assertEqual((run[0], run[1], own),
                         (code if code >= 0 else 128 - code, out, err.splitlines()), command)

    def test_without_a_collector_every_end_is_the_jobs_own(self):
        for scenario in KEPT:
            with self.subTest(scenario):
                command = [ENDS, scenario]
                self.assertEqual(self.outcome(command, env=self.environment()),
                                 self.outcome(command))

    def test_under_run_every_end_is_the_jobs_own_and_all_is_kept(self):
        for scenario, kept in KEPT.items():
            with self.subTest(scenario):
                self.store = str(self.folder / f"{scenario}.db")
                self.assert_same_under_run([ENDS, scenario])
                self.assertEqual(self.kept(), kept)
                self.assertEqual(self.lost(), 0)
                if scenario.startswith("open_"):
                    self.assertEqual(self.kept("left open"), 1)

    def test_python_pools_by_fork_and_by_spawn_are_recorded_whole(self):
        script = self.folder / "pool.py"
        script.write_text(textwrap.dedent(POOL))
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                self.store = str(self.folder / f"{method}.db")
                self.assert_same_under_run([sys.executable, str(script), PLUGIN, method])
                self.assertEqual(self.kept("from the library"), 40)
                self.assertEqual(self.lost(), 0)

    def test_200_starts_in_a_row_are_all_collected(self):
        collector = self.start([POOLSCOPE, "collect", "--store", self.store, "--run-dir",
                                str(self.shm)])
        collector.stdout.readline()
        for _ in range(200):
            self.assertEqual(
                subprocess.run([STORM, "--ranges", "3"], env=self.environment(), timeout=60,
                               capture_output=True, check=True).stdout, b"made 3\n")
        self.wait_until("all are stored", lambda: not list(self.shm.glob("*.session")))
        collector.terminate()
        collector.communicate(timeout=60)
        self.assertEqual(self.value("SELECT count(*) FROM process"), 200)
        self.assertEqual(self.value("SELECT sum(events) FROM chunk"), 600)

    def test_run_folder_deleted_in_mid_run_is_not_noticed(self):
        job = self.start([STORM, "--threads", "2", "--ranges", "20000", "--rate", "10000"],
                         env=self.environment(POOLSCOPE_AGENT_LOG="1"))
        self.wait_until("a session", lambda: list(self.shm.glob("*.session")))
        shutil.rmtree(self.shm)
        out, err = job.communicate(timeout=60)
        self.assertEqual((job.returncode, out, err), (0, "made 20000\n", ""))

    def test_run_folder_that_cannot_be_written_leaves_the_job_alone(self):
        read_only = self.shm / "read-only"
        read_only.mkdir(mode=0o700)
        command = f"mount -t tmpfs -o ro,mode=0700 tmpfs {read_only}"
        if subprocess.run(command, shell=True, capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", "-l", str(read_only)], check=True)
        environment = self.environment()
        environment["POOLSCOPE_RUN_DIR"] = str(read_only)
        self.assertEqual(self.outcome([ENDS, "fork"], env=environment),
                         self.outcome([ENDS, "fork"]))

    def test_process_that_the_agent_could_not_record_is_told_in_the_store(self):
        job = f"{ENDS} return; (ulimit -f 0; {ENDS} exit | cat)"
        _, err = self.run_under_agent(["sh", "-c", job])
        self.assertRegex(err, r"poolscope: process \d+ was not recorded: .*ulimit -f")
        self.assertEqual(self.kept(), 2)
        row, = self.sql("SELECT * FROM event_loss")
        self.assertEqual((row["cause"], row["events"]), ("agent_off", None))
        self.assertRegex(row["place"], r"process \d+: .*ulimit -f")
        self.assertIn("agent_off", self.run_program([POOLSCOPE, "report", self.store])[0])

    def test_children_of_a_handler_that_interrupted_the_agent_are_told(self):
        self.run_under_agent([ENDS, "fork_in_handler"])
        off = self.sql("SELECT place FROM event_loss WHERE cause = 'agent_off'")
        self.assertTrue(off, "none of 60 came upon the agent")
        for row in off:
            self.assertIn("forked by a signal handler that came upon the agent", row["place"])
        self.assertEqual(self.value("SELECT count(*) FROM process") + len(off), 1 + 60)

    def test_collector_of_another_format_says_so_and_touches_nothing(self):
        for version in (0, 2):
            with self.subTest(version):
                job = self.start([STORM, "--ranges", "3000", "--rate", "1500"],
                                 env=self.environment())
                session = self.wait_until("a session",
                                          lambda: next(self.shm.glob("*.session"), None))
                with session.open("r+b") as file:
                    file.seek(8)  # SessionHeader::format_version
                    file.write(struct.pack("<I", version))
                said = self.folder / "said"
                with said.open("w") as file:
                    collector = self.start([POOLSCOPE, "collect", "--store", self.store,
                                            "--run-dir", str(self.shm)], stderr=file)
                out, err = job.communicate(timeout=60)
                self.assertEqual((job.returncode, out, err), (0, "made 3000\n", ""))
                self.wait_until("it is said", lambda:
                                f"session format {version} is not" in said.read_text())
                collector.terminate()
                self.assertEqual(collector.wait(60), 0)
                self.assertTrue(session.exists())
                session.unlink()

    def test_another_tool_that_passes_nvtx_on_and_a_second_agent(self):
        second = self.shm / "second_agent.so"
        shutil.copy(AGENT, second)
        bare = self.outcome([ENDS, "fork"])
        for name, variables in {
                "chained": {"NVTX_INJECTION64_PATH": CHAIN, "NVTX_CHAIN_NEXT": AGENT},
                "preloaded twice": {"LD_PRELOAD": f"{second} {AGENT}"},
                "one by each way": {"LD_PRELOAD": str(second)}}.items():
            with self.subTest(name):
                self.store = str(self.folder / f"{name}.db")
                environment = self.environment(**{"POOLSCOPE_AGENT_LOG": "1"})
                environment.update(variables)
                self.assertEqual(self.outcome([ENDS, "fork"], env=environment), bare)
                collector = self.start([POOLSCOPE, "collect", "--store", self.store, "--run-dir",
                                        str(self.shm)])
                self.wait_until("all is stored", lambda: not list(self.shm.glob("*.session")))
                collector.terminate()
                collector.communicate(timeout=60)
                self.assertEqual(self.kept(), 3)


if __name__ == "__main__":
    sys.exit(unittest.main())
