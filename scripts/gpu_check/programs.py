"""Runs the packed programs, within the time there is."""

import csv
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import time

from results import Failed, Skip

WITHOUT = re.compile(r".*(no CUDA device|cannot load lib(cublas|nccl)|while loading shared "
                     r"libraries: lib(cublas|nccl)).*")


def toolkit_folders():
    """Where this machine may have CUDA's libraries: a toolkit, or Python's packages."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    folders = [f"{home}/lib64", f"{home}/extras/CUPTI/lib64"]
    for packages in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        folders += sorted(glob.glob(f"{packages}/nvidia/*/lib"))
    return [folder for folder in folders if os.path.isdir(folder)]


class Programs:
    """Those in `folder`. After `seconds` no program is started: what then remains is skipped."""

    def __init__(self, folder, seconds, has_gpu):
        self.folder, self.deadline = folder, time.monotonic() + seconds
        self.has_gpu = has_gpu
        self.scratch = tempfile.TemporaryDirectory(prefix="gpu-check.")
        self.runs = 0
        libraries = [str(folder / "carried"), *toolkit_folders(),
                     os.environ.get("LD_LIBRARY_PATH", "")]
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, libraries))}

    def path(self, name):
        path = self.folder / name
        if not path.exists():
            raise Skip(f"{name} is not there: built without CUDA")
        return str(path)

    def lacks(self, what):
        """Where there is a GPU, a program that finds none is broken; a second may be missing."""
        alone = re.search("no CUDA device($|:)", what)
        raise (Failed if self.has_gpu and alone else Skip)(what)

    def fresh(self, suffix):
        self.runs += 1
        return pathlib.Path(self.scratch.name) / f"{self.runs}{suffix}"

    def run(self, command, seconds=60, codes=(0,)):
        """The finished process; Skip where it lacks a device, a library or time."""
        left = self.deadline - time.monotonic()
        if left < 5:
            raise Skip("no time left")
        try:
            done = subprocess.run([str(each) for each in command], capture_output=True, text=True,
                                  timeout=min(seconds, left), env=self.environment,
                                  cwd=self.scratch.name)
        except subprocess.TimeoutExpired as over:
            raise Failed(f"{pathlib.Path(command[0]).name}: not done after {over.timeout:.0f} s")
        without = WITHOUT.search(done.stderr)
        if without and done.returncode != 0:
            self.lacks(without[0])
        if done.returncode not in codes:
            last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
            name = pathlib.Path(command[0]).name
            raise Failed(f"{name}: exit code {done.returncode}: {last}")
        return done

    def traced(self, store):
        """What to put before a command so that it runs under the agent."""
        return [self.path("bin/poolscope"), "run", "--no-report", "--store", store, "--"]

    def train(self, *flags, store=None, seconds=60):
        """Losses by step, and the summary; under the agent where there is a store."""
        log = self.fresh(".jsonl")
        command = [*(self.traced(store) if store else []), self.path("bin/poolscope-trainer"),
                   "--json-log", log, *flags]
        self.run(command, seconds)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        return [row["loss"] for row in rows if "loss" in row], rows[-1]

    def query(self, store, statement):
        done = self.run([self.path("bin/poolscope"), "sql", store, statement])
        return list(csv.DictReader(done.stdout.splitlines(), delimiter="\t",
                                   quoting=csv.QUOTE_NONE))

    def python(self, script, *arguments, seconds=100):
        return self.run([sys.executable, script, *arguments], seconds, codes=(0, 1))
