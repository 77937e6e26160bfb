"""A job on a device that a stand-in libcupti plays, read back with SQL from the store."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.end_to_end.harness import BUILD, POOLSCOPE, EndToEnd, clean_environment  # noqa: E402

JOB = str(BUILD / "tests" / "cuda_job")
LIBRARY = str(BUILD / "tests" / "standin" / "libcupti.so")


class Cupti(EndToEnd):
    def play(self, lines, *flags, **environment):
        self.run_program(
            [POOLSCOPE, "run", "--no-report", "--store", self.store, *flags, "--", JOB, lines],
            env=clean_environment(POOLSCOPE_CUPTI=LIBRARY, **environment))

    def losses(self):
        return {row["cause"]: row["events"]
                for row in self.sql("SELECT cause, events FROM event_loss")}

    def test_kernels_and_copies_are_in_the_store_with_what_launched_them(self):
        self.play("cuda; push load; launch cudaMemcpyAsync_v3020 correlation=1; pop; push step;"
                  "repeat 3000 launch cudaLaunchKernel_v7000 correlation=10; pop;"
                  "copy correlation=1 bytes=4096;"
                  "repeat 3000 kernel _Z4gemmPf correlation=10 for=7;"
                  "kernel other stream=9 device=1 context=2")
        rows = self.sql(
            "SELECT name, thread, count(*) AS n, sum(end_ns - start_ns) AS ns, "
            "min(json_extract(payload, '$.range')) AS first, "
            "max(json_extract(payload, '$.range')) AS last, "
            "count(DISTINCT json_extract(payload, '$.correlation')) AS launches "
            "FROM event WHERE domain = 'cuda' AND kind = 'range' GROUP BY 1, 2 ORDER BY 1")
        self.assertEqual([tuple(row.values()) for row in rows], [
            ("copy pageable to device", "device 0 stream 7", 1, 10_000, "load", "load", 1),
            ("gemm(float*)", "device 0 stream 7", 3000, 21_000_000, "step", "step", 3000),
            ("other", "device 1 stream 9", 1, 10_000, None, None, 1)])
        launcher = self.value("SELECT DISTINCT json_extract(payload, '$.launch_tid') FROM event "
                              "WHERE name = 'gemm(float*)'")
        self.assertEqual(self.value(f"SELECT count(*) FROM thread WHERE tid = {launcher}"), 1)
        self.assertEqual(self.losses(), {})

    def test_memory_is_in_the_store_and_what_was_never_released_by_range(self):
        self.play("cuda; push load; repeat 3 launch cudaMalloc_v3020 correlation=10; pop;"
                  "push step; launch cudaMallocAsync_v11020 correlation=20; pop; freeze;"
                  "allocate table address=64 bytes=16 memory=6 at=9000;"
                  "repeat 3 allocate address=1000 bytes=500 correlation=10 at=8000;"
                  "allocate address=9000 bytes=70 async=1 pool=7 pool_type=1 pool_bytes=4096 "
                  "correlation=20 at=7000; release address=1000 at=6000; release address=2000 at="
                  "5000; allocate address=1000 bytes=33 at=4000; release address=1000 at=3000")
        most, unreleased = re.findall(
            r"```sql\n(.*?);\n```", (ROOT / "docs" / "cupti.md").read_text(), re.DOTALL)
        self.assertEqual({row["name"]: row["most_mb"] for row in self.sql(most)},
                         {"device 0.allocated_bytes": 1586e-6,
                          "device 0.allocated_device_bytes": 1516e-6,
                          "device 0.allocated_pool_bytes": 70e-6})
        self.assertEqual(
            [tuple(row.values()) for row in self.sql(unreleased)],
            [("load", "allocate device", 1, 500), ("step", "allocate pool", 1, 70)])
        self.assertEqual(self.value("SELECT value FROM event WHERE name = "
                                    "'device 0.allocated_bytes' ORDER BY start_ns DESC "
                                    "LIMIT 1"), 586)
        self.assertEqual(self.value("SELECT json_extract(payload, '$.variable') FROM event WHERE "
                                    "name = 'allocate device static'"), "table")
        self.assertEqual(self.losses(), {})

    def test_what_is_lost_is_in_the_store_by_cause(self):
        self.play("cuda; kernel k; drop 7; kernel k start=0; other kind=99")
        self.assertEqual(self.losses(),
                         {"device_dropped": 7, "device_time": 1, "device_unknown": 1})

    def test_process_that_ends_without_exit_may_have_lost_device_activity(self):
        self.play("cuda; kernel k; wait 1000; kernel unflushed; _exit",
                  POOLSCOPE_CUPTI_FLUSH_MS="20")
        self.assertEqual(self.value("SELECT count(*) FROM event WHERE name = 'k'"), 1)
        self.assertEqual(self.losses(), {"unknown_count": None})

    def test_sampled_counters_are_in_the_store(self):
        self.play("cuda; kernel k device=1; await_sampling; samples 5 value=25",
                  POOLSCOPE_PM_SAMPLING_MS="1")
        rows = self.sql("SELECT name, value, start_ns FROM event WHERE domain = 'cuda' AND "
                        "name = 'device 1.sm_active' ORDER BY start_ns")
        self.assertEqual([row["value"] for row in rows], [0.25] * 5)
        self.assertEqual(rows[4]["start_ns"] - rows[0]["start_ns"], 4_000_000)
        kernel = self.value("SELECT start_ns FROM event WHERE name = 'k'")
        self.assertLess(abs(rows[4]["start_ns"] - kernel), 30_000_000_000)

    def test_more_than_the_ring_holds_waits_for_the_collector(self):
        self.play("cuda; kernel first; wait 500; burst 50000; wait 100; burst 50000",
                  POOLSCOPE_RING_BYTES="1048576")
        # What came before the collector had found the session may be overwritten.
        early = self.losses().pop("overwritten", 0)
        self.assertEqual(self.value("SELECT count(*) FROM event WHERE domain = 'cuda' AND "
                                    "kind = 'range'") + early, 100_001)
        self.assertEqual(self.losses().keys() - {"overwritten"}, set())


if __name__ == "__main__":
    unittest.main()
