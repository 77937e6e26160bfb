"""What the report says that devices would have to hold is what the trainer then holds."""

import re
import unittest

from harness import TRAINER, EndToEnd

# Two workers of compute hold up three of update: free of bounds, 4 + 1 would be best.
JOB = [TRAINER, "--mode", "disaggregated", "--async", "--device", "emulated:a100",
       "--model-parameters", "2.5G", "--micro-batches", "8", "--steps", "30", "--time-scale", "0.1"]


class MemoryAdvice(EndToEnd):
    def ratio(self):
        findings = [f for f in self.report()["findings"] if f["rule"] == "pool_imbalance"]
        self.assertEqual(len(findings), 1)
        return findings[0]

    def evidence(self, finding):
        return " ".join(each["text"] for each in finding["evidence"])

    def test_a_ratio_that_devices_could_not_hold_is_left_out(self):
        bounded = JOB + ["--device-memory", "40G"]
        self.run_under_agent(bounded + ["--compute-workers", "2", "--update-workers", "3"])
        finding = self.ratio()
        advice = finding["recommendation"]
        self.assertEqual(advice["set"], {"compute.workers": "3", "update.workers": "2"})
        update = {pool["pool"]: pool for pool in advice["memory"]}["update"]
        self.assertEqual(update["memory_bytes"], 40e9)

        # What was left out is refused by the trainer, with the same figure.
        said = re.search(r"left out, compute 2 -> 4, update 3 -> 1: a device of update would need "
                         r"([\d.]+) GB", self.evidence(finding))
        self.assertTrue(said, finding)
        _, err = self.run_program(bounded + ["--compute-workers", "4", "--update-workers", "1"],
                                  expect=1)
        held = re.search(r"of 40 GB would have to hold ([\d.]+) GB: update/0", err)
        self.assertTrue(held, err)
        self.assertAlmostEqual(float(said[1]), float(held[1]), delta=0.5)

        # What is advised fits, and holds what was said.
        self.run_under_agent(bounded + advice["apply"].split())
        held = self.value("SELECT max(value) FROM event WHERE name = 'update.device_memory_bytes'")
        self.assertAlmostEqual(held / update["needed_bytes"], 1, delta=0.02)

    def test_a_mapping_states_what_pools_have(self):
        mapping = self.folder / "pools.toml"
        mapping.write_text("[[pool]]\nname = 'update'\nmemory_bytes = 20000000000\n"
                           "device_type = 'emulated:a100'\n")
        job = JOB + ["--compute-workers", "2", "--update-workers", "3"]
        self.run_under_agent(job, "--pools", str(mapping))
        finding = self.ratio()
        self.assertNotIn("recommendation", finding)
        self.assertRegex(finding["abstained"],
                         "compute 2 -> 3, update 3 -> 2: a device of compute would need [0-9.]+ GB,"
                         r" more than its 20 GB \(of update's: memory_bytes of the mapping")

        mapping.write_text("[[pool]]\nname = 'update'\ndevice_type = 'tpu'\n")
        self.run_under_agent(job, "--pools", str(mapping))
        self.assertIn("they exchange none", self.ratio()["abstained"])


if __name__ == "__main__":
    unittest.main()
