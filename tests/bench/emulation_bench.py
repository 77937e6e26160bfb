#!/usr/bin/env python3
"""How far operations of emulated devices are from their cost model: median over a run with twelve
workers, as the run's store has it."""

import pathlib
import re
import statistics
import subprocess
import tempfile

BUILD = pathlib.Path(__file__).resolve().parent.parent
TRAINER, POOLSCOPE = BUILD / "bin" / "poolscope-trainer", BUILD / "bin" / "poolscope"
FLAGS = ["--device", "emulated:a100", "--math", "none", "--compute-workers", "8",
         "--update-workers", "4", "--model-parameters", "6.7G", "--micro-batches", "8", "--link",
         "nvlink3", "--steps", "20", "--time-scale", "0.3"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder) / "run.db"
        done = subprocess.run([POOLSCOPE, "run", "--no-report", "--store", store, "--", TRAINER,
                               *FLAGS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, check=True)
        stated = dict(zip(("forward", "backward", "optimizer"), map(float, re.search(
            r"forward ([0-9.]+) ms, backward ([0-9.]+) ms, update ([0-9.]+) ms",
            done.stdout).groups())))
        stated["optimizer"] /= 4
        for name, milliseconds in stated.items():
            rows = subprocess.run(
                [POOLSCOPE, "sql", store, "SELECT duration_ns FROM event WHERE category = 1 AND "
                 f"name = '{name}'"], stdout=subprocess.PIPE, text=True, check=True).stdout
            median = statistics.median(map(int, rows.split()[1:])) / 1e6
            print("\t".join([f"emulated {name}, off its cost model",
                             f"{abs(median / milliseconds - 1) * 100:.2f}", "%", "<= 3",
                             f"{median:.2f} of {milliseconds:.2f} ms"]))


if __name__ == "__main__":
    main()
