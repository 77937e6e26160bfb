"""What workers do besides their work, read back from the store."""

import unittest

from traced_run import TracedRun

MATHLESS = ["--device", "emulated", "--math", "none"]


class Behaviours(TracedRun):
    def spent(self, pool, state):
        """Seconds that the workers of a pool were in a state."""
        (row,) = self.query(f"SELECT sum({state}_ns) AS ns FROM worker_window "
                            f"WHERE pool = '{pool}'")
        return int(row["ns"]) / 1e9

    def test_waiting_for_data_is_input_and_a_loader_ahead_takes_it_away(self):
        slow = [*MATHLESS, "--steps", "20", "--forward-ms", "6", "--backward-ms", "6",
                "--update-ms", "1", "--data-delay-ms", "6"]
        self.trace(*slow)
        alone = self.spent("compute", "input")
        # 80 micro-batches of 6 ms, each prepared by the worker that computes it for 12 ms.
        self.assertGreater(alone, 0.45)
        self.assertEqual(len(self.of("input", name="data", pool="compute")), 80)
        self.assertEqual(self.settings()["data.delay_ms"], "6")
        self.trace(*slow, "--data-workers", "3", "--data-prefetch", "8")
        self.assertLess(self.spent("compute", "input"), 0.4 * alone)
        prepared = [each for each in self.of("input", name="data") if not each["pool"]]
        self.assertGreaterEqual(len(prepared), 80)
        self.assertLessEqual(len(prepared), 80 + 8)
        self.assertEqual({each["thread"] for each in prepared}, {"data/0", "data/1", "data/2"})
        ready = [float(each["value"]) for each in self.events if each["name"] == "data.ready"]
        self.assertLessEqual(max(ready), 8 + 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
