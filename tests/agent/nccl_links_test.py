"""NCCL ranks of several processes: whom each waited for, and what crossed which link."""

import pathlib
import sys
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.end_to_end.harness import AGENT, EndToEnd, clean_environment  # noqa: E402

POOLS = """
[[worker]]
process = "*rank.py * compute *"
pool = "compute"
index = 0
[[worker]]
process = "*rank.py * update *"
pool = "update"
index = 0
"""

RANK = """
import os, sys, time
sys.path.insert(0, {root!r})
from tests.support.nccl_driver import *

rank, pool, start, folder = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]
nccl = Nccl(5)
comm = nccl.communicator("world", 0xabc, rank, 2)
open(f"{{folder}}/ready{{rank}}", "w").close()
while not os.path.exists(f"{{folder}}/ready{{1 - rank}}"): time.sleep(0.005)

def call(begin):
    op = begin()
    channel = comm.channel(op, 0)
    nccl.stop(op)
    return channel

def meet(name):  # both ranks are in the operation
    open(f"{{folder}}/{{name}}{{rank}}", "w").close()
    while not os.path.exists(f"{{folder}}/{{name}}{{1 - rank}}"): time.sleep(0.001)

{body}
comm.close()
"""


class NcclLinks(EndToEnd):
    def ranks(self, pools, body):
        """Runs ranks 0 and 1 of the given pools; rank 1 comes 0.25 s after rank 0."""
        script = self.folder / "rank.py"
        script.write_text(RANK.format(root=str(ROOT), body=textwrap.dedent(body)))
        mapping = self.folder / "pools.toml"
        mapping.write_text(POOLS)
        starts = " & ".join(f"{sys.executable} {script} {rank} {pool} {delay} {self.folder}"
                            for rank, (pool, delay) in enumerate(zip(pools, (0, 0.25))))
        self.run_program(
            [str(pathlib.Path(AGENT).parents[1] / "bin" / "poolscope"), "run", "--no-report",
             "--pools", str(mapping), "--store", self.store, "--", "sh", "-c", f"{starts}; wait"],
            env=clean_environment())
        return self.sql("SELECT pool, worker_index, sum(wait_peer_ns) / 1e6 AS wait_peer, "
                        "sum(wait_link_ns) / 1e6 AS wait_link FROM worker_window "
                        "GROUP BY pool, worker_index ORDER BY pool")

    COLLECTIVE = """
        time.sleep(start)
        channel = call(lambda: comm.coll("AllReduce", 1 << 20, channels=1, sequence=1))
        meet("in")
        time.sleep(0.1)
        nccl.stop_channel(channel, 0)
    """

    def test_a_collective_of_two_pools_is_their_links(self):
        compute, update = self.ranks(("compute", "update"), self.COLLECTIVE)
        [link] = self.sql("SELECT link, sum(transfers) AS transfers, sum(raw_bytes) AS raw, "
                          "sum(wire_bytes) AS wire, sum(wire_ns) / 1e6 AS wire_ms "
                          "FROM link_window GROUP BY link")
        self.assertEqual((link["link"], link["transfers"]), ("nccl.compute.update", 1))
        self.assertEqual((link["raw"], link["wire"]), (4 << 20, 4 << 20))  # 2 (n - 1) / n = 1
        # What it was made into is stored as the job would have marked it, for the viewer and SQL.
        [wire] = self.sql("SELECT start_ns, end_ns, json_extract(payload, '$.source') AS source, "
                          "json_extract(payload, '$.destination') AS destination, "
                          "json_extract(payload, '$.wire_bytes') AS bytes FROM event "
                          "WHERE name = 'nccl.compute.update' AND category = 2")
        self.assertAlmostEqual((wire["end_ns"] - wire["start_ns"]) / 1e6, link["wire_ms"], places=3)
        self.assertEqual((wire["source"], wire["destination"], wire["bytes"]), (0, 0, 4 << 20))
        self.assertEqual(self.value("SELECT count(*) FROM event WHERE category = 3 AND "
                                    "thread LIKE '%rank _ (as mapped)'"), 2)
        # The early rank waited for the late one, then both for the wire.
        self.assertGreater(compute["wait_link"], 300)
        self.assertGreater(update["wait_link"], 95)
        self.assertGreater(compute["wait_link"] - update["wait_link"], 200)
        self.assertEqual((compute["wait_peer"], update["wait_peer"]), (0, 0))
        [parts] = self.sql("SELECT sum(upstream_busy_ns) / 1e6 AS busy, sum(wire_ns) / 1e6 AS wire,"
                           " sum(unattributed_ns) / 1e6 AS rest FROM worker_link_window "
                           "WHERE pool = 'compute'")
        self.assertGreater(parts["busy"], 200)
        self.assertLess(abs(parts["wire"] - link["wire_ms"]), 50)
        self.assertLess(parts["rest"], 50)

    def test_a_collective_of_one_pool_waits_for_peers(self):
        rows = self.ranks(("compute", "compute"), self.COLLECTIVE)
        self.assertEqual([row["pool"] for row in rows], ["compute"] * len(rows))
        self.assertGreater(sum(row["wait_peer"] for row in rows), 300)
        self.assertEqual(sum(row["wait_link"] for row in rows), 0)
        [row] = self.sql("SELECT communicator, function, pools, ranks, sum(operations) AS calls, "
                         "sum(bus_bytes) AS bytes, sum(wire_ns) / 1e6 AS wire, "
                         "sum(wait_ns) / 1e6 AS wait FROM collective_window")
        self.assertEqual((row["communicator"], row["function"], row["pools"], row["ranks"],
                          row["calls"], row["bytes"]),
                         ("0000000000000abc", "AllReduce", "compute", 2, 1, 4 << 20))
        self.assertGreater(row["wire"], 95)
        self.assertGreater(row["wait"], 200)

    def test_sends_and_receives_are_matched_by_their_order(self):
        self.ranks(("compute", "update"), """
            for i in range(20):
                time.sleep(0.002)
                if rank == 0:
                    channel = call(lambda: comm.p2p("Send", 1000, 1))
                else:
                    channel = call(lambda: comm.p2p("Recv", 1000, 0))
                meet(f"in{i}_")
                nccl.stop_channel(channel, 0)
        """)
        [link] = self.sql("SELECT link, sum(transfers) AS transfers, sum(wire_bytes) AS wire "
                          "FROM link_window GROUP BY link")
        self.assertEqual((link["link"], link["transfers"], link["wire"]),
                         ("nccl.compute.update", 20, 20 * 4000))


if __name__ == "__main__":
    unittest.main()
