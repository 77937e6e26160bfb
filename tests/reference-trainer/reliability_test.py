"""What a bad network leaves in a store: retries, wire stages, bytes and versions."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections import defaultdict

POOLSCOPE, TRAINER = sys.argv.pop(1), sys.argv.pop(1)
QUEUED, ENCODE, WIRE, DECODE, APPLY = range(5)
RETRY, CORRUPT, DUPLICATE, LOST = range(4)
EMULATED = ["--device", "emulated", "--math", "none", "--forward-ms", "2", "--backward-ms", "2",
            "--update-ms", "2", "--compute-workers", "3", "--update-workers", "2"]


class Reliability(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def trace(self, *arguments):
        self.store = os.path.join(self.folder.name, "run.db")
        subprocess.run([POOLSCOPE, "run", "--no-report", "--store", self.store, "--", TRAINER,
                        *EMULATED, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=100)
        self.stages = defaultdict(lambda: defaultdict(list))  # by link, (source, sequence): events
        self.faults = defaultdict(list)  # by link, kind: payloads
        for each in self.query("SELECT name, kind, category_name, start_ns, end_ns, payload FROM "
                               "event WHERE category_name IN ('transfer', 'fault')"):
            payload = json.loads(each["payload"])
            payload["start_ns"], payload["end_ns"] = int(each["start_ns"]), int(each["end_ns"])
            if each["category_name"] == "fault":
                self.assertEqual(each["kind"], "mark")
                self.faults[each["name"], payload["kind"]].append(payload)
            else:
                key = payload["source"], payload["sequence"]
                self.stages[each["name"]][key].append(payload)

    def query(self, statement):
        result = subprocess.run([POOLSCOPE, "sql", self.store, statement], check=True,
                                capture_output=True, text=True, timeout=60)
        return list(csv.DictReader(result.stdout.splitlines(), delimiter="\t",
                                   quoting=csv.QUOTE_NONE))

    def check_windows(self, link):
        """link_window says of the whole run what the events say."""
        row, = self.query("SELECT sum(retries) AS retries, sum(corrupt) AS corrupt, "
                          "sum(duplicates) AS duplicates, sum(lost) AS lost, sum(transfers) AS "
                          "transfers, sum(wire_bytes) AS wire_bytes FROM link_window WHERE link = "
                          f"'{link}'")
        for kind, column in enumerate(("retries", "corrupt", "duplicates", "lost")):
            self.assertEqual(int(row[column]), len(self.faults[link, kind]), column)
        wires = [each for stages in self.stages[link].values() for each in stages
                 if each["stage"] == WIRE]
        self.assertEqual(int(row["transfers"]), len(wires))
        again = sum(each["bytes"] for each in self.faults[link, RETRY])
        self.assertEqual(int(row["wire_bytes"]), sum(each["wire_bytes"] for each in wires) + again)

    def test_what_is_sent_again_is_within_one_wire_stage_and_counted(self):
        self.trace("--steps", "60", "--gradients-loss", "0.03", "--gradients-corruption", "0.03",
                   "--block-bytes", "100k", "--retransmit-timeout-ms", "20")
        self.check_windows("gradients")
        self.check_windows("weights")
        self.assertFalse(any(self.faults["weights", kind] for kind in range(4)))
        retries = self.faults["gradients", RETRY]
        self.assertGreater(len(retries), 50)  # of 1800 blocks, each lost or damaged in 0.06
        self.assertGreater(len(self.faults["gradients", CORRUPT]), 25)
        self.assertEqual({each["bytes"] for each in retries}, {100_000})
        messages = self.stages["gradients"]
        self.assertEqual(len(messages), 60 * 3 * 2 + 3)
        for stages in messages.values():  # once each, however often parts were sent
            self.assertEqual(len({each["stage"] for each in stages}), len(stages))
        wire = {key: each for key, stages in messages.items() for each in stages
                if each["stage"] == WIRE}
        inside = 0
        for each in retries:
            stage = wire[each["source"], each["sequence"]]
            self.assertEqual(stage["destination"], each["destination"])
            # Only where an acknowledgement was lost is a block sent again that has arrived.
            if each["start_ns"] <= stage["end_ns"]:
                inside += 1  # 20 ms after it left, less what the mark of its leaving was late
                self.assertGreaterEqual(stage["end_ns"] - stage["start_ns"], 10_000_000)
        self.assertGreater(inside, len(retries) / 3)
        settings = dict(each.values() for each in self.query("SELECT key, value FROM setting"))
        self.assertEqual(settings["gradients.reliability"], "reliable")
        self.assertEqual(settings["gradients.loss"], "0.03")
        self.assertNotIn("weights.reliability", settings)
        states = self.query("SELECT * FROM worker_window")
        for row in states:
            total = sum(int(value) for key, value in row.items()
                        if key.endswith("_ns") and key not in ("start_ns", "window_ns"))
            self.assertEqual(total, int(row["window_ns"]))

    def test_best_effort_weights_are_installed_once_and_never_older_over_newer(self):
        self.trace("--steps", "80", "--async", "--lag-bound", "6", "--weights-reliability",
                   "best-effort", "--weights-loss", "0.1", "--weights-reorder", "0.5",
                   "--weights-delay-ms", "3", "--weights-lanes", "4", "--weights-depth", "8")
        self.check_windows("weights")
        lost = {(each["source"], each["sequence"]) for each in self.faults["weights", LOST]}
        self.assertGreater(len(lost), 10)
        self.assertEqual(self.faults["weights", RETRY], [])
        installed = defaultdict(list)  # by shard and compute worker: versions
        for (source, sequence), stages in self.stages["weights"].items():
            for each in sorted(stages, key=lambda stage: stage["start_ns"]):
                if each["stage"] == APPLY:
                    installed[source, each["destination"]].append((each["start_ns"],
                                                                   each["version"]))
        self.assertEqual(len(installed), 2 * 3)
        for versions in installed.values():
            versions = [version for _, version in sorted(versions)]
            self.assertEqual(versions, sorted(set(versions)))
            self.assertEqual(versions[-1], 80)  # whatever was lost, the last one came
        overtaken = sum(stages[-1]["version"] not in
                        [version for _, version in installed[source, stages[-1]["destination"]]]
                        for (source, _), stages in self.stages["weights"].items())
        self.assertGreater(overtaken, 10)

    def test_a_dead_link_ends_the_run_with_one_line_and_exit_code_1(self):
        result = subprocess.run(
            [TRAINER, *EMULATED, "--weights-corruption", "1", "--retransmit-limit", "3"],
            capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertRegex(result.stderr, "link weights: message .* from worker .* 3 tries")


if __name__ == "__main__":
    unittest.main(verbosity=2)
