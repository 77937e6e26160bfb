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


if __name__ == "__main__":
    sys.exit(unittest.main())
