"""SIGKILL of the job or of the collector, at any instant: nothing lost, nothing twice."""

import random
import re
import subprocess
import sys
import time
import unittest

from harness import POOLSCOPE, QUICK_TRAINER, STORM, EndToEnd, kill

import signal

REPEATED = ("SELECT count(*) FROM (SELECT 1 FROM event GROUP BY run_id, tid, kind, name, start_ns,"
            " duration_ns, value, payload HAVING count(*) > 1 AND kind = 'range')")


class Kill(EndToEnd):
    def start_run(self, job):
        return self.start([POOLSCOPE, "run", "--no-report", "--store", self.store, "--run-dir",
                           str(self.shm), "--", *job], stdout=subprocess.DEVNULL)

    def job_of(self, run, program):
        def find():
            return next((pid for pid, command in self.children(run.pid).items()
                         if command.startswith(program)), None)
        return self.wait_until("the job starts", find)

    def test_killed_trainer_every_recorded_event_is_stored_once(self):
        chance = random.Random(20)
        for attempt in range(20):
            with self.subTest(attempt=attempt):
                self.store = str(self.folder / f"run{attempt}.db")
                run = self.start_run(QUICK_TRAINER + ["--steps", "100000"])
                job = self.job_of(run, QUICK_TRAINER[0])
                self.wait_until("a session", lambda: list(self.shm.glob("*.session")))
                time.sleep(chance.uniform(0.2, 1.2))
                # Stopped, the job's write positions are what it has recorded before it dies.
                kill(job, signal.SIGSTOP)
                time.sleep(0.02)
                recorded = self.cursors(self.shm)
                kill(job)
                self.assertEqual(run.wait(60), 128 + 9, run.stderr.read())
                self.assertTrue(recorded)
                stored = {(r["session_id"], r["slot"], r["incarnation"]): r["read_position"]
                          for r in self.sql("SELECT * FROM cursor")}
                for key, (_, written, _) in recorded.items():
                    self.assertEqual(stored.get(key, 0), written, key)
                self.assertEqual(self.lost(), 0)
                self.assertEqual(self.value(REPEATED), 0)
                self.assertEqual(self.value("SELECT end_reason FROM process"), "killed")
                # Three compute workers and the update worker always have a range open.
                open_ranges = self.value("SELECT count(*) FROM open_range")
                self.assertGreaterEqual(open_ranges, 3)
                self.assertFalse(list(self.shm.glob("*.session")), "the session is left behind")

    def test_killed_collector_is_restarted_and_nothing_is_lost_or_repeated(self):
        run = self.start([POOLSCOPE, "run", "--no-report", "--store", self.store, "--run-dir",
                          str(self.shm), "--", STORM, "--threads", "4", "--ranges", "400000",
                          "--rate", "25000"])
        job = self.job_of(run, STORM)
        chance = random.Random(7)
        killed = 0
        while run.poll() is None:
            time.sleep(chance.uniform(0.05, 0.5))
            for pid in self.children(run.pid):
                if pid != job:
                    kill(pid)
                    killed += 1
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)
        self.assertGreater(killed, 3)
        made = int(re.search(r"(\d+)", out)[1])
        stored = self.value("SELECT sum(events) FROM chunk JOIN track USING (track_id)"
                            " WHERE kind = 1")
        self.assertEqual(stored + self.lost(), made)
        self.assertEqual(self.value(REPEATED), 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
