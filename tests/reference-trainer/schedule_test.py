"""How steps were planned and who computed them, read back from the store."""

import json
import subprocess
import unittest

from traced_run import EMULATED, POOLSCOPE, TracedRun

SLOWER = ["--device", "emulated", "--math", "none", "--forward-ms", "5", "--backward-ms", "5",
          "--update-ms", "1"]


class Schedule(TracedRun):
    def life(self, worker):
        """When a compute worker's events and windows begin and end: (events, windows), in ns."""
        own = [each for each in self.events if each["pool"] == "compute"
               and each["worker_index"] == worker]
        windows = self.query("SELECT start_ns, window_ns FROM worker_window WHERE pool = 'compute' "
                             f"AND worker_index = {worker}")
        return ((min(each["start_ns"] for each in own), max(each["end_ns"] for each in own)),
                (min(int(each["start_ns"]) for each in windows),
                 max(int(each["start_ns"]) + int(each["window_ns"]) for each in windows)))

    def counter(self, name):
        return [float(each["value"]) for each in self.events
                if each["kind"] == "counter" and each["name"] == name]

    def test_workers_that_come_go_and_die_are_there_for_as_long_as_they_were(self):
        for mode in ([], ["--async"]):
            self.trace(*SLOWER, *mode, "--steps", "140", "--compute-workers", "4",
                       "--update-workers", "2", "--leave", "1@20.5", "--kill", "compute/2@40.5",
                       "--lease-ms", "300", "--join", "1@60")
            run_end = max(each["end_ns"] for each in self.events)
            for worker in (1, 2):
                events, windows = self.life(worker)
                self.assertLess(windows[1] - events[1], 2e6, "no idle time after it has gone")
                self.assertGreater(run_end - windows[1], 0.3e9)
            events, windows = self.life(4)
            self.assertLess(events[0] - windows[0], 2e6, "no idle time before it came")
            # Whoever was there: all micro-batches, and weights for everybody to start with.
            self.assertEqual([each["payload"]["micro_batches"] for each in self.of("step")],
                             [4] * 140)
            first = min(each["payload"]["version"] for each in self.of("work", pool="compute")
                        if each["worker_index"] == 4)
            self.assertGreaterEqual(first, 60)
            present = self.counter("compute.workers")
            for step, workers in ((0, 4), (139, 3)):
                self.assertEqual(present[step], workers)
            if not mode:
                self.assertEqual([present[step] for step in (20, 21, 40, 41, 59, 60)],
                                 [4, 3, 3, 2, 2, 3])
            lost, = self.query("SELECT sum(busy_discarded_ns) AS ns FROM worker_window "
                               "WHERE pool = 'compute' AND worker_index IN (1, 2)")
            self.assertGreater(int(lost["ns"]), 9e6, "what they had begun was lost")
            # The lease ran before its work was done by others, once.
            steps = self.of("step")
            ends = [each["start_ns"] for each in steps]
            longest = max(after - before for before, after in zip(ends, ends[1:]))
            self.assertGreater(longest, 0.25e9 if not mode else 0.05e9)
            depth = self.counter("weights.depth")
            self.assertEqual(depth[-1], 0, "what was on its way to them does not lie there")

    def test_warm_up_is_a_phase_that_the_report_leaves_out(self):
        self.trace(*EMULATED, "--async", "--steps", "60", "--warm-up-steps", "40")
        phases = self.of("phase", name="warm-up")
        self.assertEqual(len(phases), 40)
        steps = self.of("step")
        end = max(each["end_ns"] for each in phases)
        self.assertLess(steps[39]["end_ns"], end)
        self.assertGreater(steps[40]["end_ns"], end)
        self.assertEqual(self.settings()["warm_up_steps"], "40")
        applied = [each["payload"] for each in self.of("transfer", name="gradients", pool="update")
                   if each["payload"]["stage"] == 4]
        lags = [each["applied_version"] - each["version"] for each in applied
                if each["applied_version"] < 40]
        self.assertEqual(set(lags), {0})
        report = json.loads(subprocess.run([POOLSCOPE, "report", self.store, "--format", "json"],
                                           check=True, capture_output=True, timeout=60).stdout)
        self.assertGreaterEqual(report["analysed_begin_ns"], steps[39]["end_ns"])

    def test_the_size_of_the_batch_is_in_the_store(self):
        self.trace(*SLOWER, "--async", "--steps", "40", "--batch", "8", "--dynamic-batch",
                   "--gradients-depth", "1", "--gradient-bytes", "4M", "--gradients-bandwidth",
                   "1G")
        sequences = self.counter("sequences")
        self.assertEqual(sequences[0], 8)
        self.assertEqual(sorted(sequences)[20], 10)
        tokens = [each["payload"]["tokens"] for each in self.of("step")]
        self.assertEqual(sorted(tokens)[20], 4 * 10 * 32)
        self.assertEqual(self.counter("tokens")[-1], sum(tokens))
        # The work of a larger micro-batch takes as much longer.
        times = sorted(each["end_ns"] - each["start_ns"]
                       for each in self.of("work", name="forward"))
        self.assertGreater(times[len(times) // 2], 6e6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
