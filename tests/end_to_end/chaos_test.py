"""What happens around a run: the tool killed, its files taken away, processes that stay."""

import os
import pathlib
import re
import signal
import sys
import time
import unittest

from harness import POOLSCOPE, STORM, EndToEnd, kill

PREFIX = f"/dev/shm/poolscope-{os.geteuid()}-run-"


class Chaos(EndToEnd):
    def stored(self):
        return self.value("SELECT coalesce(sum(events), 0) FROM chunk")

    def made(self, out):
        return int(re.search(r"made (\d+)", out)[1])

    def folder_of(self, job):
        for entry in pathlib.Path(f"/proc/{job}/environ").read_text().split("\0"):
            if entry.startswith("POOLSCOPE_RUN_DIR="):
                return pathlib.Path(entry.split("=", 1)[1])
        return None

    def start_storm(self, seconds):
        run = self.start([POOLSCOPE, "run", "--no-report", "--store", self.store, "--", STORM,
                          "--ranges", str(20000 * seconds), "--rate", "20000"])
        job = self.wait_until("the job starts", lambda: next(
            (pid for pid, command in self.children(run.pid).items()
             if command.startswith(STORM)), None))
        folder = self.wait_until("its run folder", lambda: self.folder_of(job))
        self.wait_until("a session", lambda: list(folder.glob("*.session")))
        return run, job, folder

    def lives(self, pid):
        """False once all its threads are gone, and with them its locks."""
        try:
            states = [(task / "stat").read_text().rsplit(")", 1)[1].split()[0]
                      for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
        except OSError:
            return pathlib.Path(f"/proc/{pid}").exists()
        return states != ["Z"]

    def collect(self, folder):
        """Takes up what is left in a run folder."""
        collect = self.start([POOLSCOPE, "collect", "--store", self.store, "--run-dir",
                              str(folder)])
        self.wait_until("the sessions are stored", lambda: not list(folder.glob("*.session")))
        collect.send_signal(signal.SIGTERM)
        self.assertEqual(collect.wait(60), 0)

    def test_runs_of_one_second_in_one_folder_get_a_store_each(self):
        runs = [self.start([POOLSCOPE, "run", "--no-report", "--", STORM, "--ranges", "100"],
                           cwd=self.folder) for _ in range(4)]
        for run in runs:
            _, err = run.communicate(timeout=60)
            self.assertEqual(run.returncode, 0, err)
        stores = list(self.folder.glob("poolscope-*.db"))
        self.assertEqual(len(stores), 4)
        for store in stores:
            self.assertEqual(self.value("SELECT sum(events) FROM chunk", str(store)), 100)

    def test_killed_run_leaves_a_session_that_collect_takes_up_exactly(self):
        run, job, folder = self.start_storm(3)
        time.sleep(0.5)
        kill(run.pid)
        out, _ = run.communicate(timeout=60)  # the job goes on and ends by itself
        made = self.made(out)
        self.wait_until("the job's end", lambda: not self.lives(job))
        self.collect(folder)
        self.assertEqual(self.stored() + self.lost(), made)
        self.assertEqual(self.value("SELECT count(*) FROM run"), 1)
        folder.rmdir()

    def test_killed_run_collector_and_job_lose_nothing(self):
        run, job, folder = self.start_storm(20)
        time.sleep(0.7)
        collector = next(pid for pid in self.children(run.pid) if pid != job)
        kill(job, signal.SIGSTOP)
        time.sleep(0.02)
        recorded = self.cursors(folder)
        for pid in (run.pid, collector, job):
            kill(pid)
        run.wait(60)
        self.wait_until("all are dead", lambda: not any(map(self.lives, (collector, job))))
        self.collect(folder)
        stored = {(r["session_id"], r["slot"], r["incarnation"]): r["read_position"]
                  for r in self.sql("SELECT * FROM cursor")}
        for key, (_, written, _) in recorded.items():
            self.assertEqual(stored.get(key, 0), written, key)
        self.assertEqual(self.lost(), 0)
        self.assertEqual(self.value("SELECT end_reason FROM process"), "killed")
        folder.rmdir()

    def test_folders_of_killed_runs_are_swept_once_nobody_needs_them(self):
        def folder(name, age):
            path = pathlib.Path(PREFIX + name)
            path.mkdir(mode=0o700)
            self.addCleanup(lambda: path.exists() and path.rmdir())
            os.utime(path, (time.time() - age,) * 2)
            return path
        old = folder("e2eold", 3600)
        young = folder("e2eyng", 5)  # one that another run has only just made
        self.run_under_agent([STORM, "--ranges", "10"])
        self.assertFalse(old.exists())
        self.assertTrue(young.exists())

    def test_store_removed_while_written_is_said_and_a_new_one_goes_on(self):
        run, job, _ = self.start_storm(2)
        self.wait_until("events are stored", lambda: os.path.exists(self.store) and self.stored())
        os.unlink(self.store)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)
        self.assertIn("was removed", err)
        self.assertGreater(self.stored(), 0)
        self.assertLess(self.stored() + self.lost(), self.made(out))

    def test_process_that_outlives_the_job_is_said_and_can_be_collected(self):
        script = f"{STORM} --ranges 10 & {STORM} --ranges 30000 --rate 10000 >/dev/null & sleep 1"
        _, err = self.run_under_agent(["sh", "-c", script])
        self.assertIn("1 of the job's processes went on", err)
        folder = pathlib.Path(re.search(r"--run-dir (\S+)", err)[1])
        self.collect(folder)
        self.assertEqual(self.stored() + self.lost(), 30010)
        folder.rmdir()

    def test_agent_that_cannot_work_is_named_as_a_reason(self):
        _, err = self.run_program([POOLSCOPE, "run", "--store", self.store, "--", "sh", "-c",
                                   f"ulimit -f 0; {STORM} --ranges 10 | cat"])
        self.assertIn("POOLSCOPE_AGENT_LOG=1", err)


if __name__ == "__main__":
    sys.exit(unittest.main())
