"""The agent as NCCL's profiler plugin, driven as NCCL would, read back from the store."""

import json
import os
import pathlib
import sys
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.end_to_end.harness import AGENT, EndToEnd, clean_environment  # noqa: E402

VERSIONS = range(1, 8)


class Nccl(EndToEnd):
    def job(self, body, expect=0, **environment):
        """Runs Python code under the agent with `nccl` (the driver) imported."""
        script = self.folder / "job.py"
        script.write_text("import os, sys, threading, time\n"
                          f"sys.path.insert(0, {str(ROOT)!r})\n"
                          "from tests.support.nccl_driver import *\n" + textwrap.dedent(body))
        saved = dict(os.environ)
        os.environ.update(environment)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(saved)))
        return self.run_program(
            [str(pathlib.Path(AGENT).parents[1] / "bin" / "poolscope"), "run", "--no-report",
             "--store", self.store, "--", sys.executable, str(script)],
            env=clean_environment(**environment), expect=expect)

    def operations(self):
        rows = self.sql("SELECT name, thread, start_ns, end_ns, payload FROM event "
                        "WHERE domain = 'nccl' ORDER BY start_ns")
        for row in rows:
            row.update(json.loads(row["payload"]))
            row["duration_ns"] = int(row["end_ns"]) - int(row["start_ns"])
        return rows

    def losses(self):
        rows = self.sql("SELECT cause, events FROM event_loss")
        return {row["cause"]: row["events"] for row in rows}

    def test_every_version_says_what_an_operation_was(self):
        for version in VERSIONS:
            with self.subTest(version=version):
                self.setUp()
                self.job(f"""
                    nccl = Nccl({version})
                    comm = nccl.communicator("tp", 0xabc0, 3, 8)
                    op = comm.coll("AllReduce", 1000, "ncclBfloat16", "Tree", "LL128", 2, 41, 0)
                    nccl.stop(op)
                    channels = [comm.channel(op, i) for i in range(2)] if {version} >= 3 else []
                    proxy = comm.proxy(op)
                    time.sleep(0.02)
                    nccl.stop(proxy)
                    for each in channels: nccl.stop_channel(each, 0)
                    send = comm.p2p("Send", 500, 5)
                    nccl.stop(send)
                    if {version} >= 3: nccl.stop_channel(comm.channel(send, 0), 0)
                    comm.close()
                    nccl.unload()
                """)
                reduce, send = self.operations()
                self.assertEqual(
                    (reduce["name"], reduce["thread"], reduce["communicator"], reduce["rank"],
                     reduce["sequence"], reduce["bytes"], reduce["count"], reduce["datatype"],
                     reduce["algorithm"], reduce["protocol"], reduce["channels"]),
                    ("AllReduce", "NCCL tp 000000000000abc0 rank 3", 0xabc0, 3, 41, 2000, 1000,
                     "ncclBfloat16", "Tree", "LL128", 2))
                self.assertEqual(reduce["ranks"], 8 if version >= 4 else 0)
                self.assertEqual((send["name"], send["peer"], send["bytes"]), ("Send", 5, 2000))
                self.assertIsNone(send["sequence"])
                if version >= 3:  # complete with its last channel, not when enqueued
                    self.assertEqual(reduce["timing"], "kernel")
                    self.assertGreaterEqual(reduce["duration_ns"], 20_000_000)
                else:
                    self.assertEqual(send["timing"], "enqueued")
                self.assertEqual(self.losses(), {})
                self.tearDown()
        self.setUp()

    def test_gpu_times_count_where_there_are_any(self):
        self.job("""
            nccl = Nccl(5)
            comm = nccl.communicator(None, 7, 0, 2)
            base = 1_700_000_000_000_000_000  # another clock than the host's
            for i in range(5):
                op = comm.coll("AllGather", 10, sequence=i)
                nccl.stop(op)
                first, second = comm.channel(op, 0, base + i * 10_000_000), None
                second = comm.channel(op, 1, base + i * 10_000_000 + 1000)
                time.sleep(0.005)
                nccl.stop_channel(first, base + i * 10_000_000 + 3000)
                nccl.stop_channel(second, base + i * 10_000_000 + 4000)
            comm.close()
        """)
        operations = self.operations()
        self.assertEqual([each["duration_ns"] for each in operations], [4000] * 5)
        # One clock's distance to the other's: operations stay as far apart as they were.
        for before, after in zip(operations[2:], operations[3:]):
            self.assertLess(abs(int(after["start_ns"]) - int(before["start_ns"]) - 10_000_000),
                            6_000_000)
        self.assertEqual(operations[0]["timing"], "kernel")

    def test_groups_proxies_and_channels_of_an_operation_are_told(self):
        for version in VERSIONS:
            with self.subTest(version=version):
                self.setUp()
                self.job(f"""
                    nccl = Nccl({version})
                    comm = nccl.communicator("tp", 0xabc0, 0, 2)
                    for members in (2, 1):
                        group = comm.group()
                        ops = [comm.coll("AllReduce", 1, channels=3, group=group)
                               for i in range(members)] + [comm.p2p("Send", 1, 1, group=group)]
                        for op in ops: nccl.stop(op)
                        nccl.stop(group)
                        for op in ops:
                            proxies = [comm.proxy(op) for i in range(2)]
                            channels = [comm.channel(op, i, 1000) for i in (4, 5, 6)
                                        ] if {version} >= 3 else []
                            for each in proxies: nccl.stop(each)
                            for i in (0, 2, 1):  # channel 5 is the last
                                if channels: nccl.stop_channel(channels[i], 2000 + i % 2 * 700)
                                time.sleep(0.002)
                    alone = comm.coll("Broadcast", 1, channels=1)
                    nccl.stop(alone)
                    comm.close()
                """)
                operations = self.operations()
                first = operations[0]["group"]
                self.assertGreater(first, 0)
                told = sorted((each["group"], each["name"]) for each in operations)
                self.assertEqual(told, [(0, "Broadcast")] + [(first, "AllReduce")] * 2 +
                                 [(first, "Send"), (first + 1, "AllReduce"), (first + 1, "Send")])
                for each in operations:
                    if each["name"] == "Broadcast":
                        self.assertEqual((each["proxies"], each["slowest_channel"]), (0, None))
                        continue
                    self.assertEqual(each["proxies"], 2)
                    if version < 3:
                        self.assertIsNone(each["slowest_channel"])
                        continue
                    self.assertEqual(each["slowest_channel"], 5)
                    if version >= 4:  # by the GPU's clock
                        self.assertEqual(each["channel_spread_ns"], 700)
                    else:
                        self.assertGreaterEqual(each["channel_spread_ns"], 4_000_000)
                self.tearDown()
        self.setUp()

    def test_zero_and_reversed_timers_leave_the_host_clock(self):
        self.job("""
            nccl = Nccl(6)
            comm = nccl.communicator("x", 7, 0, 2)
            for start, stop in ((0, 0), (0, 500), (900, 0), (900, 400)):
                op = comm.coll("AllReduce", 10, channels=1)
                nccl.stop(op)
                channel = comm.channel(op, 0, start)
                time.sleep(0.01)
                nccl.stop_channel(channel, stop)
            comm.close()
        """)
        for each in self.operations():
            self.assertGreaterEqual(each["duration_ns"], 10_000_000, each)

    def test_an_event_of_another_process_is_left_alone(self):
        self.job("""
            nccl = Nccl(5)
            comm = nccl.communicator("x", 7, 0, 2)
            assert comm.proxy(0x12345678, pid=os.getpid() + 1) is None
            assert comm.proxy(0xffffffffffffffff) is None
            assert comm.channel(0x7fff12345679, 0) is None
            assert comm.other(1 << 4) is None and comm.other(1 << 40) is None
            comm.close()
        """)

    def test_without_a_free_slot_the_operation_is_counted(self):
        self.job("""
            nccl = Nccl(5)
            comm = nccl.communicator("x", 7, 0, 2)
            handles = [comm.coll("AllReduce", 1) for i in range(8300)]
            assert all(handles[:8192]) and not any(handles[8192:])
            for each in handles: nccl.stop(each)
            comm.close()
            comm = nccl.communicator("x", 7, 0, 2)
            assert comm.coll("AllReduce", 1)
            comm.close()
        """, POOLSCOPE_RING_BYTES="4194304")
        self.assertEqual(self.losses(), {"open_table_full": 8300 - 8192})
        self.assertEqual(len(self.operations()), 8192)

    def test_without_room_for_the_communicator_its_operations_are_counted(self):
        self.job("""
            nccl = Nccl(5)
            comms = [nccl.communicator("x", 7 + i, 0, 2) for i in range(1025)]
            assert comms[1023].context and not comms[1024].context
            assert comms[1024].coll("AllReduce", 1) is None
            nccl.stop(comms[0].p2p("Send", 1, 1))
            for each in comms: each.close()
        """)
        self.assertEqual(self.losses(), {"open_table_full": 1})
        self.assertEqual(len(self.operations()), 1)

    def test_a_replayed_graph_runs_its_operations_again(self):
        self.job("""
            nccl = Nccl(7)
            comm = nccl.communicator("x", 7, 0, 2)
            op = comm.coll("AllReduce", 1, channels=2)
            nccl.stop(op)
            between = [comm.coll("Broadcast", 1, channels=1) for i in range(3)]
            for replay in range(3):
                channels = [comm.channel(op, i) for i in range(2)]
                nccl.stop(between[replay])
                nccl.stop_channel(comm.channel(between[replay], 0), 0)
                for each in channels: nccl.stop_channel(each, 0)
            comm.close()
            assert comm.nccl._stop(op) == 0  # outdated
        """)
        names = [each["name"] for each in self.operations()]
        self.assertEqual((names.count("AllReduce"), names.count("Broadcast")), (3, 3))

    def test_copy_engine_collectives_are_seen(self):
        self.job("""
            nccl = Nccl(6)
            comm = nccl.communicator("x", 7, 0, 2)
            nccl.stop(comm.coll("AllGather", 64, event_type=CE_COLL, sequence=9))
            comm.close()
        """)
        [gather] = self.operations()
        self.assertEqual((gather["bytes"], gather["sequence"], gather["timing"]),
                         (256, 9, "enqueued"))

    def test_unloading_reloading_and_other_threads(self):
        self.job("""
            for load in range(3):
                nccl = Nccl(5)
                comm = nccl.communicator("x", 7, 0, 2)
                def proxy(op):
                    for i in range(2): nccl.stop_channel(comm.channel(op, i), 0)
                for i in range(20):
                    op = comm.coll("AllReduce", 1, sequence=load * 20 + i)
                    thread = threading.Thread(target=proxy, args=(op,))
                    nccl.stop(op)
                    thread.start()
                    thread.join()
                comm.close()
                nccl.unload()
        """)
        operations = self.operations()
        self.assertEqual([each["sequence"] for each in operations], list(range(60)))
        self.assertEqual({each["timing"] for each in operations}, {"kernel"})

    def test_a_forked_child_has_communicators_of_its_own(self):
        self.job("""
            nccl = Nccl(5)
            comm = nccl.communicator("parent", 7, 0, 2)
            op = comm.coll("AllReduce", 1, channels=1)
            if os.fork() == 0:
                nccl.stop(op)  # the parent's: unknown here
                mine = nccl.communicator("child", 8, 1, 2)
                inner = mine.coll("Broadcast", 1, channels=1)
                nccl.stop(inner)
                nccl.stop_channel(mine.channel(inner, 0), 0)
                mine.close()
                os._exit(0)
            os.wait()
            nccl.stop(op)
            nccl.stop_channel(comm.channel(op, 0), 0)
            comm.close()
        """)
        self.assertEqual(sorted(each["thread"] for each in self.operations()),
                         ["NCCL child 0000000000000008 rank 1",
                          "NCCL parent 0000000000000007 rank 0"])

    def test_the_job_chooses_what_is_recorded(self):
        body = """
            nccl = Nccl(5)
            comm = nccl.communicator("x", 7, 0, 2)
            print(nccl.mask.value)
            if nccl.mask.value: nccl.stop(comm.coll("AllReduce", 1))
            comm.close()
        """
        for choice, mask in (("none", 0), ("calls", 1 | 2 | 4), ("proxies", 1 | 2 | 4 | 8)):
            out, _ = self.job(body, POOLSCOPE_NCCL_EVENTS=choice)
            self.assertEqual(int(out), mask)
        self.assertEqual([each["timing"] for each in self.operations()], ["enqueued"] * 2)


if __name__ == "__main__":
    unittest.main()
