"""`python -m poolscope` on the real PyTorch, where it is installed."""

import pathlib
import sys
import unittest
from importlib.util import find_spec

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from python_job import PythonJob  # noqa: E402


@unittest.skipUnless(find_spec("torch"), "PyTorch is not installed: its stand-in alone is tried")
class PyTorch(PythonJob):
    def test_training_loop_of_the_real_one(self):
        self.run_python("-m", "poolscope", self.script("""
            import torch
            from torch.utils.data import DataLoader, TensorDataset

            def main():
                torch.manual_seed(0)
                data = TensorDataset(torch.randn(240, 8), torch.randint(0, 2, (240,)))
                model = torch.nn.Linear(8, 2)
                optimizer = torch.optim.AdamW(model.parameters())
                for i, (x, y) in enumerate(DataLoader(data, batch_size=8, num_workers=2)):
                    loss = torch.nn.functional.cross_entropy(model(x), y)
                    loss.backward()
                    if i % 2:
                        optimizer.step()
                        optimizer.zero_grad()

            if __name__ == "__main__":
                main()
        """))
        self.assertEqual(self.value("SELECT count(*) FROM step WHERE micro_batches = 2"), 15)
        counts = {row["name"]: row["n"] for row in self.sql(
            "SELECT name, count(*) AS n FROM event WHERE thread = 'trainer/0' GROUP BY name")}
        del counts["script"]
        self.assertEqual(counts, {"DataLoader": 31, "forward": 30, "backward": 30,
                                  "optimizer": 15, "step": 15})
        losses = [float(e["payload"]["loss"]) for e in self.events("name = 'step'")]
        self.assertTrue(all(0 < loss < 5 for loss in losses), losses)

    def test_ranks_under_torchrun(self):
        self.run_python("-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port",
                        "29511", "-m", "poolscope", self.script("""
            import torch, torch.distributed as dist

            dist.init_process_group("gloo")
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 2))
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(6):
                loss = model(torch.randn(4, 8)).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                total = loss.detach()
                dist.all_reduce(total)
            dist.barrier()
            dist.destroy_process_group()
        """))
        self.assertEqual([row["worker_index"] for row in self.sql(
            "SELECT worker_index FROM worker WHERE pool = 'trainer' ORDER BY 1")], [0, 1])
        self.assertEqual(self.value("SELECT count(*) FROM step"), 6)
        for name, count in (("backward", 12), ("optimizer", 12), ("all_reduce", 12)):
            self.assertEqual(self.value(f"SELECT count(*) FROM event WHERE name = '{name}'"), count)


if __name__ == "__main__":
    sys.exit(unittest.main())
