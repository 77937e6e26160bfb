"""What a device's hardware samples, from a job whose CUPTI is played to windows and metrics."""

import pathlib
import re
import sys
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.end_to_end.harness import BUILD, POOLSCOPE, EndToEnd, clean_environment  # noqa: E402

JOB = str(BUILD / "tests" / "cuda_job")
STANDIN = BUILD / "tests" / "standin"


class DeviceCounters(EndToEnd):
    def setUp(self):
        super().setUp()
        (self.folder / "devices").write_text(
            "".join(f"{device} gpu 75\n{device} memory 50\n{device} used 7\n{device} total 9\n"
                    for device in range(3)))
        (self.folder / "params").write_text("Mobile: 1\nRmProfilingAdminOnly: 0\n")
        self.environment = clean_environment(
            POOLSCOPE_CUPTI=str(STANDIN / "libcupti.so"),
            POOLSCOPE_NVML=str(STANDIN / "libnvidia-ml.so"),
            POOLSCOPE_STANDIN_NVML=str(self.folder / "devices"),
            POOLSCOPE_STANDIN_CUDA="2 0",  # the process's device 0 is the host's device 2
            POOLSCOPE_NVIDIA_PARAMS=str(self.folder / "params"))

    def command(self, line, *flags):
        return [POOLSCOPE, "run", "--no-report", "--store", self.store, *flags, "--", JOB, line]

    def test_sampled_values_are_in_windows_and_metrics_of_the_device_that_nvml_knows(self):
        line = ("driver; cuda; kernel k; await_sampling;" + "samples 5 value=25; wait 100;" * 40)
        run = self.start(self.command(line, "--pm-sampling", "1", "--metrics", "127.0.0.1:0"),
                         env=self.environment)
        address = re.search(r"metrics at (\S+)", run.stderr.readline()).group(1)

        def sampled():
            text = urllib.request.urlopen(address, timeout=10).read().decode()
            return text if 'source="pm_sampling"' in text else None

        text = self.wait_until("sampled metrics", sampled)
        run.communicate(timeout=60)
        values = dict(re.findall(r"^poolscope_device_(\w+{.*}) (.*)$", text, re.MULTILINE))
        self.assertAlmostEqual(float(values['sm_ratio{device="2",source="pm_sampling"}']), 0.25)
        self.assertAlmostEqual(float(values['dram_ratio{device="2",source="pm_sampling"}']), 0.26)
        self.assertAlmostEqual(float(values['tensor_ratio{device="2",source="pm_sampling"}']), 0.27)
        self.assertEqual(float(values['sm_ratio{device="1",source="nvml"}']), 0.75)
        self.assertEqual(float(values['memory_used_bytes{device="2",source="nvml"}']), 7)
        self.assertNotIn('sm_ratio{device="2",source="nvml"}', values)

        rows = self.sql("SELECT * FROM device_window WHERE source = 'pm_sampling'")
        self.assertGreaterEqual(len(rows), 3)
        for row in rows:
            self.assertEqual(
                [row[key] for key in ("device", "uuid", "name", "window_ns")],
                [2, "GPU-00000002-0000-0000-0000-000000000000", "Stand-in", 1_000_000_000])
            self.assertAlmostEqual(row["sm_ratio"], 0.25)
            self.assertAlmostEqual(row["tensor_ratio"], 0.27)
            self.assertEqual(
                [row[key] for key in ("nvlink_received_bytes", "nvlink_sent_bytes",
                                      "pcie_received_bytes_per_second",
                                      "pcie_sent_bytes_per_second", "memory_bytes")],
                [28, 29, 30, 31, None])
        self.assertEqual(
            self.value("SELECT count(DISTINCT device) FROM device_window WHERE source = 'nvml'"), 3)

    def test_sampling_that_is_refused_leaves_nvmls_word(self):
        (self.folder / "params").write_text("RmProfilingAdminOnly: 1\n")
        _, err = self.run_program(
            self.command("driver; sampling refused; cuda; kernel k; wait 1500", "--pm-sampling",
                         "1"), env=self.environment)
        administrator = "RmProfilingAdminOnly" not in err
        doctor, _ = self.run_program([POOLSCOPE, "doctor"], env=self.environment)
        self.assertRegex(doctor, "device counters +" + (
            "works +permitted to administrators" if administrator else "not here .*administrators"))
        self.assertEqual(self.sql("SELECT DISTINCT source FROM device_window"),
                         [{"source": "nvml"}])
        self.assertEqual(self.value("SELECT name FROM event WHERE name LIKE '%not sampled%'"),
                         "device 0 is not sampled: cuptiPmSamplingEnable gave error 35")

    def test_interval_that_cannot_be_is_refused(self):
        for interval in ("0", "10001", "often"):
            _, err = self.run_program(self.command("wait 1", "--pm-sampling", interval), expect=2)
            self.assertIn("--pm-sampling", err)


if __name__ == "__main__":
    unittest.main()
