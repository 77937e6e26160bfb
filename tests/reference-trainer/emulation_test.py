"""Emulated devices keep their cost model, and layouts compare as it says:
emulation_test.py POOLSCOPE TRAINER."""

import json
import os
import re
import statistics
import subprocess
import unittest
from pathlib import Path

from traced_run import TRAINER, TracedRun

ROOT = Path(__file__).resolve().parents[2]


class Emulation(TracedRun):
    def test_operations_of_twelve_workers_last_what_the_cost_model_says(self):
        flags = ["--device", "emulated:a100", "--math", "none", "--compute-workers", "8",
                 "--update-workers", "4", "--model-parameters", "6.7G", "--micro-batches", "8",
                 "--link", "nvlink3", "--time-scale", "0.3"]
        said = subprocess.run([TRAINER, *flags, "--steps", "1"], check=True, capture_output=True,
                              text=True, timeout=60).stdout
        forward, backward, update = map(float, re.search(
            r"forward ([0-9.]+) ms, backward ([0-9.]+) ms, update ([0-9.]+) ms", said).groups())
        # From the profile's own figures: 2 FLOPs a parameter and token, twice that backward;
        # attention and launches are the rest.
        matrices = 0.3 * 2 * 6.7e9 * 2048 / (0.45 * 312e12) * 1e3
        self.assertLess(abs(forward / matrices - 1), 0.1)
        self.assertLess(abs(backward / matrices / 2 - 1), 0.1)
        self.trace(*flags, "--steps", "12")
        stated = {"forward": forward, "backward": backward, "optimizer": update / 4}
        for name, milliseconds in stated.items():
            self.assertGreaterEqual(milliseconds, 5, name)
            measured = [(each["end_ns"] - each["start_ns"]) / 1e6
                        for each in self.of("work", name=name)]
            self.assertGreaterEqual(len(measured), 12 * 4)
            self.assertLess(abs(statistics.median(measured) / milliseconds - 1), 0.03, name)

    def test_layouts_compare_as_their_memory_and_overlap_want_it(self):
        table = os.path.join(self.folder.name, "table.json")
        done = subprocess.run([ROOT / "scripts" / "compare-layouts", "--trainer", TRAINER, "--json",
                               table], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        monolithic, plain, optimised = json.loads(Path(table).read_text())
        # 18 bytes a parameter on eight times 80 GB; activations are the rest.
        self.assertLess(monolithic["largest"], 640e9 / 18)
        self.assertGreater(monolithic["largest"], 0.9 * 640e9 / 18)
        self.assertGreater(plain["largest"], 2 * monolithic["largest"])
        self.assertGreater(optimised["largest"], plain["largest"])
        self.assertLess(plain["speed"], 0.8)
        self.assertGreater(optimised["speed"], 1.1 * plain["speed"])
        self.assertLess(plain["gpu_bytes"], 0.5 * monolithic["gpu_bytes"])
        for row in (monolithic, plain, optimised):
            self.assertIn(f"{row['largest'] / 1e9:.0f} G", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
