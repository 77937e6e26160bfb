#!/usr/bin/env python3
"""What a range costs a Python job: recorded, beside PyPI's nvtx in the same run; and unwatched."""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

# This file is a copy in build/bench.
BUILD = pathlib.Path(__file__).resolve().parent.parent
MODULE = BUILD.parent / "python"
AGENT = BUILD / "lib" / "libpoolscope_agent.so"

TIME = """
import timeit
def pair():
    with RANGE:
        pass
print(min(timeit.repeat(pair, number=20000, repeat=9)) / 20000 * 1e9)
"""
OURS = "import poolscope\n" + TIME.replace("RANGE", 'poolscope.range("forward")')
NVTX = "import nvtx\n" + TIME.replace("RANGE", 'nvtx.annotate("forward")')


def nanoseconds(program, watched, folder):
    """Per range, the least of several repeats; None where the program cannot run."""
    environment = dict(os.environ, PYTHONPATH=str(MODULE), POOLSCOPE_RUN_DIR=folder)
    environment.pop("NVTX_INJECTION64_PATH", None)
    if watched:
        environment["NVTX_INJECTION64_PATH"] = str(AGENT)
    done = subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return float(done.stdout) if done.returncode == 0 else None


def main():
    folder = tempfile.mkdtemp(prefix="poolscope-bench-", dir="/dev/shm")
    rounds = [[nanoseconds(OURS, True, folder), nanoseconds(NVTX, True, folder),
               nanoseconds(OURS, False, folder)] for _ in range(5)]
    shutil.rmtree(folder)
    ours, nvtx, unwatched = (
        None if None in values else statistics.median(values) for values in zip(*rounds))
    if ours is None or unwatched is None:
        return 1
    beside = "PyPI nvtx not installed" if nvtx is None else f"PyPI nvtx {nvtx:.0f} ns"
    print(f"python_range_recorded\t{ours:.0f}\tns\t\t{beside}")
    print(f"python_range_unwatched\t{unwatched:.0f}\tns\t\t")
    return 0


if __name__ == "__main__":
    sys.exit(main())
