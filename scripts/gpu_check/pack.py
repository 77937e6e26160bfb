"""Programs, and all that they need but the C library, as one archive; and back."""

import datetime
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

NAME = "programs.tar.gz"
MOST_BYTES = 60 << 20
REQUIRED = ("bin/poolscope", "bin/poolscope-trainer", "lib/libpoolscope_agent.so")
# Only in a build with CUDA; plain_cublas needs a cuBLAS that the other machine has.
OPTIONAL = ("tests/gpu_test", "tests/plain_cublas", "tests/timed_kernels", "tests/nccl_rank",
            "tests/known_allocations")
# The C library is the other machine's; CUDA's libraries are too large to carry.
NOT_CARRIED = re.compile(
    r"(ld-linux|lib(c|m|dl|rt|pthread|resolv|util|cuda|cublas\w*|nccl))\b.*\.so")


def libraries_of(program):
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    for name, path in re.findall(r"^\s*(\S+) => (/\S+)", done.stdout, re.MULTILINE):
        if not NOT_CARRIED.match(name):
            yield name, path


def cupti():
    """The newest libcupti of this machine's toolkit; the other machine may have none."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return sorted(glob.glob(f"{home}/lib64/libcupti.so.[0-9][0-9]"))[-1:]


def commit_of(root):
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=root,
                          capture_output=True, text=True)
    return done.stdout.strip() or "?"


def pack(root, build, archive):
    missing = [name for name in REQUIRED if not (build / name).exists()]
    if missing:
        print(f"gpu-check: {build / missing[0]} is not built", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name in REQUIRED + OPTIONAL:
            if not (build / name).exists():
                print(f"gpu-check: without {name}: not built", file=sys.stderr)
                continue
            (folder / name).parent.mkdir(exist_ok=True)
            subprocess.run(["strip", "-o", folder / name, build / name], check=True)
            (folder / "carried").mkdir(exist_ok=True)
            for library, path in libraries_of(build / name):
                shutil.copy(path, folder / "carried" / library)
        for path in cupti():
            shutil.copy(path, folder / "carried")
        now = datetime.datetime.now(datetime.timezone.utc)
        manifest = {"commit": commit_of(root), "packed": now.isoformat("T", "seconds")}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with tarfile.open(archive, "w:gz", compresslevel=6) as tar:
            tar.add(folder, ".")
    size = archive.stat().st_size
    print(f"gpu-check: {archive}: {size / (1 << 20):.1f} MiB")
    if size > MOST_BYTES:
        print(f"gpu-check: over the {MOST_BYTES >> 20} MiB that travel", file=sys.stderr)
        return 1
    return 0


def unpack(archive):
    """The folder with the programs; None where there is no archive."""
    if not archive.exists():
        return None
    folder = archive.parent / "programs"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    return folder


def manifest_of(folder):
    path = folder / "manifest.json"
    return json.loads(path.read_text()) if path.exists() else {"commit": "not packed"}
