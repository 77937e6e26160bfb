"""A Python job that marks itself: what it says is what the store holds."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from python_job import MODULE, ROOT, PythonJob, clean_environment  # noqa: E402

sys.path.insert(0, MODULE)
import poolscope.messages  # noqa: E402
import poolscope.ranges  # noqa: E402

TRANSFER, DISCARD, FAULT = 2, 10, 13  # of enum poolscope_category

# Two pools: a worker that computes gradients of version v, one that applies them and makes v + 1.
TRAINING = """
    import queue, threading, time
    import poolscope

    STEPS = 160
    gradients, weights = queue.Queue(1), queue.Queue()
    depth, loss = poolscope.Counter("gradients.depth"), poolscope.Counter("loss")
    poolscope.link("gradients", "compute", "update", capacity=1)
    poolscope.link("weights", "update", "compute", capacity=1)
    poolscope.setting("gradients.codec", "none")

    def compute():
        poolscope.worker("compute", 0, "compute")
        for step in range(STEPS):
            version = step
            with poolscope.input("batch"):
                time.sleep(0.001)
            with poolscope.work("forward", step=step, micro_batch=0, version=version):
                time.sleep(0.004)
            message = poolscope.Transfer("gradients", 0, 0, step, version=version, raw_bytes=1000,
                                         wire_bytes=500, step=step, micro_batch=0, codec="bf16")
            with message.stage("encode"):
                time.sleep(0.001)
            queued = message.queue()
            depth.sample(1)
            gradients.put((message, queued))
            with poolscope.wait_link("weights") as wait:
                wait.message(0, weights.get())

    def update():
        poolscope.worker("update", 0, "update")
        for step in range(STEPS):
            with poolscope.wait_link("gradients") as wait:
                message, queued = gradients.get()
                wait.message(0, message.sequence)
            queued.end()
            depth.sample(0)
            with message.stage("wire"):
                time.sleep(0.002)
            message.applied_version = step
            with message.stage("apply"):
                time.sleep(0.001)
            with poolscope.work("optimizer", step=step, scope=poolscope.PER_SHARD) as work:
                time.sleep(0.006)
                work.version = step + 1
            loss.sample(1 / (step + 1))
            poolscope.step(step, tokens=128, micro_batches=1, loss=1 / (step + 1))
            weights.put(step)

    threads = [threading.Thread(target=target) for target in (compute, update)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print("attached", poolscope.attached())
"""


class Marks(PythonJob):
    def test_two_pools_are_reported_as_they_ran(self):
        out, err = self.run_python(self.script(TRAINING))
        self.assertEqual((out, "went on" in err), ("attached True\n", False))
        steps = self.sql("SELECT step, version, tokens, micro_batches FROM step ORDER BY step")
        self.assertEqual([tuple(map(int, row.values())) for row in steps],
                         [(n, n + 1, 128, 1) for n in range(160)])
        report = self.report()
        pools = {pool["name"]: pool for pool in report["pools"]}
        self.assertEqual({name: pool["role"] for name, pool in pools.items()},
                         {"compute": "compute", "update": "update"})
        # Of 15 ms of sleep a step 7 are the update's work, 4 that of compute.
        self.assertGreater(pools["update"]["busy_ratio"], pools["compute"]["busy_ratio"])
        self.assertGreater(pools["compute"]["state_ratios"]["input"], 0)
        links = {link["name"]: link for link in report["links"]}
        self.assertEqual((links["gradients"]["from"], links["gradients"]["to"]),
                         ("compute", "update"))
        self.assertEqual(links["gradients"]["capacity"], 1)
        self.assertAlmostEqual(links["gradients"]["raw_bytes"] / links["gradients"]["wire_bytes"],
                               2)
        self.assertEqual(self.lost(), 0)

    def test_every_call_is_stored_as_it_was_made(self):
        out, _ = self.run_python(self.script("""
            import asyncio, threading
            import poolscope
            from poolscope import Transfer

            poolscope.worker("compute", 3, "compute")
            with poolscope.range("outer"):
                with poolscope.range("inner"):
                    pass
            again = poolscope.range("again")
            for _ in range(3):
                with again, again:
                    pass

            @poolscope.work("worked", step=7, micro_batch=2, version=5, scope=poolscope.FIXED)
            def recursive(depth):
                if depth: recursive(depth - 1)
            recursive(2)

            for name in ("blocked_link", "wait_credit", "wait_peer", "input", "other_work", "phase",
                         "host", "wait_link"):
                with getattr(poolscope, name)(name + " mark"):
                    pass
            try:
                with poolscope.range("fails"):
                    raise ValueError
            except ValueError:
                pass
            with poolscope.range("after"):
                pass
            message = Transfer("gradients", 1, 2, 3, version=4, applied_version=5, raw_bytes=6,
                               step=7, micro_batch=8, codec="bf16")
            for stage in ("encode", "wire", "receive", "decode", "apply"):
                with message.stage(stage):
                    pass
            queued = message.queue()
            thread = threading.Thread(target=queued.end)
            thread.start()
            thread.join()
            message.discard()
            message.fault("corrupt", 99)
            poolscope.range("\\u00e9\\ud800").__enter__().__exit__()
            for refused in ("async def f(): pass", "def f(): yield"):
                exec(refused)
                try:
                    poolscope.range("x")(locals()["f"])
                except TypeError:
                    print("refused")
        """))
        self.assertEqual(out, "refused\n" * 2)
        rows = self.events()
        by_name = {}
        for row in rows:
            by_name.setdefault(row["name"], []).append(row)
        outer, inner = by_name["outer"][0], by_name["inner"][0]
        self.assertLessEqual(int(outer["start_ns"]), int(inner["start_ns"]))
        self.assertLessEqual(int(inner["end_ns"]), int(outer["end_ns"]))
        self.assertEqual(len(by_name["again"]), 6)
        self.assertEqual(len(by_name["worked"]), 3)
        for row in by_name["worked"]:
            said = row["payload"]
            self.assertEqual([int(said[k]) for k in ("step", "micro_batch", "version", "scope")],
                             [7, 2, 5, 2])
            self.assertLessEqual(int(said["cpu_ns"]), row["duration_ns"] + 1_000_000)
        for name in ("blocked_link", "wait_credit", "wait_peer", "input", "other_work", "phase",
                     "host", "wait_link"):
            self.assertEqual([row["category"] for row in by_name[name + " mark"]],
                             [getattr(poolscope.ranges, name.upper())])
        # A range that an exception leaves has ended when the next begins.
        self.assertLessEqual(int(by_name["fails"][0]["end_ns"]),
                             int(by_name["after"][0]["start_ns"]))
        self.assertIn("\u00e9?", by_name)
        stages = [row for row in by_name["gradients"] if row["category"] == TRANSFER]
        self.assertEqual(sorted(int(row["payload"]["stage"]) for row in stages), [0, 1, 2, 3, 4, 5])
        for row in stages:
            said = {k: v for k, v in row["payload"].items() if k not in ("stage", "codec")}
            self.assertEqual({k: int(v) for k, v in said.items()},
                             {"source": 1, "destination": 2, "sequence": 3, "version": 4,
                              "applied_version": 5, "raw_bytes": 6, "wire_bytes": 6, "step": 7,
                              "micro_batch": 8})
            self.assertEqual(row["payload"]["codec"], "bf16")
        self.assertEqual(
            {row["category"] for row in by_name["gradients"]}, {TRANSFER, DISCARD, FAULT})
        fault = next(row for row in by_name["gradients"] if row["category"] == FAULT)["payload"]
        self.assertEqual([int(fault[k]) for k in ("kind", "source", "sequence", "bytes")],
                         [1, 1, 3, 99])

    def test_numbers_of_other_kinds_are_taken_and_what_is_none_harms_nothing(self):
        body = """
            import poolscope
            class Scalar:  # as of NumPy: no int, but one can be made of it
                def __int__(self): return 9
                def __float__(self): return 2.5
            for number in (Scalar(), 9.0, "nothing", None, 2**70, -1):
                with poolscope.work("worked", step=number) as work:
                    work.version = number
                with poolscope.wait_link("weights") as wait:
                    wait.message(number, number)
                message = poolscope.Transfer("gradients", number, number, number, raw_bytes=number)
                with message.stage("apply"):
                    pass
                message.queue().end()
                message.fault("retry", number)
                poolscope.Counter("loss").sample(number)
                poolscope.step(0, tokens=number, loss=number)
                poolscope.worker("compute", number, "compute")
                poolscope.link("gradients", "compute", "update", number, number)
            print("done")
        """
        self.assertEqual(self.run_python(self.script(body))[0], "done\n")
        unwatched, _ = self.run_program([sys.executable, self.script(body)],
                                        env=clean_environment(PYTHONPATH=MODULE))
        self.assertEqual(unwatched, "done\n")
        steps = [row["payload"]["step"] for row in self.events("name = 'worked'")]
        self.assertEqual(steps, [9, 9, None, None, 0, None])

    def test_where_nobody_watches_the_job_is_the_same(self):
        bare, _ = self.run_program([sys.executable, self.script(TRAINING)],
                                   env=clean_environment(PYTHONPATH=MODULE))
        self.assertEqual(bare, "attached False\n")

    def test_agent_of_another_version_or_broken_is_done_without(self):
        library = self.folder / "libpoolscope_agent.so"
        for content in (None, b"not a library"):
            if content:
                library.write_bytes(content)
            out, err = self.run_program(
                [sys.executable, "-c", "import poolscope; print(poolscope.attached())"],
                env=clean_environment(PYTHONPATH=MODULE, NCCL_PROFILER_PLUGIN=str(library)))
            self.assertEqual((out, err), ("False\n", ""))

    def test_numbers_are_those_of_the_header(self):
        header = (ROOT / "agent/include/poolscope/annotate.h").read_text()
        said = {name: int(value) for name, value in re.findall(r"POOLSCOPE_(\w+) = (\d+)", header)}
        for module in (poolscope.ranges, poolscope.messages):
            for name, value in vars(module).items():
                if name.isupper() and isinstance(value, int) and name != "NO_VALUE":
                    self.assertEqual(value, said[name], name)
        for name, value in poolscope.messages._FAULTS.items():
            self.assertEqual(value, said[name.upper()])


if __name__ == "__main__":
    sys.exit(unittest.main())
