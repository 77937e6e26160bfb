"""A run of the trainer under the agent, and what its store holds."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections import defaultdict

POOLSCOPE, TRAINER = sys.argv.pop(1), sys.argv.pop(1)
QUEUED, ENCODE, WIRE, DECODE, APPLY, RECEIVE = range(6)
EMULATED = ["--device", "emulated", "--math", "none", "--forward-ms", "1", "--backward-ms", "1",
            "--update-ms", "1"]


class TracedRun(unittest.TestCase):
    runs = 0

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def trace(self, *arguments, launcher=()):
        self.runs += 1
        self.store = os.path.join(self.folder.name, f"run{self.runs}.db")
        subprocess.run([POOLSCOPE, "run", "--no-report", "--store", self.store, "--", *launcher,
                        TRAINER, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=100)
        self.events = self.query("SELECT pool, worker_index, thread, kind, name, category_name, "
                                 "start_ns, end_ns, value, payload FROM event ORDER BY start_ns")
        for each in self.events:
            each["payload"] = json.loads(each["payload"]) if each["payload"] else {}
            for key in ("worker_index", "start_ns", "end_ns"):
                each[key] = int(each[key])

    def query(self, statement):
        result = subprocess.run([POOLSCOPE, "sql", self.store, statement], check=True,
                                capture_output=True, text=True, timeout=60)
        return list(csv.DictReader(result.stdout.splitlines(), delimiter="\t",
                                   quoting=csv.QUOTE_NONE))

    def of(self, category, **where):
        return [each for each in self.events if each["category_name"] == category
                and all(each[key] == value for key, value in where.items())]

    def messages(self, link):
        """By (source, sequence): the stages of each transfer."""
        found = defaultdict(dict)
        for each in self.of("transfer", name=link, kind="range"):
            payload = each["payload"]
            stages = found[payload["source"], payload["sequence"]]
            self.assertNotIn(payload["stage"], stages, payload)
            stages[payload["stage"]] = each
        return found

    def check_no_overlap(self):
        """Of work and waits on the thread of one worker."""
        by_worker = defaultdict(list)
        for each in self.events:
            if each["pool"] and each["kind"] == "range" and each["category_name"] != "transfer":
                by_worker[each["pool"], each["worker_index"]].append(each)
        for ranges in by_worker.values():
            for before, after in zip(ranges, ranges[1:]):
                self.assertLessEqual(before["end_ns"], after["start_ns"])

    def settings(self):
        return {each["key"]: each["value"] for each in self.query("SELECT key, value FROM setting")}
