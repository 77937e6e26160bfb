"""A scenario does what its file says: scenario_test.py POOLSCOPE TRAINER FILE.

The run's report, from its store, holds what [[expect]] says (path, min, max; what = "..." is for
the reader). A path names list elements by their name or rule: pools.update.busy_ratio,
links.gradients.depth, findings.pool_imbalance.severity; "length" is that of a list. With `sql` an
expectation is about the one number that the statement gives. Where `exit` is given, the run ends
with it and a line that matches `error`. A run with the flags of `remedy` ends with 0; where `gain`
is given, it is as many times faster. Runs with the flags of `worse` are not faster.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

POOLSCOPE, TRAINER, FILE = sys.argv.pop(1), sys.argv.pop(1), Path(sys.argv.pop(1))
ABSENT = object()


def step(node, key):
    if isinstance(node, dict):
        return node.get(key, ABSENT)
    if isinstance(node, list):
        if key == "length":
            return len(node)
        for each in node:
            if key in (each.get("name"), each.get("rule")):
                return each
    return ABSENT


class Scenario(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.text = tomllib.loads(FILE.read_text())

    def job(self, name, *more):
        store = self.folder / f"{name}.db"
        done = subprocess.run(
            [POOLSCOPE, "run", "--no-report", "--store", store, "--", TRAINER, "--scenario",
             FILE.stem, "--json-log", self.folder / f"{name}.json", *more],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        return done, store

    def poolscope(self, *arguments):
        return subprocess.run([POOLSCOPE, *arguments], check=True, capture_output=True, text=True,
                              timeout=60).stdout

    def step_seconds(self, name):
        log = (self.folder / f"{name}.json").read_text().splitlines()
        return json.loads(log[-1])["step_seconds_median"]

    def again(self, flags):
        done, _ = self.job("again", *shlex.split(flags))
        self.assertEqual(done.returncode, 0, done.stderr)

    def check(self, expected, report, store):
        if "sql" in expected:
            at = expected["sql"]
            value = float(self.poolscope("sql", store, at).splitlines()[1])
        else:
            at, value = expected["path"], report
            for key in at.split("."):
                value = step(value, key)
        self.assertIsNot(value, ABSENT, f"{at} is missing")
        if "is" in expected:
            self.assertEqual(value, expected["is"], at)
        self.assertIsNotNone(value, at)
        if "min" in expected:
            self.assertGreaterEqual(value, expected["min"], at)
        if "max" in expected:
            self.assertLessEqual(value, expected["max"], at)

    def test_does_what_its_file_says(self):
        self.assertLessEqual({"title", "cause", "finding", "flags"}, self.text.keys())
        done, store = self.job("run")
        self.assertEqual(done.returncode, self.text.get("exit", 0), done.stderr)
        if "error" in self.text:
            self.assertRegex(done.stderr, re.compile(self.text["error"]))
        expectations = self.text.get("expect", [])
        report = {}
        if any("path" in each for each in expectations):
            report = json.loads(self.poolscope("report", store, "--format", "json"))
        for each in expectations:
            with self.subTest(each.get("path") or each.get("sql")):
                self.check(each, report, store)
        if "remedy" in self.text:
            self.again(self.text["remedy"])
        if "gain" in self.text:
            gain = self.step_seconds("run") / self.step_seconds("again")
            self.assertGreaterEqual(gain, self.text["gain"])
        for flags in self.text.get("worse", []):
            self.again(flags)
            self.assertGreater(self.step_seconds("again"), 0.99 * self.step_seconds("run"), flags)


if __name__ == "__main__":
    unittest.main(verbosity=2)
