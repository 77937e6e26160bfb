"""Behind scripts/gpu-check: packs the programs, or runs all checks and writes their results."""

import argparse
import os
import pathlib
import sys

import checks
import pack
from programs import Programs
from results import Results

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__)
    parser.add_argument("--pack", action="store_true", help="pack the programs of --build")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", metavar="DIR",
                        help="build to pack (default build)")
    parser.add_argument("--programs", type=pathlib.Path, metavar="DIR",
                        help="check these, not packed ones; a build folder is one such DIR")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "gpu-check",
                        metavar="DIR", help="where the results, or the pack, go")
    parser.add_argument("--minutes", type=float, default=5.5,
                        help="when no further check begins (default 5.5)")
    parser.add_argument("names", nargs="*", metavar="CHECK", help=", ".join(checks.ALL))
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in checks.ALL]
    if unknown:
        parser.error(f"no check named {unknown[0]!r}, only {', '.join(checks.ALL)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.pack:
        return pack.pack(ROOT, arguments.build.resolve(), arguments.out / pack.NAME)
    folder = arguments.programs
    if folder is None:
        folder = pack.unpack(ROOT / "build" / "gpu-check" / pack.NAME)
    if folder is None or not (folder / "bin").is_dir():
        print("gpu-check: no programs: run scripts/gpu-check --pack where the project is built, "
              "and copy build/gpu-check here", file=sys.stderr)
        return 1
    results = Results(arguments.out, pack.manifest_of(folder))
    programs = Programs(folder.resolve(), arguments.minutes * 60, results.has_gpu)
    for name in arguments.names or checks.ALL:
        results.add(name, lambda check=checks.ALL[name]: check(programs))
    return results.finish()


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    sys.exit(main())
