"""The trainer's annotations under the agent: complete, and consistent with each other."""

import unittest
from collections import Counter

from traced_run import APPLY, DECODE, EMULATED, ENCODE, QUEUED, WIRE, TracedRun


class Annotations(TracedRun):
    def check_transfers(self, link, count, stages, receivers):
        messages = self.messages(link)
        probes = [key for key, each in messages.items() if each[QUEUED]["payload"]["step"] is None]
        self.assertEqual(len(probes), 3)
        for key in probes:
            self.assertEqual(set(messages.pop(key)), {QUEUED, WIRE})
        self.assertEqual(len(messages), count)
        for each in messages.values():
            self.assertEqual(set(each), stages)
            for before, after in zip(sorted(stages), sorted(stages)[1:]):
                if before != QUEUED and after != ENCODE:
                    self.assertLessEqual(each[before]["end_ns"], each[after]["start_ns"])
            if ENCODE in stages:
                self.assertEqual(each[ENCODE]["worker_index"], each[ENCODE]["payload"]["source"])
                self.assertLessEqual(each[ENCODE]["end_ns"], each[QUEUED]["start_ns"])
            self.assertLessEqual(each[QUEUED]["end_ns"], each[WIRE]["start_ns"])
            self.assertEqual(each[WIRE]["thread"], f"link/{link}/0")
            self.assertEqual(each[APPLY]["pool"], receivers)
            self.assertEqual(each[APPLY]["worker_index"], each[APPLY]["payload"]["destination"])
        return messages

    def check_waits(self):
        for each in self.of("wait_link"):
            payload = each["payload"]
            message = self.messages(each["name"])[payload["source"], payload["sequence"]]
            # The wait ended with that message: after it came, and after the wait began.
            self.assertGreaterEqual(each["end_ns"], message[WIRE]["end_ns"])
            self.assertEqual(message[WIRE]["payload"]["destination"], each["worker_index"])

    def test_synchronous_on_the_cpu_with_bf16(self):
        self.trace("--steps", "6", "--compute-workers", "3", "--update-workers", "2", "--layers",
                   "1", "--width", "16", "--heads", "2", "--gradients-codec", "bf16")
        everything = {QUEUED, ENCODE, WIRE, DECODE, APPLY}
        gradients = self.check_transfers("gradients", 6 * 3 * 2, everything, "update")
        self.check_transfers("weights", 6 * 2 * 3, everything, "compute")
        self.check_no_overlap()
        for each in gradients.values():
            payload = each[APPLY]["payload"]
            self.assertEqual(payload["codec"], "bf16")
            self.assertEqual(payload["wire_bytes"] * 2, payload["raw_bytes"])
            self.assertEqual(payload["version"], payload["applied_version"])
        work = Counter(each["name"] for each in self.of("work"))
        self.assertEqual(work, {"forward": 24, "backward": 24, "optimizer": 12})
        keys = [(each["payload"]["step"], each["payload"]["micro_batch"])
                for each in self.of("work", name="forward")]
        self.assertEqual(sorted(keys), [(step, m) for step in range(6) for m in range(4)])
        for each in self.of("work"):
            self.assertLessEqual(each["payload"]["cpu_ns"], each["end_ns"] - each["start_ns"])
            self.assertEqual(each["payload"]["scope"], 1 if each["name"] == "optimizer" else 0)
        steps = self.of("step")
        self.assertEqual([each["payload"]["version"] for each in steps], list(range(1, 7)))
        self.assertTrue(all(each["payload"]["loss"] > 0 for each in steps))
        self.assertEqual({each["worker_index"] for each in steps}, {0})
        settings = self.settings()
        for key, value in {"trainer": "poolscope-trainer", "mode": "sync", "device": "cpu",
                           "compute.workers": "3", "update.workers": "2", "micro_batches": "4",
                           "gradients.codec": "bf16", "weights.codec": "none",
                           "gradients.depth": "2", "codec.bf16.ratio": "0.5"}.items():
            self.assertEqual(settings[key], value)
        self.assertGreater(float(settings["codec.bf16.encode_bytes_per_second"]), 1e6)
        counters = {each["name"].split(".")[0] if each["name"].startswith("optimizer_state")
                    else each["name"] for each in self.events if each["kind"] == "counter"}
        self.assertEqual(counters, {"gradients.depth", "weights.depth", "update.version", "loss",
                                    "gradient_norm", "tokens", "optimizer_state_bytes",
                                    "compute.workers", "micro_batches", "sequences"})

    def test_chains_of_codecs_are_named_measured_and_sized_by_message(self):
        self.trace("--steps", "8", "--layers", "1", "--width", "16", "--heads", "2",
                   "--gradients-codec", "topk:0.01+zstd", "--weights-codec", "1bit-delta")
        everything = {QUEUED, ENCODE, WIRE, DECODE, APPLY}
        gradients = self.check_transfers("gradients", 8 * 2, everything, "update")
        weights = self.check_transfers("weights", 8 * 2, everything, "compute")
        for each in gradients.values():
            for stage in everything:
                payload = each[stage]["payload"]
                self.assertEqual(payload["codec"], "topk:0.01+zstd")
                self.assertLess(payload["wire_bytes"], 0.025 * payload["raw_bytes"])
        ratios = sorted(each[WIRE]["payload"]["wire_bytes"] / each[WIRE]["payload"]["raw_bytes"]
                        for each in weights.values())
        # Of each of two streams the first message is complete, the others have 1.25 bits a value.
        self.assertEqual([round(each, 2) for each in ratios], [0.04] * 14 + [1.0] * 2)
        settings = self.settings()
        self.assertEqual(settings["gradients.codec"], "topk:0.01+zstd")
        self.assertEqual(settings["weights.codec"], "1bit-delta")
        self.assertEqual(settings["codec.bf16.ratio"], "0.5")
        for codec, ratio in (("topk:0.01+zstd", 0.02), ("1bit-delta", 1.25 / 32)):
            self.assertAlmostEqual(float(settings[f"codec.{codec}.ratio"]), ratio, delta=0.005)
            for way in ("encode", "decode"):
                rate = float(settings[f"codec.{codec}.{way}_bytes_per_second"])
                self.assertGreater(rate, 1e6)

    def test_synchronous_waits_name_the_message_that_ended_them(self):
        self.trace(*EMULATED, "--steps", "5", "--compute-workers", "2", "--weights-latency-ms", "3")
        self.check_waits()
        self.assertGreater(len(self.of("wait_link", pool="compute", name="weights")), 5)
        self.assertGreater(len(self.of("wait_link", pool="update", name="gradients")), 3)

    def test_asynchronous_on_an_emulated_device(self):
        self.trace(*EMULATED, "--async", "--steps", "10", "--compute-workers", "3",
                   "--update-workers", "2", "--gradients-depth", "1", "--gradient-bytes", "8M",
                   "--gradients-bandwidth", "2G")
        gradients = self.check_transfers("gradients", 10 * 4 * 2, {QUEUED, WIRE, APPLY}, "update")
        self.check_no_overlap()
        self.check_waits()
        for each in gradients.values():
            payload = each[APPLY]["payload"]
            self.assertEqual(payload["raw_bytes"], 4_000_000)
            self.assertIn(payload["applied_version"] - payload["version"], (0, 1))
        self.assertTrue(self.of("blocked_link", pool="compute", name="gradients"))
        self.assertTrue(all(each["payload"]["cpu_ns"] is None for each in self.of("work")))
        depth = [float(each["value"]) for each in self.events if each["name"] == "gradients.depth"
                 and each["kind"] == "counter"]
        self.assertLessEqual(max(depth), 2)
        link, = self.query("SELECT * FROM link WHERE link = 'gradients'")
        self.assertEqual((link["from_pool"], link["to_pool"], link["capacity"], link["lanes"]),
                         ("compute", "update", "2", "1"))

    def test_discarded_gradients_are_marked_once_per_message(self):
        self.trace(*EMULATED, "--async", "--stale", "drop", "--lag-bound", "0", "--steps", "10",
                   "--weights-latency-ms", "5", "--update-workers", "2")
        discards = self.of("discard", name="gradients")
        keys = [(each["payload"]["source"], each["payload"]["sequence"]) for each in discards]
        self.assertGreater(len(keys), 0)
        self.assertEqual(len(keys), len(set(keys)))
        messages = self.messages("gradients")
        for key in keys:
            self.assertNotIn(APPLY, messages[key])
        computed = {(each["worker_index"], each["payload"]["step"], each["payload"]["micro_batch"])
                    for each in self.of("work", name="backward")}
        for each in discards:
            payload = each["payload"]
            self.assertIn((payload["source"], payload["step"], payload["micro_batch"]), computed)

    def test_monolithic_has_one_pool_and_no_links(self):
        self.trace(*EMULATED, "--mode", "monolithic", "--steps", "3")
        self.assertEqual({(each["pool"], each["worker_index"]) for each in self.of("work")},
                         {("compute", 0)})
        self.assertEqual(self.query("SELECT * FROM link"), [])
        self.assertEqual(len(self.of("step")), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
