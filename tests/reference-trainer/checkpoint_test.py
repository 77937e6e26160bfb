"""Checkpoints of the program: resumable after a kill at any instant, and what the store shows."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections import defaultdict

POOLSCOPE, TRAINER = sys.argv.pop(1), sys.argv.pop(1)
SMALL = ["--layers", "1", "--width", "32", "--heads", "2", "--context", "16", "--batch", "1"]
EMULATED = ["--device", "emulated", "--math", "none", "--forward-ms", "1", "--backward-ms", "1",
            "--update-ms", "1"]


def losses(log):
    """By step; a line that a kill has cut off is left out."""
    found = {}
    with open(log) as file:
        for line in file:
            if line.endswith("\n") and line.startswith('{"step":'):
                record = json.loads(line)
                found[record["step"]] = record["loss"]
    return found


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.store = os.path.join(self.folder.name, "run.db")
        self.checkpoints = os.path.join(self.folder.name, "checkpoints")
        self.log = os.path.join(self.folder.name, "log.json")

    def trainer(self, *arguments):
        return [TRAINER, *SMALL, "--json-log", self.log, *arguments]

    def resumable(self):
        return os.path.isdir(self.checkpoints) and any(
            name.endswith(".json") for name in os.listdir(self.checkpoints))

    def query(self, statement):
        result = subprocess.run([POOLSCOPE, "sql", self.store, statement], check=True,
                                capture_output=True, text=True, timeout=60)
        return list(csv.DictReader(result.stdout.splitlines(), delimiter="\t",
                                   quoting=csv.QUOTE_NONE))

    def test_a_folder_of_the_runs_own_holds_checkpoints_and_goes_with_the_run(self):
        os.mkdir(self.checkpoints)
        process = subprocess.Popen(
            self.trainer("--steps", "100000000", "--checkpoint-every", "5", "--checkpoint-dir",
                         os.path.join(self.checkpoints, "of-XXXXXX")), stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        def held():
            return [name for _, _, files in os.walk(self.checkpoints) for name in files]
        while not any(name.endswith(".json") for name in held()) and time.monotonic() < deadline:
            time.sleep(0.02)
        (own,) = os.listdir(self.checkpoints)
        self.assertNotEqual(own, "of-XXXXXX")
        process.terminate()
        self.assertEqual(process.wait(30), 143)
        self.assertEqual(os.listdir(self.checkpoints), [])

    def test_killed_twenty_times_it_has_the_curve_of_one_run(self):
        rng = random.Random(5)
        seen, begun_at = {}, []
        for _ in range(20):
            resume = ["--resume", self.checkpoints] if self.resumable() else []
            if not resume:
                subprocess.run(["rm", "-rf", self.checkpoints], check=True)
            process = subprocess.Popen(
                self.trainer("--steps", "1000000", "--checkpoint-dir", self.checkpoints,
                             "--checkpoint-every", "3", "--update-workers", "2", *resume),
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(rng.uniform(0.05, 0.35))
            process.send_signal(signal.SIGKILL)
            _, errors = process.communicate(timeout=60)
            self.assertEqual((process.returncode, errors), (-signal.SIGKILL, b""))
            run = losses(self.log) if os.path.exists(self.log) else {}
            if run:
                begun_at.append(min(run))
            for step, loss in run.items():
                self.assertEqual(seen.setdefault(step, loss), loss, f"step {step}")
        self.assertGreater(len(set(begun_at)), 5)  # it really went on
        self.assertEqual(sorted(seen), list(range(len(seen))))
        subprocess.run(self.trainer("--steps", str(len(seen))), check=True,
                       stdout=subprocess.DEVNULL, timeout=100)
        self.assertEqual(losses(self.log), seen)

    def other_work(self, *arguments):
        """Other work by (pool, worker, thread): its names with their nanoseconds."""
        subprocess.run([POOLSCOPE, "run", "--no-report", "--store", self.store, "--", TRAINER,
                        *EMULATED, "--steps", "30", "--checkpoint-dir", self.checkpoints,
                        "--checkpoint-every", "5", "--weight-bytes", "10M", *arguments],
                       check=True, stdout=subprocess.DEVNULL, timeout=100)
        found = defaultdict(lambda: defaultdict(list))
        for each in self.query("SELECT pool, thread, name, start_ns, end_ns FROM event WHERE "
                               "category_name = 'other_work' AND kind = 'range'"):
            thread = each["pool"] or each["thread"]
            found[thread][each["name"]].append(int(each["end_ns"]) - int(each["start_ns"]))
        return found

    def test_snapshots_are_other_work_and_the_writing_is_beside_the_workers(self):
        found = self.other_work("--update-workers", "2", "--offload-bandwidth", "10G")
        self.assertEqual(set(found), {"update", "checkpoint/0"})
        # On a slow disk a snapshot waits until the one before is written.
        self.assertEqual(set(found["update"]) - {"checkpoint_wait"}, {"checkpoint_snapshot"})
        self.assertEqual(len(found["update"]["checkpoint_snapshot"]), 2 * 6)
        # 2.5 M parameters over two workers, 12 bytes of each at 10 GB/s.
        for nanoseconds in found["update"]["checkpoint_snapshot"]:
            self.assertGreaterEqual(nanoseconds, 12 * 1.25e6 / 10 - 1e6)
        self.assertEqual(len(found["checkpoint/0"]["checkpoint_write"]), 6)
        steps = [float(each["value"]) for each in self.query(
            "SELECT value FROM event WHERE kind = 'counter' AND name = 'checkpoint.step' "
            "ORDER BY start_ns")]
        self.assertEqual(steps, [5, 10, 15, 20, 25, 30])

    def test_a_slow_device_stalls_the_update_pool_in_other_work(self):
        # 30 MB at 300 MB/s take 100 ms, five steps half of that.
        found = self.other_work("--checkpoint-bandwidth", "300M")
        self.assertGreaterEqual(len(found["update"]["checkpoint_wait"]), 4)
        self.assertGreater(sum(found["update"]["checkpoint_wait"]), 4 * 20e6)
        stalled, = self.query("SELECT sum(other_work_ns) AS ns FROM worker_window WHERE pool = "
                              "'update'")
        self.assertGreater(float(stalled["ns"]), 4 * 20e6)

    def test_a_full_checkpoint_is_written_while_all_wait(self):
        found = self.other_work("--checkpoint-kind", "full", "--checkpoint-bandwidth", "1G")
        # 30 MB of the update pool and twice 10 MB of replicas: 50 ms.
        for pool, workers in (("update", 1), ("compute", 2)):
            writes = found[pool]["checkpoint_write"]
            self.assertEqual(len(writes), 6 * workers)
            self.assertGreater(min(writes), 40e6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
