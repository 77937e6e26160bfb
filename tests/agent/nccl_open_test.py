"""NCCL operations in progress: counted while they last, and seen after a kill."""

import pathlib
import re
import signal
import sys
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.end_to_end.harness import POOLSCOPE, EndToEnd, clean_environment, kill  # noqa: E402

POOLS = """
[[worker]]
process = "*rank.py*"
pool = "compute"
index = 0
"""

RANK = """
import os, sys, time
sys.path.insert(0, {root!r})
from tests.support.nccl_driver import *

folder = {folder!r}
nccl = Nccl(5)
comm = nccl.communicator("world", 0xabc, 0, 1)

def tell(name):
    with open(f"{{folder}}/{{name}}.new", "w") as file:
        file.write(f"{{os.getpid()}} {{time.time_ns()}}")
    os.rename(f"{{folder}}/{{name}}.new", f"{{folder}}/{{name}}")

def wait_for(name):
    while not os.path.exists(f"{{folder}}/{{name}}"): time.sleep(0.002)

{body}
comm.close()
"""


class NcclOpen(EndToEnd):
    def start_rank(self, body):
        script = self.folder / "rank.py"
        script.write_text(RANK.format(root=str(ROOT), folder=str(self.folder),
                                      body=textwrap.dedent(body)))
        mapping = self.folder / "pools.toml"
        mapping.write_text(POOLS)
        return self.start([POOLSCOPE, "run", "--no-report", "--pools", str(mapping), "--store",
                           self.store, "--", sys.executable, str(script)],
                          env=clean_environment())

    def told(self, name):
        """Process id and time that the job told."""
        self.wait_until(name, (self.folder / name).exists)
        return map(int, (self.folder / name).read_text().split())

    def waited_ms(self):
        if not pathlib.Path(self.store).exists():
            return 0
        out, _ = self.run_program(
            [POOLSCOPE, "sql", "--json", self.store,
             "SELECT total(wait_peer_ns) / 1e6 AS ms FROM worker_window"], expect=None)
        found = re.search(r'"ms": *([\d.e+]+)', out)
        return float(found.group(1)) if found else 0

    LONG = """
        op = comm.coll("AllReduce", 1 << 20, channels=1, sequence=1)
        nccl.stop(op)
        time.sleep(0.3)  # enqueued, and not begun
        channel = comm.channel(op, 0)
        tell("begun")
        wait_for("go")
        nccl.stop_channel(channel, 0)
        tell("ended")
    """

    def test_an_operation_that_lasts_counts_while_it_lasts_and_once(self):
        run = self.start_rank(self.LONG)
        self.wait_until("live wait", lambda: self.waited_ms() > 1500)
        (self.folder / "go").touch()
        _, begun = self.told("begun")
        _, ended = self.told("ended")
        run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0)
        self.assertAlmostEqual(self.waited_ms(), (ended - begun) / 1e6, delta=30)
        self.assertEqual(self.sql("SELECT cause FROM event_loss"), [])
        self.assertEqual(self.value("SELECT count(*) FROM event WHERE domain = 'nccl'"), 1)
        self.assertEqual(self.value("SELECT count(*) FROM open_range"), 0)
        for row in self.sql("SELECT * FROM worker_window"):
            states = sum(ns for key, ns in row.items() if key.endswith("_ns") and
                         key not in ("start_ns", "window_ns"))
            self.assertEqual(states, row["window_ns"])

    def test_a_killed_job_leaves_its_operations_with_their_communicator(self):
        run = self.start_rank(self.LONG.replace('tell("begun")', """
        other = comm.coll("AllGather", 8, channels=1, sequence=1)
        tell("begun")"""))
        pid, begun = self.told("begun")
        self.wait_until("live wait", lambda: self.waited_ms() > 1000)
        kill(pid)
        run.communicate(timeout=60)
        self.assertEqual(run.returncode, 128 + signal.SIGKILL)
        rows = self.sql("SELECT o.name, t.name AS thread, o.start_ns, o.seen_ns FROM open_range o "
                        "JOIN thread t USING (session_id, tid) ORDER BY o.name")
        self.assertEqual([(row["name"], row["thread"]) for row in rows],
                         [("AllGather", "NCCL world 0000000000000abc rank 0"),
                          ("AllReduce", "NCCL world 0000000000000abc rank 0")])
        reduce = rows[1]
        self.assertLess(abs(reduce["start_ns"] - begun), 50_000_000)
        self.assertAlmostEqual(self.waited_ms(), (reduce["seen_ns"] - reduce["start_ns"]) / 1e6,
                               delta=30)
        events = self.sql("SELECT name, json_extract(payload, '$.timing') AS timing, "
                          "json_extract(payload, '$.sequence') AS sequence "
                          "FROM event WHERE domain = 'nccl' ORDER BY name")
        self.assertEqual([tuple(row.values()) for row in events],
                         [("AllGather", "enqueued", 1), ("AllReduce", "kernel", 1)])
        self.assertEqual(self.value("SELECT count(*) FROM collective_window"), 0)


if __name__ == "__main__":
    unittest.main()
