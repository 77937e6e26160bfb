"""`python -m poolscope`: a job without a line changed has workers, steps and waits in its store."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from python_job import MODULE, ROOT, POOLSCOPE, PythonJob, clean_environment  # noqa: E402

STANDIN = str(ROOT / "tests" / "support" / "standin_torch")

# 12 steps of two micro-batches: input 4 ms each at least, forward 6, backward 8, optimizer 10.
TRAINING = """
    import sys
    assert "torch" not in sys.modules
    def train(steps):
        import torch, torch.optim  # late
        from torch.utils.data import DataLoader
        optimizer = torch.optim.SGD(0.010)
        for i, batch in enumerate(DataLoader(2 * steps, 0.022)):
            torch.loss(float(i), 0.006, 0.008).backward()
            if i % 2: optimizer.step()
    if __name__ == "__main__":
        train(12)
"""


class Automatic(PythonJob):
    def environment(self, **more):
        return clean_environment(PYTHONPATH=f"{MODULE}:{STANDIN}", **more)

    def run_marked(self, *words, expect=0, **environment):
        return self.run_program([POOLSCOPE, "run", "--no-report", "--store", self.store, "--",
                                 sys.executable, "-m", "poolscope", *words], expect=expect,
                                env=self.environment(**environment))

    def train(self, body, *flags, **environment):
        return self.run_marked(*flags, self.script(body), **environment)

    def seconds(self, thread="%"):
        """{name: (ranges, their time in seconds)} of workers' threads."""
        return {row["name"]: (row["n"], row["s"]) for row in self.sql(
            "SELECT name, count(*) AS n, sum(duration_ns) / 1e9 AS s FROM event "
            "WHERE domain = 'poolscope' AND thread LIKE 'trainer/%' GROUP BY name")}

    def workers(self):
        return sorted((row["pool"], row["worker_index"]) for row in self.sql(
            "SELECT pool, worker_index FROM worker"))

    def test_training_loop_has_its_steps_and_parts(self):
        self.train(TRAINING)
        self.assertEqual(self.workers(), [("trainer", 0)])
        steps = self.sql("SELECT step, version, micro_batches FROM step ORDER BY step")
        self.assertEqual([tuple(map(int, row.values())) for row in steps],
                         [(n, n + 1, 2) for n in range(12)])
        losses = [e["payload"]["loss"] for e in self.events("name = 'step'")]
        self.assertEqual([float(loss) for loss in losses], [2 * n + 0.5 for n in range(12)])
        parts = self.seconds()
        self.assertEqual({name: n for name, (n, _) in parts.items() if name != "script"},
                         {"DataLoader": 25, "forward": 24, "backward": 24, "optimizer": 12,
                          "step": 12})
        # What is slept is a lower bound of each, and of the wait for data what the rest leaves.
        for name, least in (("forward", 0.144), ("backward", 0.192), ("optimizer", 0.120)):
            self.assertGreaterEqual(parts[name][1], least)
        self.assertGreater(parts["DataLoader"][1], 0)
        self.assertNotIn("queue", parts)  # the loader's own
        self.assertEqual(self.lost(), 0)

    def test_worker_does_one_thing_at_a_time(self):
        self.train(TRAINING)
        rows = [e for e in self.events("thread LIKE 'trainer/%'") if e["name"] != "step"]
        for before, after in zip(rows, rows[1:]):
            self.assertLessEqual(int(before["end_ns"]), int(after["start_ns"]))
        self.assertEqual(self.value("SELECT count(*) FROM open_range"), 0)

    def test_ranks_are_workers_and_one_tells_the_steps(self):
        script = self.script(TRAINING)
        launcher = self.script("""
            import os, subprocess, sys
            ranks = [subprocess.Popen([sys.executable, "-m", "poolscope", sys.argv[1]],
                                      env=dict(os.environ, RANK=str(r))) for r in range(3)]
            raise SystemExit(max(r.wait() for r in ranks))
        """, "launcher.py")
        self.run_program([POOLSCOPE, "run", "--no-report", "--store", self.store, "--",
                          sys.executable, launcher, script], env=self.environment())
        self.assertEqual(self.workers(), [("trainer", n) for n in range(3)])
        self.assertEqual(self.value("SELECT count(*) FROM step"), 12)

    def test_collectives_are_waits_for_peers(self):
        self.train("""
            import torch, torch.optim, torch.distributed as dist
            optimizer = torch.optim.SGD(0.001)
            for _ in range(4):
                torch.loss(1.0, 0, 0.001).backward()
                dist.all_reduce(None)
                dist.all_reduce(None, async_op=True).wait()
                dist.barrier()
                optimizer.step()
        """)
        waits = self.events("category = 6")
        self.assertEqual(sorted(e["name"] for e in waits if e["duration_ns"] >= 9_000_000),
                         ["all_reduce"] * 4 + ["barrier"] * 4 + ["wait"] * 4)
        self.assertEqual(self.value("SELECT sum(wait_peer_ns) >= 0.12e9 FROM worker_window"), 1)

    def test_queues_of_a_plain_script_are_waits_for_a_link(self):
        self.train("""
            import queue, threading, time
            inbox, outbox = queue.Queue(), queue.Queue(1)
            def other():
                for i in range(5):
                    time.sleep(0.02)
                    inbox.put(i)
                time.sleep(0.03)
                for i in range(5):
                    outbox.get()
            thread = threading.Thread(target=other)
            thread.start()
            for i in range(5):
                outbox.put(inbox.get())
                time.sleep(0.001)
            thread.join()
        """, "--pool", "rollout")
        self.assertEqual(self.workers(), [("rollout", 0)])
        sums = self.sql("SELECT sum(wait_link_ns) AS waited, sum(blocked_link_ns) AS blocked "
                        "FROM worker_window")[0]
        # Slept by the other: 100 ms before it has given all, 130 ms before it takes anything.
        self.assertGreaterEqual(int(sums["waited"]), 20_000_000)
        self.assertGreaterEqual(int(sums["blocked"]), 30_000_000)
        self.assertEqual(self.value("SELECT role FROM pool"), "rollout")

    def test_children_of_multiprocessing_are_marked_however_they_start(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method=method):
                self.setUp()
                self.train(TRAINING.replace("train(12)", f"""
        import multiprocessing
        context = multiprocessing.get_context("{method}")
        children = [context.Process(target=train, args=(3,)) for _ in range(2)]
        for child in children: child.start()
        for child in children: child.join()
        assert [child.exitcode for child in children] == [0, 0]
"""))
                self.assertEqual(self.workers(), [("trainer", 0), ("trainer", 1)])
                updates = self.sql("SELECT pid, count(*) AS n FROM event WHERE name = 'optimizer' "
                                   "GROUP BY pid")
                self.assertEqual([row["n"] for row in updates], [3, 3])
                self.assertEqual(self.value("SELECT count(*) FROM event WHERE name = 'step'"), 3)
                self.assertEqual(self.lost(), 0)
                self.tearDown()

    def test_pool_of_multiprocessing_by_fork_ends_and_is_marked(self):
        out, _ = self.train("""
            import multiprocessing, poolscope
            def square(x):
                with poolscope.range("square"):
                    return x * x
            if __name__ == "__main__":
                for method in ("fork", "spawn"):
                    with multiprocessing.get_context(method).Pool(2) as pool:
                        print(sum(pool.map(square, range(50), 1)))
        """)
        self.assertEqual(out, "40425\n" * 2)
        self.assertEqual(self.value("SELECT count(*) FROM event WHERE name = 'square'"), 100)

    def test_step_that_fails_is_left_and_others_go_on(self):
        self.train("""
            import torch, torch.optim
            optimizer = torch.optim.SGD(0.001)
            def closure():
                torch.loss(None, 0, 0.002).backward()
                if optimizer.fails: raise ArithmeticError
            for i in range(6):
                optimizer.fails = i == 2
                try:
                    optimizer.step(closure)
                except ArithmeticError:
                    pass
        """)
        self.assertEqual(self.value("SELECT count(*) FROM step WHERE loss IS NULL"), 5)
        # Of a step with a closure the backward is a part of its own.
        self.assertEqual(self.seconds()["backward"][0], 6)
        self.assertEqual(self.value("SELECT count(*) FROM open_range"), 0)

    def test_thread_that_marks_itself_is_left_alone(self):
        self.train("""
            import torch, torch.optim, poolscope
            poolscope.worker("mine", 4, "compute")
            torch.loss(1.0, 0, 0.001).backward()
            with poolscope.work("all of it"):
                torch.optim.SGD(0.001).step()
        """)
        self.assertEqual(self.workers(), [("mine", 4)])
        self.assertEqual([e["name"] for e in self.events("category = 1")], ["all of it"])

    def test_waits_that_a_script_marks_are_no_work(self):
        self.train("""
            import time, torch, torch.optim, poolscope
            optimizer = torch.optim.SGD(0.001)
            with poolscope.range("plain"):
                optimizer.step()
                time.sleep(0.01)
            with poolscope.wait_link("samples"):
                time.sleep(0.05)
            optimizer.step()
        """)
        self.assertEqual(self.seconds()["optimizer"][0], 1)
        plain, = self.events("name = 'plain'")  # it ends where the script ends it
        optimizer, = self.events("name = 'optimizer'")
        self.assertGreaterEqual(int(plain["end_ns"]), int(optimizer["end_ns"]) + 10_000_000)
        self.assertEqual(self.value("SELECT sum(wait_link_ns) >= 50e6 FROM worker_window"), 1)

    def test_program_runs_as_it_does_alone(self):
        shown = self.script("""
            import pickle, runpy, sys
            class Kept: pass
            print(sys.argv[1:], __name__, __file__ == sys.argv[0], sys.path[0], __spec__ is None)
            print(type(pickle.loads(pickle.dumps(Kept()))) is Kept)
            print(sys.stdin.read())
            def fails(): raise RuntimeError("on purpose")
            if "--fail" in sys.argv: fails()
            sys.exit(7)
        """)
        for words in (["--pool", "x", "-m", "y"], ["--fail"]):
            ends = []
            for before in ([], ["-m", "poolscope"]):
                process = self.start([sys.executable, *before, shown, *words], stdin=-1,
                                     env=self.environment())
                ends.append((process.communicate("given", timeout=60), process.returncode))
            self.assertEqual(ends[0], ends[1])
        module = self.run_program([sys.executable, "-m", "poolscope", "-m", "platform"],
                                  env=self.environment())
        self.assertEqual(module, self.run_program([sys.executable, "-m", "platform"]))

    def test_wrong_usage_is_one_line(self):
        for words, said in (([], "which program"), (["--pol", "x", "a.py"], "--pol"),
                            (["none.py"], "none.py"), (["--role", "boss", "a.py"], "boss"),
                            (["--pool", "a b", "x.py"], "a b"), (["--pool"], "--pool")):
            _, err = self.run_program([sys.executable, "-m", "poolscope", *words], expect=2,
                                      env=self.environment())
            self.assertEqual(len(err.splitlines()), 1, err)
            self.assertIn(said, err)


if __name__ == "__main__":
    sys.exit(unittest.main())
