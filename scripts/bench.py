"""Runs the bench programs and prints their figures; see scripts/bench."""

import argparse
import datetime
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def run(name):
    """Figures of one program: lists of figure, value, unit, bar, reference."""
    program = BUILD / "bench" / f"{name}_bench"
    done = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True, cwd=BUILD)
    if done.returncode != 0:
        print(f"bench: {program.name} ended with code {done.returncode}", file=sys.stderr)
    rows = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 4]
    return done.returncode == 0, rows


def verdict(value, bar):
    """"met", "short" or "" for a figure against a bar such as "<= 45"."""
    try:
        sign, limit = bar.split()[:2]
        value, limit = float(value), float(limit)
    except ValueError:
        return ""
    return "met" if (value <= limit if sign == "<=" else value >= limit) else "short"


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo")
                  if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT,
                            stdout=subprocess.PIPE, text=True).stdout.strip()
    today = datetime.date.today().isoformat()
    return f"{today}, commit {commit}, {os.cpu_count()} cores {model}, Linux {platform.release()}"


def main():
    parser = argparse.ArgumentParser(description="Measures the figures of the design.")
    parser.add_argument("--markdown", action="store_true", help="as docs/measurements.md has it")
    names = sorted(p.name.removesuffix("_bench") for p in (BUILD / "bench").glob("*_bench"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if n not in names]
    if unknown:
        print(f"bench: no bench named {unknown[0]!r}, only {', '.join(names)}", file=sys.stderr)
        return 2
    good, table = True, []
    for name in arguments.names or names:
        if sys.stderr.isatty():
            print(f"bench: {name} ...", file=sys.stderr)
        ok, rows = run(name)
        good = good and ok
        table += [(f, v, u, b, verdict(v, b), r) for f, v, u, b, r in rows]
    heads = ("figure", "value", "unit", "bar", "", "reference in the same run")
    if arguments.markdown:
        print(machine() + "\n")
        print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        for row in table:
            print("| " + " | ".join(row) + " |")
    else:
        widths = [max(len(r[i]) for r in [heads] + table) for i in range(len(heads))]
        print(machine())
        for row in [heads] + table:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
