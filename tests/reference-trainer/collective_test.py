"""What workers of one pool do together, read back from the store."""

import unittest

from traced_run import WIRE, TracedRun


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


if __name__ == "__main__":
    unittest.main(verbosity=2)
