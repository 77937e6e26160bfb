#!/usr/bin/env python3
"""Slowdown of the trainer under agent and collector: paired runs on real arithmetic (device cpu).

Each pair runs the same training bare and under `poolscope run`, in alternating order, and compares
the trainer's own median step time. Prints the median of the pairs' ratios and a 95 % interval of it
(bootstrap). POOLSCOPE_BENCH_PAIRS sets the number of pairs (default 30).
"""

import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(__file__).resolve().parent.parent
TRAINER = [str(BUILD / "bin" / "poolscope-trainer"), "--device", "cpu", "--mode", "disaggregated",
           "--async", "--compute-workers", "1", "--update-workers", "1", "--micro-batches", "4",
           "--steps", "60", "--seed", "3"]


def step_seconds(traced, folder):
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    command = TRAINER + ["--json-log", str(log)]
    if traced:
        for old in folder.glob("run.db*"):
            old.unlink()
        command = [str(BUILD / "bin" / "poolscope"), "run", "--no-report", "--store",
                   str(folder / "run.db"), "--"] + command
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return json.loads(log.read_text().splitlines()[-1])["step_seconds_median"]


def main():
    pairs = int(os.environ.get("POOLSCOPE_BENCH_PAIRS", "30"))
    slowdowns, plain = [], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for i in range(pairs):
            first = i % 2 == 0
            times = {traced: step_seconds(traced, folder) for traced in (first, not first)}
            slowdowns.append((times[True] / times[False] - 1) * 100)
            plain.append(times[False])
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(slowdowns, k=pairs)) for _ in range(2000))
    low, high = medians[50], medians[1949]
    print("\t".join(["trainer slowdown under agent and collector",
                     f"{statistics.median(slowdowns):.2f}", "%", "<= 1",
                     f"{pairs} pairs, 95 % interval {low:.2f} to {high:.2f} %, "
                     f"bare step {statistics.median(plain) * 1e3:.1f} ms"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
