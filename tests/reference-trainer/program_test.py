"""The trainer as its user meets it: output, exit codes, signals."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TRAINER = sys.argv.pop(1)
FAST = ["--device", "emulated", "--math", "none", "--forward-ms", "1", "--backward-ms", "1",
        "--update-ms", "1"]


def run(*arguments):
    return subprocess.run([TRAINER, *arguments], capture_output=True, text=True, timeout=60,
                          check=False)


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, content=None):
        path = os.path.join(self.folder.name, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)
        return path

    def fails_with_one_line(self, code, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def test_data_that_cannot_be_used_is_one_line_and_exit_1(self):
        missing = self.path("missing")
        self.assertIn(missing, self.fails_with_one_line(1, "--data", missing))
        self.assertIn("empty", self.fails_with_one_line(1, "--data", self.path("e", b"")))
        self.assertIn("3 bytes", self.fails_with_one_line(1, "--data", self.path("s", b"abc")))
        self.assertIn("folder", self.fails_with_one_line(1, "--data", self.folder.name))
        if os.geteuid() != 0:
            locked = self.path("locked", b"x" * 1000)
            os.chmod(locked, 0)
            self.assertIn("Permission", self.fails_with_one_line(1, "--data", locked))

    def test_wrong_usage_is_one_line_and_exit_2(self):
        self.assertIn("--bogus", self.fails_with_one_line(2, "--bogus"))
        self.assertIn("--steps", self.fails_with_one_line(2, "--steps", "0"))

    def test_json_log_that_cannot_be_written_is_one_line_and_exit_1(self):
        self.assertIn("nowhere", self.fails_with_one_line(1, "--json-log", "/nowhere/x.json"))
        result = run(*FAST, "--steps", "3", "--json-log", "/dev/full")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_full_disk_behind_stdout_is_one_line_and_exit_1(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([TRAINER, *FAST, "--steps", "100", "--log-every", "1"],
                                    stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                    check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("No space left", result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_help_lists_the_flags(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--gradients-bandwidth", result.stdout)

    def test_logs_say_the_same_as_text_and_as_json(self):
        log = self.path("log.json")
        data = self.path("text", b"to be or not to be, that is the question. " * 100)
        result = run("--data", data, "--layers", "1", "--width", "16", "--heads", "2",
                     "--context", "16", "--steps", "20", "--log-every", "5", "--json-log", log)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(log, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        steps, summary = lines[:-1], lines[-1]
        self.assertEqual([each["step"] for each in steps], list(range(20)))
        for each in steps:
            self.assertGreater(each["loss"], 0)
            self.assertEqual(each["tokens"], 4 * 4 * 16)
            self.assertEqual(each["lag_mean"], 0)
        ends = [each["end_seconds"] for each in steps]
        self.assertEqual(ends, sorted(ends))
        self.assertEqual(summary["steps"], 20)
        mean = sum(each["loss"] for each in steps) / 20
        self.assertAlmostEqual(summary["final_loss"], mean, places=6)
        gaps = sorted(b - a for a, b in zip(ends[2:], ends[3:]))
        middle = (gaps[len(gaps) // 2] + gaps[(len(gaps) - 1) // 2]) / 2
        self.assertAlmostEqual(summary["step_seconds_median"], middle, places=6)
        rows = re.findall(r"^ +(\d+) +(\d\.\d+) ", result.stdout, re.MULTILINE)
        self.assertEqual([int(step) for step, _ in rows], [5, 10, 15, 20])
        last = sum(each["loss"] for each in steps[15:]) / 5
        self.assertAlmostEqual(float(rows[-1][1]), last, places=4)

    def test_signals_end_the_run_after_a_step_with_a_summary(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            for mode in ("--sync", "--async"):
                with subprocess.Popen([TRAINER, *FAST, mode, "--steps", "1000000", "--log-every",
                                       "1"], stdout=subprocess.PIPE, text=True) as process:
                    for line in process.stdout:
                        if re.match(r" +3 ", line):
                            break
                    process.send_signal(number)
                    rest = process.stdout.read()
                    process.wait(timeout=30)
                self.assertEqual(process.returncode, code)
                self.assertRegex(rest.splitlines()[-1], r"^\d+ steps, median ")

    def test_emulated_steps_take_their_time(self):
        begin = time.monotonic()
        result = run("--device", "emulated", "--math", "none", "--mode", "monolithic",
                     "--forward-ms", "10", "--backward-ms", "20", "--update-ms", "10",
                     "--micro-batches", "2", "--steps", "10")
        self.assertEqual(result.returncode, 0)
        self.assertGreaterEqual(time.monotonic() - begin, 10 * 0.070)


if __name__ == "__main__":
    unittest.main(verbosity=2)
