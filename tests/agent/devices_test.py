"""What a device does decides its worker's state: a job whose CUPTI is played, kernel to window."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.end_to_end.harness import BUILD, POOLSCOPE, EndToEnd, clean_environment  # noqa: E402

JOB = str(BUILD / "tests" / "cuda_job")
POOLS = """
[[worker]]
process = "*cuda_job*"
pool = "compute"
index = 0
[[worker]]
thread = "nobody"
pool = "update"
index = 0
[[link]]
name = "gradients"
from = "compute"
to = "update"
[[range]]
domain = ""
name = "step"
means = "work"
[[range]]
domain = "cuda"
name = "copy device to *"
means = "wire"
link = "gradients"
"""


class Devices(EndToEnd):
    def test_kernels_decide_the_state_of_the_worker_that_launched_them(self):
        mapping = self.folder / "pools.toml"
        mapping.write_text(POOLS)
        line = ("cuda; push step; launch cudaLaunchKernel_v7000 correlation=1;"
                "launch cudaMemcpyAsync_v3020 correlation=2; wait 400; pop; freeze;"
                "kernel _Z4gemmPf correlation=1 at=350000 for=200000;"
                "kernel ncclDevKernel_AllReduce correlation=1 stream=9 at=200000 for=100000;"
                "copy correlation=2 kind=2 from=3 to=1 bytes=1000 stream=9 at=50000 for=40000;"
                "deliver; wait 50")
        self.run_program(
            [POOLSCOPE, "run", "--no-report", "--store", self.store, "--pools", str(mapping), "--",
             JOB, line],
            env=clean_environment(POOLSCOPE_CUPTI=str(BUILD / "tests/standin/libcupti.so")))
        [row] = self.sql("SELECT pool, sum(busy_ns) / 1e6 AS busy, sum(wait_peer_ns) / 1e6 AS peer,"
                         " sum(blocked_link_ns) / 1e6 AS link, sum(host_bound_ns) / 1e6 AS host "
                         "FROM worker_window GROUP BY pool")
        self.assertEqual(row["pool"], "compute")
        self.assertAlmostEqual(row["busy"], 200, delta=1)
        self.assertAlmostEqual(row["peer"], 50, delta=1)  # the rest of it beside the kernel
        self.assertAlmostEqual(row["link"], 40, delta=1)
        # The host's range holds at least the 400 ms; it counts where the device was empty.
        self.assertGreater(row["host"], 400 - 200 - 50 - 40 - 1)
        self.assertEqual(self.sql("SELECT sum(transfers) AS n, sum(wire_bytes) AS bytes "
                                  "FROM link_window"), [{"n": 1, "bytes": 1000}])
        self.assertEqual(self.value("SELECT device FROM worker WHERE pool = 'compute'"), "cuda:0")
        self.assertEqual(self.sql("SELECT name, pool FROM thread WHERE name LIKE '% stream _'"
                                  " ORDER BY name"),
                         [{"name": "device 0 stream 7", "pool": "compute"},
                          {"name": "device 0 stream 9", "pool": "compute"}])
        self.assertEqual(self.sql("SELECT cause FROM event_loss"), [])

    def test_a_kernel_that_lasts_for_seconds_is_busy_in_all_its_windows(self):
        mapping = self.folder / "pools.toml"
        mapping.write_text(POOLS)
        line = ("cuda; push step; launch cudaLaunchKernel_v7000 correlation=1; kernel first "
                "correlation=1; deliver; wait 3500; pop; freeze;"
                "kernel _Z4gemmPf correlation=1 at=3200000 for=3000000; deliver; wait 50")
        self.run_program(
            [POOLSCOPE, "run", "--no-report", "--store", self.store, "--pools", str(mapping), "--",
             JOB, line],
            env=clean_environment(POOLSCOPE_CUPTI=str(BUILD / "tests/standin/libcupti.so")))
        self.assertAlmostEqual(self.value("SELECT sum(busy_ns) / 1e6 FROM worker_window"), 3000,
                               delta=2)
        self.assertEqual(self.sql("SELECT cause FROM event_loss"), [])
        for row in self.sql("SELECT * FROM worker_window"):
            states = sum(ns for key, ns in row.items() if key.endswith("_ns") and
                         key not in ("start_ns", "window_ns"))
            self.assertEqual(states, row["window_ns"])


if __name__ == "__main__":
    unittest.main()
