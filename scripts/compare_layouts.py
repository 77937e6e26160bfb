"""Three ways to train on eight emulated A100, beside the literature."""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# One worker whose model and passes are spread over eight devices; the update pool is four servers,
# each of which two InfiniBand HDR ports of the GPU machine lead to.
GPUS = 8
ALL = ["--math", "none", "--devices-per-worker", str(GPUS)]
SERVERS = ["--compute-device", "emulated:a100", "--update-device", "emulated:host",
           "--compute-workers", "1", "--update-workers", "4"]
for _link in ("gradients", "weights"):
    SERVERS += [f"--{_link}-bandwidth", "47.5G", f"--{_link}-latency-ms", "0.0015",
                f"--{_link}-lanes", "4"]
LAYOUTS = {  # flags; claimed: parameters, speed, memory in bytes
    "monolithic": (["--mode", "monolithic", "--device", "emulated:a100", "--micro-batches", "8"],
                   (40e9, 1.0, 320e9)),
    "disaggregated, plain": (SERVERS + ["--micro-batches", "8", "--gradients-depth", "1",
                                        "--weights-depth", "1"],
                             (280e9, 0.6, 48e9)),
    # The same tokens in two larger micro-batches, whose gradients go out while the next computes,
    # and weights that are fetched layer by layer. The flags of the model that learns state its
    # layers.
    "disaggregated, optimised": (SERVERS + ["--async", "--lag-bound", "2", "--micro-batches", "2",
                                            "--model-batch", "4", "--gradients-depth", "2",
                                            "--weights-mode", "fetch", "--layers", "48",
                                            "--prefetch-depth", "4", "--weights-depth", "16"],
                                 (280e9, 1.2, 42e9)),
}


class Failed(Exception):
    pass


class Trainer:
    def __init__(self, program):
        self.program = program

    def run(self, flags, parameters, steps, scale, log="/dev/null"):
        """The finished process; one that ran out of device memory is no failure."""
        done = subprocess.run(
            [self.program, *ALL, *flags, "--model-parameters", f"{parameters:.0f}", "--steps",
             str(steps), "--time-scale", f"{scale:g}", "--json-log", log],
            capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0 and "out of device memory" not in done.stderr:
            raise Failed(done.stderr.strip())
        return done

    def largest(self, flags):
        """Parameters of the largest model that fits, to 1 %."""
        fits, too_large = 1e9, 1e13
        while too_large / fits > 1.01:
            middle = (fits * too_large) ** 0.5
            if self.run(flags, middle, 1, 1e-6).returncode == 0:
                fits = middle
            else:
                too_large = middle
        return fits

    def measure(self, flags, parameters, scale, folder):
        """Seconds of a step and bytes that all GPUs hold."""
        log = folder / "log.jsonl"
        done = self.run(flags, parameters, 12, scale, log)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        last = json.loads(log.read_text().splitlines()[-1])
        amount, unit = re.search(r"memory +([0-9.]+) (\w+) a device of compute",
                                 done.stdout).groups()
        held = GPUS * float(amount) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
        return last["step_seconds_median"] / scale, held


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the table there as well")
    parser.add_argument("--time-scale", type=float, default=0.05, metavar="S",
                        help="of the measured runs (default 0.05)")
    parser.add_argument("--trainer", metavar="FILE", type=pathlib.Path,
                        default=ROOT / "build" / "bin" / "poolscope-trainer")
    arguments = parser.parse_args()
    if not arguments.trainer.exists():
        print(f"compare-layouts: {arguments.trainer} is missing: build first (README.md)",
              file=sys.stderr)
        return 2
    trainer = Trainer(arguments.trainer)
    rows = []
    try:
        sizes = {name: trainer.largest(flags) for name, (flags, _) in LAYOUTS.items()}
        common = min(sizes.values())  # the model that all of them can train
        with tempfile.TemporaryDirectory() as folder:
            for name, (flags, claim) in LAYOUTS.items():
                step, held = trainer.measure(flags, common, arguments.time_scale,
                                             pathlib.Path(folder))
                rows.append({"layout": name, "largest": sizes[name], "step_seconds": step,
                             "gpu_bytes": held, "claim": claim})
    except Failed as failure:
        print(f"compare-layouts: {failure}", file=sys.stderr)
        return 1
    print(f"{GPUS} emulated A100; speed, and memory of all, with {common / 1e9:.1f} G parameters\n")
    print(f"{'':26}{'largest model':>20}{'speed':>16}{'GPU memory':>20}")
    print(f"{'':26}{'ours':>12}{'claim':>8}{'ours':>8}{'claim':>8}{'ours':>12}{'claim':>8}")
    for row in rows:
        row["speed"] = rows[0]["step_seconds"] / row["step_seconds"]
        size, speed, held = row["claim"]
        print(f"{row['layout']:26}{row['largest'] / 1e9:10.0f} G{size / 1e9:6.0f} G"
              f"{row['speed']:7.2f}x{speed:7.1f}x{row['gpu_bytes'] / 1e9:9.0f} GB"
              f"{held / 1e9:5.0f} GB")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
