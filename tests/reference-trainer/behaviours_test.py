"""What workers do besides their work, read back from the store."""

import statistics
import unittest

from traced_run import APPLY, DECODE, ENCODE, QUEUED, WIRE, TracedRun

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

    def median(self, name, worker, steps):
        """Milliseconds of a worker's operation in these steps."""
        return statistics.median((each["end_ns"] - each["start_ns"]) / 1e6
                                 for each in self.of("work", name=name, worker_index=worker)
                                 if each["payload"]["step"] in steps)

    def test_a_slow_worker_is_slow_in_its_steps_alone_and_a_stall_happens_once(self):
        self.trace(*MATHLESS, "--steps", "24", "--forward-ms", "4", "--backward-ms", "4",
                   "--update-ms", "4", "--slow", "compute/1=2.5@8-15", "--stall", "update/0@5:150")
        slow = self.median("forward", 1, range(8, 16))
        for worker, steps in ((1, range(8)), (1, range(16, 24)), (0, range(8, 16))):
            self.assertGreater(slow, 2 * self.median("forward", worker, steps))
        stalled = [each["payload"]["step"] for each in self.of("work", name="optimizer")
                   if each["end_ns"] - each["start_ns"] > 100e6]
        self.assertEqual(stalled, [5])
        self.assertEqual(self.settings()["slow.compute/1"], "2.5")

    def test_a_slow_worker_of_real_arithmetic_takes_wall_time_not_cpu_time(self):
        self.trace("--steps", "10", "--slow", "compute/0=4")
        def shares(worker):
            return [each["payload"]["cpu_ns"] / (each["end_ns"] - each["start_ns"])
                    for each in self.of("work", name="backward", worker_index=worker)]
        self.assertLess(max(shares(0)), 0.3)
        self.assertGreater(max(shares(1)), 0.5)

    def test_pauses_lie_around_transfers(self):
        self.trace("--steps", "8", "--pause-link", "gradients:before=6,after=9")
        decoded = 0
        for stages in self.messages("gradients").values():
            if ENCODE not in stages:  # a probe
                continue
            self.assertGreater(stages[QUEUED]["start_ns"] - stages[ENCODE]["end_ns"], 6e6)
            self.assertGreater(stages[DECODE]["start_ns"] - stages[WIRE]["end_ns"], 9e6)
            decoded += 1
        self.assertEqual(decoded, 16)
        weights = [each[DECODE]["start_ns"] - each[WIRE]["end_ns"]
                   for each in self.messages("weights").values() if DECODE in each]
        self.assertLess(min(weights), 6e6)
        self.assertGreater(self.spent("update", "idle"), 0.5 * 16 * 9e-3)

    def test_side_work_fills_waits_and_holds_own_work_up_for_less_than_a_slice(self):
        self.trace(*MATHLESS, "--steps", "25", "--forward-ms", "5", "--backward-ms", "5",
                   "--update-ms", "3", "--side-work", "synthetic", "--side-work-ms", "2")
        slices = self.of("other_work", name="synthetic")
        self.assertEqual({each["pool"] for each in slices}, {"update"})
        wall = self.events[-1]["end_ns"] - self.events[0]["start_ns"]
        self.assertGreater(self.spent("update", "other_work"), 0.5e-9 * wall)
        self.assertLess(self.spent("update", "wait_link"), 0.2e-9 * wall)
        # No slice is begun once a message is there, but for one that is just about to be.
        late = 0
        messages = [stages for stages in self.messages("gradients").values() if APPLY in stages]
        for stages in messages:
            late += any(stages[WIRE]["end_ns"] < each["start_ns"] < stages[APPLY]["start_ns"]
                        for each in slices)
        self.assertEqual(len(messages), 50)
        self.assertLess(late, 10)
        self.check_no_overlap()
        self.assertEqual(self.settings()["side_work.slice_ms"], "2")

    def test_data_prepared_by_an_idle_pool_is_not_waited_for(self):
        slow = [*MATHLESS, "--steps", "20", "--forward-ms", "6", "--backward-ms", "6",
                "--update-ms", "1", "--data-delay-ms", "4"]
        self.trace(*slow)
        alone = self.spent("compute", "input")
        self.trace(*slow, "--side-work", "data-preparation", "--data-prefetch", "8")
        self.assertLess(self.spent("compute", "input"), 0.5 * alone)
        slices = self.of("other_work", name="data-preparation", pool="update")
        self.assertGreater(len(slices), 80)

    def test_a_device_that_waits_for_its_host_is_host_bound_and_launching_ahead_helps(self):
        slow = [*MATHLESS, "--steps", "15", "--forward-ms", "5", "--backward-ms", "5",
                "--update-ms", "1", "--host-ms", "5", "--launch-ahead"]
        self.trace(*slow, "0")
        serial = self.spent("compute", "host_bound")
        # 15 steps, 4 micro-batches, 2 operations, 5 ms each.
        self.assertGreater(serial, 0.55)
        self.assertGreater(self.spent("compute", "busy"), 0.55)
        self.trace(*slow, "8")
        self.assertLess(self.spent("compute", "host_bound"), 0.6 * serial)
        launches = self.of("host", pool="compute")
        self.assertEqual(len(launches), 15 * 8)
        work = self.of("work", pool="compute")
        self.assertEqual({each["thread"] for each in work},
                         {"compute/0/device", "compute/1/device"})
        self.assertEqual({each["thread"] for each in launches}, {"compute/0", "compute/1"})
        self.assertEqual(self.settings()["host.launch_ahead"], "8")


if __name__ == "__main__":
    unittest.main(verbosity=2)
