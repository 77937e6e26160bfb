"""The death of an update worker, and that all go back and go on, read back from the store."""

import json
import os
import unittest
from collections import Counter

from traced_run import TracedRun

SLOWER = ["--device", "emulated", "--math", "none", "--forward-ms", "2", "--backward-ms", "2",
          "--update-ms", "2"]
LEASE_MS = 400


class Restart(TracedRun):
    def samples(self, name):
        return [float(each["value"]) for each in self.events
                if each["kind"] == "counter" and each["name"] == name]

    def test_the_run_goes_back_to_its_checkpoint_and_tells_every_step_once(self):
        for mode in ([], ["--async"]):
            log = os.path.join(self.folder.name, "log.json")
            checkpoints = os.path.join(self.folder.name, "sync" if not mode else "async")
            self.trace(*SLOWER, *mode, "--steps", "40", "--compute-workers", "3",
                       "--update-workers", "2", "--checkpoint-dir", checkpoints,
                       "--checkpoint-every", "10", "--kill", "update/1@23.5", "--lease-ms",
                       str(LEASE_MS), "--json-log", log)
            with open(log) as file:
                told = [json.loads(line) for line in file]
            self.assertEqual([each["step"] for each in told[:-1]], list(range(40)))
            self.assertEqual(told[-1]["restarts"], 1)
            self.assertEqual([each["payload"]["step"] for each in self.of("step")],
                             list(range(40)))
            self.assertEqual(self.samples("restarts"), [1])

            # Version 20 is made once and gone back to; the versions after it are made twice.
            made = Counter(each["payload"]["version"] for each in self.of("work", name="optimizer")
                           if each["worker_index"] == 0)
            redone = {version for version, times in made.items() if times == 2}
            self.assertEqual(set(made), set(range(1, 41)))
            self.assertEqual(len(redone), told[-1]["redone_steps"])
            self.assertIn(21, redone)
            self.assertEqual(min(redone), 21)
            versions = self.samples("update.version")
            self.assertEqual([after for before, after in zip(versions, versions[1:])
                              if after < before], [20])

            # The dead one is silent for its lease, which the others wait through; then they meet.
            own = [each for each in self.events if each["pool"] == "update"
                   and each["worker_index"] == 1 and each["kind"] == "range"]
            gap, begin = max((after["start_ns"] - before["end_ns"], before["end_ns"])
                             for before, after in zip(own, own[1:]))
            self.assertGreater(gap, 0.7e6 * LEASE_MS)
            waits = [each for each in self.of("wait_link", pool="compute")
                     if each["end_ns"] - each["start_ns"] > 0.5e6 * LEASE_MS]
            if not mode:
                self.assertEqual({each["worker_index"] for each in waits}, {0, 1, 2})
            met = self.of("other_work", name="restart")
            self.assertEqual({(each["pool"], each["worker_index"]) for each in met},
                             {("compute", 0), ("compute", 1), ("compute", 2), ("update", 0)})
            self.assertEqual(len(met), 4)
            for each in met:
                self.assertTrue(begin < each["start_ns"] and each["end_ns"] < begin + gap + 2e8)

            # Nothing of before lies on the links, and no message goes by the number of another.
            for link in ("gradients", "weights"):
                self.assertEqual(self.samples(link + ".depth")[-1], 0)
                self.messages(link)
            self.check_no_overlap()


if __name__ == "__main__":
    unittest.main(verbosity=2)
