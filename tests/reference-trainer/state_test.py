"""Optimizer state as the store shows it: sizes by worker and part, transfer and update apart."""

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import unittest
from collections import defaultdict

POOLSCOPE, TRAINER = sys.argv.pop(1), sys.argv.pop(1)
EMULATED = ["--device", "emulated", "--math", "none", "--forward-ms", "1", "--backward-ms", "1"]


class State(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.store = os.path.join(self.folder.name, "run.db")

    def trace(self, *arguments):
        subprocess.run([POOLSCOPE, "run", "--no-report", "--store", self.store, "--", TRAINER,
                        *arguments], check=True, stdout=subprocess.DEVNULL, timeout=100)

    def query(self, statement):
        result = subprocess.run([POOLSCOPE, "sql", self.store, statement], check=True,
                                capture_output=True, text=True, timeout=60)
        return list(csv.DictReader(result.stdout.splitlines(), delimiter="\t",
                                   quoting=csv.QUOTE_NONE))

    def sizes(self):
        """By worker of pool update: its counters of state."""
        found = defaultdict(dict)
        for each in self.query("SELECT pool, worker_index, name, value FROM event WHERE kind = "
                               "'counter' AND name LIKE 'optimizer_state_bytes%'"):
            self.assertEqual(each["pool"], "update")
            found[int(each["worker_index"])][each["name"]] = float(each["value"])
        return found

    def test_sizes_of_every_part_are_in_the_store_and_the_log(self):
        log = os.path.join(self.folder.name, "log.json")
        self.trace("--steps", "3", "--layers", "3", "--width", "16", "--update-workers", "3",
                   "--shard-layout", "layer", "--optimizer-offload", "host",
                   "--resident-fraction", "0.5", "--json-log", log)
        sizes = self.sizes()
        with open(log) as file:
            logged = json.loads(file.readlines()[-1])["optimizer_state"]
        self.assertEqual(len(sizes), 3)
        for worker, state in enumerate(logged):
            own = sizes[worker]
            prefix = "optimizer_state_bytes."
            parts = [own[prefix + each] for each in
                     ("master_weights", "first_moment", "second_moment", "gradient_sum")]
            self.assertEqual(sum(parts), own["optimizer_state_bytes"])
            self.assertEqual(own[prefix + "master_weights"], state["master_weights"])
            self.assertEqual(own[prefix + "offloaded"], state["offloaded"])
            self.assertAlmostEqual(state["offloaded"] / own["optimizer_state_bytes"], 0.375, 3)
        self.assertGreater(len({each["master_weights"] for each in logged}), 1)
        settings = {each["key"]: each["value"]
                    for each in self.query("SELECT key, value FROM setting")}
        self.assertEqual(settings["optimizer.layout"], "layer")
        self.assertEqual(settings["optimizer.offload"], "host")
        self.assertEqual(settings["optimizer.resident_fraction"], "0.5")

    def test_an_emulated_offload_shows_its_transfers_apart_from_the_update(self):
        # 25 M parameters over two workers; 12 bytes of each, three quarters of them, at 10 GB/s.
        self.trace(*EMULATED, "--update-ms", "20", "--steps", "12", "--weight-bytes", "100M",
                   "--update-workers", "2", "--optimizer-offload", "file", "--resident-fraction",
                   "0.25", "--offload-bandwidth", "10G")
        stated = {"optimizer": 10e6, "offload_fetch": 12 * 25e6 * 0.75 / 2 / 10,
                  "offload_write_back": 12 * 25e6 * 0.75 / 2 / 10}
        found = defaultdict(list)
        for each in self.query("SELECT name, start_ns, end_ns FROM event WHERE pool = 'update' AND "
                               "category_name = 'work' AND kind = 'range'"):
            found[each["name"]].append(int(each["end_ns"]) - int(each["start_ns"]))
        self.assertEqual(set(found), set(stated))
        for name, nanoseconds in stated.items():
            self.assertEqual(len(found[name]), 24)
            self.assertAlmostEqual(statistics.median(found[name]) / nanoseconds, 1, delta=0.1)
        for own in self.sizes().values():
            self.assertEqual(own["optimizer_state_bytes"], 16 * 12.5e6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
