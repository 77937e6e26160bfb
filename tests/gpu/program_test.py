"""poolscope-trainer --device cuda as a program: its curve and its store on a GPU, and its one line
of error where there is none."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

POOLSCOPE, TRAINER = sys.argv.pop(1), sys.argv.pop(1)
NO_DEVICE = "poolscope-trainer: no CUDA device: "


def train(*arguments):
    return subprocess.run([TRAINER, *arguments], capture_output=True, text=True, timeout=100)


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def losses(self, *arguments):
        log = self.path("log.jsonl")
        done = train("--steps", "30", "--json-log", log, *arguments)
        if done.stderr.startswith(NO_DEVICE):
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(log, encoding="utf-8") as lines:
            return [each["loss"] for each in map(json.loads, lines) if "loss" in each]

    def test_without_a_device_one_line_says_so_and_nothing_is_written(self):
        log = self.path("log.jsonl")
        done = train("--device", "cuda:200", "--gemm", "own", "--json-log", log)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"^poolscope-trainer: no CUDA device.*\n$")
        self.assertFalse(os.path.exists(log))

    def test_nccl_with_fewer_than_two_gpus_is_refused_in_one_line(self):
        for devices in (["--device", "cuda:0"],
                        ["--compute-device", "cuda:0", "--update-device", "cuda:1"]):
            done = train(*devices, "--gemm", "own", "--transport", "nccl", "--steps", "2")
            if done.returncode == 0:  # the second time, on a machine with two
                continue
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"^poolscope-trainer: --transport nccl"
                             r"( needs two GPUs, (this machine has \d|all workers are on cuda:0)|"
                             r": this poolscope-trainer was built without .*)\n$")

    def test_over_nccl_the_curve_is_the_same(self):
        apart = ["--compute-device", "cuda:0", "--update-device", "cuda:1", "--gemm", "own"]
        done = train(*apart, "--transport", "nccl", "--steps", "1")
        if done.returncode == 1 and done.stderr.startswith("poolscope-trainer: --transport nccl"):
            self.skipTest(done.stderr.strip())
        self.assertEqual(self.losses(*apart, "--transport", "nccl"), self.losses(*apart))

    def test_disaggregated_is_the_monolithic_curve(self):
        both = ["--device", "cuda:0", "--gemm", "own"]
        alone = self.losses(*both, "--mode", "monolithic")
        apart = self.losses(*both, "--compute-workers", "3", "--update-workers", "2")
        for one, other in zip(alone, apart, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-5 * one)

    def test_updates_on_the_host_are_the_curve_of_the_cpu(self):
        cpu = self.losses()
        offloaded = self.losses("--compute-device", "cuda:0", "--gemm", "own")
        for one, other in zip(cpu, offloaded, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-3 * one)

    def test_work_on_a_device_is_annotated_without_cpu_time(self):
        self.losses("--compute-device", "cuda:0", "--gemm", "own")  # skips
        store = self.path("run.db")
        subprocess.run([POOLSCOPE, "run", "--no-report", "--store", store, "--", TRAINER,
                        "--steps", "20", "--compute-device", "cuda:0", "--gemm", "own"],
                       check=True, stdout=subprocess.DEVNULL, timeout=100)
        result = subprocess.run(
            [POOLSCOPE, "sql", store, "SELECT name, count(*) AS n, max(cpu_ns) AS cpu_ns FROM "
             "event WHERE kind = 'work' GROUP BY name"],
            check=True, capture_output=True, text=True, timeout=60)
        rows = {row["name"]: row for row in csv.DictReader(result.stdout.splitlines(),
                                                           delimiter="\t")}
        self.assertEqual(rows["forward"]["cpu_ns"], "")
        self.assertEqual(rows["backward"]["cpu_ns"], "")
        self.assertNotEqual(rows["optimizer"]["cpu_ns"], "")


if __name__ == "__main__":
    unittest.main()
