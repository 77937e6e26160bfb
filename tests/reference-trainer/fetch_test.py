"""Parameter fetch and experts as the store shows them."""

import unittest
from collections import Counter, defaultdict

from traced_run import APPLY, EMULATED, ENCODE, QUEUED, WIRE, TracedRun

FETCH = ["--weights-mode", "fetch", "--weights-depth", "8"]


class Fetch(TracedRun):
    def transfers(self, link):
        return {key: stages for key, stages in self.messages(link).items()
                if stages[QUEUED]["payload"]["step"] is not None}

    def counters(self, prefix):
        """By name: the samples, in order."""
        found = defaultdict(list)
        for each in self.events:
            if each["kind"] == "counter" and each["name"].startswith(prefix):
                found[each["name"]].append(float(each["value"]))
        return found

    def test_every_block_is_asked_for_and_answered_in_its_version(self):
        self.trace(*EMULATED, *FETCH, "--steps", "8", "--layers", "3", "--update-workers", "2",
                   "--cache-blocks", "2", "--serve-bandwidth", "5G")
        requests, weights = self.transfers("requests"), self.transfers("weights")
        self.assertGreater(len(weights), 8 * 4 * 3)
        self.assertEqual(len(requests), len(weights))
        asked = Counter((each[WIRE]["payload"]["source"], each[WIRE]["payload"]["destination"])
                        for each in requests.values())
        answered = Counter((each[WIRE]["payload"]["destination"], each[WIRE]["payload"]["source"])
                           for each in weights.values())
        self.assertEqual(asked, answered)
        for each in requests.values():
            self.assertEqual(set(each), {QUEUED, WIRE, APPLY})
            server = each[APPLY]["payload"]["destination"]
            self.assertEqual(each[APPLY]["thread"], f"serve/update/{server}")
        for each in weights.values():
            self.assertEqual(set(each), {QUEUED, ENCODE, WIRE, APPLY})
            payload = each[APPLY]["payload"]
            self.assertEqual(each[ENCODE]["thread"], f"serve/update/{payload['source']}")
            self.assertEqual((each[APPLY]["pool"], each[APPLY]["worker_index"]),
                             ("compute", payload["destination"]))
            self.assertEqual(payload["version"], payload["step"])
        waits = [each for each in self.of("wait_link", pool="compute", name="weights")
                 if each["payload"]["source"] is not None]
        self.assertGreater(len(waits), 20)
        for each in waits:
            message = weights[each["payload"]["source"], each["payload"]["sequence"]]
            self.assertGreaterEqual(each["end_ns"], message[WIRE]["end_ns"])
        served = self.counters("update.")
        for server in range(2):
            own = [each for each in weights.values() if each[WIRE]["payload"]["source"] == server]
            self.assertEqual(served[f"update.{server}.served_requests"][-1], len(own))
            self.assertEqual(served[f"update.{server}.served_bytes"][-1],
                             sum(each[WIRE]["payload"]["raw_bytes"] for each in own))
        # A stage of at most 4 blocks, as much ahead, the cache.
        self.assertLessEqual(max(self.counters("resident_blocks")["resident_blocks"]), 4 + 4 + 2)
        self.assertEqual(set(self.counters("hotness.")),
                         {"hotness." + each for each in
                          ("embedding", "layer0", "layer1", "layer2", "head")})
        self.assertEqual(self.settings()["weights.mode"], "fetch")
        link, = self.query("SELECT from_pool, to_pool FROM link WHERE link = 'requests'")
        self.assertEqual((link["from_pool"], link["to_pool"]), ("compute", "update"))
        self.check_no_overlap()

    def waited_for_weights(self):
        return sum(each["end_ns"] - each["start_ns"] for each in
                   self.of("wait_link", pool="compute", name="weights"))

    def test_without_prefetch_the_latency_of_the_links_is_waited_for(self):
        waited = []
        for depth in ("0", "2"):
            self.trace(*EMULATED[:4], *FETCH, "--async", "--steps", "12", "--layers", "4",
                       "--width", "128", "--prefetch-depth", depth, "--forward-ms", "10",
                       "--backward-ms", "20", "--weights-latency-ms", "3",
                       "--requests-latency-ms", "3")
            waited.append(self.waited_for_weights())
        self.assertGreater(waited[0], 2 * waited[1])

    def test_serving_between_operations_is_done_by_the_update_worker(self):
        self.trace(*EMULATED, *FETCH, "--steps", "5", "--serving", "between", "--replication", "2",
                   "--update-workers", "2", "--serve-bandwidth", "5G")
        weights = self.transfers("weights")
        self.assertGreater(len(weights), 20)
        updates = self.of("work", pool="update", name="optimizer")
        for each in weights.values():
            encode = each[ENCODE]
            self.assertEqual(encode["pool"], "update")
            for update in updates:
                if update["worker_index"] == encode["worker_index"]:
                    self.assertFalse(update["start_ns"] < encode["end_ns"] and
                                     encode["start_ns"] < update["end_ns"])
        # Each shard's values once a version, the first ones among them, to the other worker.
        self.assertEqual(len(self.transfers("replicas")), 2 * 6)

    def test_load_of_experts_is_counted(self):
        self.trace(*EMULATED, "--steps", "4", "--experts", "4", "--experts-per-token", "2",
                   "--batch", "8", "--context", "32")
        tokens = self.counters("experts.")
        self.assertEqual(set(tokens), {f"experts.{each}.tokens" for each in range(4)})
        self.assertEqual(sum(each[-1] for each in tokens.values()), 4 * 4 * 8 * 32 * 2)
        passes = Counter((each["name"], each["payload"]["step"], each["payload"]["micro_batch"])
                         for each in self.of("work", pool="compute"))
        # Embedding (forward alone), layer, experts, head.
        self.assertEqual(set(passes.values()), {3, 4})
        self.assertEqual(len(passes), 2 * 4 * 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
