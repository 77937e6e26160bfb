"""A collective, overlap and rollouts, read back from the store."""

import statistics
import subprocess
import unittest
from collections import defaultdict

from traced_run import APPLY, ENCODE, POOLSCOPE, QUEUED, WIRE, TracedRun


class Collective(TracedRun):
    def spent(self, pool, state):
        """Seconds that the workers of a pool were in a state."""
        (row,) = self.query(f"SELECT sum({state}_ns) AS ns FROM worker_window "
                            f"WHERE pool = '{pool}'")
        return int(row["ns"]) / 1e9

    def test_waiting_for_peers_is_wait_peer_and_a_straggler_makes_more_of_it(self):
        ring = ["--device", "emulated", "--math", "none", "--steps", "15", "--forward-ms", "4",
                "--backward-ms", "8", "--update-ms", "1", "--compute-workers", "3",
                "--micro-batches", "3", "--gradient-bytes", "3M", "--compute-allreduce",
                "--allreduce-bandwidth", "1G", "--allreduce-latency-ms", "1"]
        self.trace(*ring)
        together = self.spent("compute", "wait_peer")
        # 15 steps of 3 workers, 4 hops of 1 MB.
        self.assertGreater(together, 15 * 3 * 4 * 2e-3 * 0.9)
        stages = self.messages("allreduce")
        self.assertEqual(len(stages), 15 * 3 * 4)
        self.assertEqual({each[WIRE]["payload"]["wire_bytes"] for each in stages.values()},
                         {1_000_000})
        sums = [each for each in self.messages("gradients").values()
                if each[WIRE]["payload"]["step"] is not None]
        self.assertEqual(len(sums), 15)
        (row,) = self.query("SELECT from_pool || to_pool AS ends FROM link "
                            "WHERE link = 'allreduce'")
        self.assertEqual(row["ends"], "computecompute")
        self.assertEqual(self.settings()["compute.allreduce"], "ring")
        self.trace(*ring, "--slow", "compute/1=4")
        self.assertGreater(self.spent("compute", "wait_peer"), together + 15 * 2 * 30e-3)

    def test_adding_is_work_and_all_of_a_worker_fits_together(self):
        self.trace("--steps", "6", "--compute-workers", "4", "--compute-allreduce")
        self.check_no_overlap()
        added = self.of("work", name="reduce", pool="compute")
        self.assertEqual(len(added), 6 * 4 * 3)
        self.assertEqual({each["payload"]["micro_batch"] for each in added}, {None})

    def check_nothing_is_predicted(self, reason):
        report = subprocess.run([POOLSCOPE, "report", self.store], check=True, capture_output=True,
                                text=True, timeout=60).stdout
        self.assertIn("Nothing is predicted: the what-if knows " + reason, report)

    def ends_of_backward(self):
        """By worker and step."""
        ends = {}
        for each in self.of("work", name="backward"):
            ends[each["worker_index"], each["payload"]["step"]] = each["end_ns"]
        return ends

    def exposed(self):
        """Seconds from the end of a step's backward passes to the step's, median."""
        ends = defaultdict(int)
        for (_, step), end in self.ends_of_backward().items():
            ends[step] = max(ends[step], end)
        return statistics.median(each["start_ns"] - ends[each["payload"]["step"]]
                                 for each in self.of("step")) / 1e9

    def test_in_buckets_gradients_travel_during_the_backward_pass(self):
        slow = ["--device", "emulated", "--math", "none", "--steps", "12", "--forward-ms", "4",
                "--backward-ms", "24", "--update-ms", "1", "--micro-batches", "2",
                "--gradient-bytes", "12M", "--gradients-bandwidth", "1G", "--gradients-depth", "8",
                "--gradients-codec", "bf16"]
        self.trace(*slow)
        at_the_end = self.exposed()
        self.trace(*slow, "--gradient-buckets", "6")
        self.assertLess(self.exposed(), 0.6 * at_the_end)
        self.assertEqual(self.settings()["gradients.buckets"], "6")
        self.check_nothing_is_predicted("gradients that go out after their pass")
        ended = self.ends_of_backward()
        early = defaultdict(int)  # pieces that were sent before that, by step
        for stages in self.messages("gradients").values():
            wire = stages[WIRE]["payload"]
            if wire["step"] is None:
                continue
            self.assertLessEqual({ENCODE, QUEUED, WIRE, APPLY}, stages.keys())
            self.assertEqual(stages[ENCODE]["thread"], f"compute/{wire['source']}/send")
            self.assertEqual(wire["raw_bytes"], 2_000_000)
            early[wire["step"]] += (stages[WIRE]["start_ns"]
                                    < ended[wire["source"], wire["step"]])
        self.assertEqual(len(early), 12)
        self.assertGreater(sum(early.values()), 12 * 2 * 4)

    def test_rollouts_are_busy_by_their_occupancy_and_what_is_too_old_was_for_nothing(self):
        rollouts = ["--layout", "rl", "--device", "emulated", "--math", "none", "--async",
                    "--rollout-slots", "4", "--rollout-tokens", "32", "--forward-ms", "0.1",
                    "--backward-ms", "0.1", "--update-ms", "1", "--steps", "15"]
        in_turn = [*rollouts, "--micro-batches", "8", "--lag-bound", "0"]
        self.trace(*in_turn)
        even = self.spent("rollout", "busy") / (self.spent("rollout", "idle") + 1e-9)
        self.trace(*in_turn, "--rollout-tail", "1")
        self.assertLess(self.spent("rollout", "busy") / self.spent("rollout", "idle"), 0.5 * even)
        self.assertEqual(self.spent("rollout", "busy_discarded"), 0)
        occupied = {float(each["value"]) for each in self.events
                    if each["name"] == "rollout.occupancy"}
        self.assertEqual(occupied, {0.25, 0.5, 0.75, 1})
        settings = self.settings()
        self.assertEqual((settings["layout"], settings["rollout.slots"]), ("rl", "4"))
        self.check_nothing_is_predicted("no workers that make several sequences")
        lags = [stages[APPLY]["payload"]["applied_version"] - stages[APPLY]["payload"]["version"]
                for stages in self.messages("samples").values() if APPLY in stages]
        self.assertEqual(lags, [0] * 15 * 8)
        self.trace(*rollouts, "--rollout-tail", "1", "--stale", "recompute", "--lag-bound", "1",
                   "--micro-batches", "4")
        self.assertGreater(self.spent("rollout", "busy_discarded"), 0)
        given_up = [each["payload"] for each in self.of("discard", name="samples")
                    if each["payload"]["sequence"] is None]
        self.assertGreater(len(given_up), 0)
        sent = {(stages[WIRE]["payload"]["step"], stages[WIRE]["payload"]["micro_batch"])
                for stages in self.messages("samples").values()}
        self.assertFalse(sent & {(each["step"], each["micro_batch"]) for each in given_up})
        lags = [stages[APPLY]["payload"]["applied_version"] - stages[APPLY]["payload"]["version"]
                for stages in self.messages("samples").values() if APPLY in stages]
        self.assertEqual((len(lags), max(lags)), (15 * 4, 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
