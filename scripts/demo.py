"""The demo behind scripts/demo: slow link, report, first recommendation, again.

Writes build/demo/result.json with baseline_step_seconds, predicted_step_seconds,
measured_step_seconds and recommendation (as in the JSON report). Exit 1 with one line if a part
fails or the report recommends nothing.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
TEXTS = ["/usr/share/common-licenses/GPL-3", "/usr/share/common-licenses/Apache-2.0"]

# Emulated devices set the pace; a tiny real model beside them has real losses and gradients.
TRAINER = {
    "--device": "emulated",
    "--math": "tiny",
    "--mode": "disaggregated",
    "--compute-workers": "4",
    "--update-workers": "1",
    "--forward-ms": "15",
    "--backward-ms": "25",
    "--update-ms": "20",
    "--gradient-bytes": "64M",
    "--weight-bytes": "64M",
    "--gradients-bandwidth": "2G",
    "--weights-bandwidth": "20G",
    "--micro-batches": "8",
    "--log-every": "25",
}


def fail(message):
    print(f"demo: {message}", file=sys.stderr)
    sys.exit(1)


def train(name, options, flags, out):
    """Trains under the agent; returns (store, trainer's own summary)."""
    store, log = out / f"{name}.db", out / f"{name}.jsonl"
    for old in (store, log):
        for path in out.glob(old.name + "*"):
            path.unlink()
    command = [str(BIN / "poolscope"), "run", "--no-report", "--store", str(store), "--"]
    command += [str(BIN / "poolscope-trainer"), "--json-log", str(log)]
    command += flags
    for key, value in options.items():
        command += [key, value]
    print("$ " + shlex.join(c.removeprefix(f"{ROOT}/") for c in command), flush=True)
    done = subprocess.run(command)
    if done.returncode != 0:
        fail(f"training '{name}' ended with exit code {done.returncode}")
    return store, json.loads(log.read_text().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--data", default=next((t for t in TEXTS if os.path.exists(t)), None),
                        help="text to train on (default: a licence text of this system)")
    arguments = parser.parse_args()
    if not arguments.data or not os.path.isfile(arguments.data):
        fail(f"no text to train on at '{arguments.data}': pass --data FILE")
    out = ROOT / "build" / "demo"
    out.mkdir(parents=True, exist_ok=True)
    options = dict(TRAINER, **{"--steps": str(arguments.steps), "--data": arguments.data})

    print("\n== 1. Train under the agent, with a gradients link too slow for it ==\n", flush=True)
    store, before = train("before", options, ["--async"], out)

    print("\n== 2. What the report says ==\n", flush=True)
    report = [str(BIN / "poolscope"), "report", str(store)]
    if subprocess.run(report).returncode != 0:
        fail("no report")
    findings = json.loads(
        subprocess.run(report + ["--format", "json"], stdout=subprocess.PIPE, check=True).stdout
    )["findings"]
    advice = next((f["recommendation"] for f in findings if f.get("recommendation")), None)
    if advice is None:
        fail("the report recommends nothing; see above")

    print(f"\n== 3. Apply the first recommendation: {advice['change']} ==\n", flush=True)
    changed = dict(options)
    words = shlex.split(advice["apply"])
    for flag, value in zip(words[::2], words[1::2]):
        changed[flag] = value
    _, after = train("after", changed, ["--async"], out)

    result = {
        "baseline_step_seconds": before["step_seconds_median"],
        "predicted_step_seconds": advice["predicted_step_seconds"],
        "measured_step_seconds": after["step_seconds_median"],
        "recommendation": advice,
    }
    part = out / "result.json.part"
    part.write_text(json.dumps(result, indent=2) + "\n")
    part.rename(out / "result.json")

    predicted, measured = result["predicted_step_seconds"], result["measured_step_seconds"]
    print("\n== 4. Did it come true? ==\n")
    print(f"  step time before      {result['baseline_step_seconds'] * 1e3:8.1f} ms")
    low, high = advice["interval"]
    print(f"  predicted             {predicted * 1e3:8.1f} ms"
          f"   ({low * 1e3:.1f} to {high * 1e3:.1f})")
    print(f"  measured              {measured * 1e3:8.1f} ms"
          f"   (the prediction was {abs(predicted / measured - 1) * 100:.1f} % off)")
    print(f"  speed-up              {result['baseline_step_seconds'] / measured:8.2f} x")
    print(f"\n  look at it: build/bin/poolscope view {os.path.relpath(store, ROOT)}"
          "\n  numbers:    build/demo/result.json")


if __name__ == "__main__":
    main()
