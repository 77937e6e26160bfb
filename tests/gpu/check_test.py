"""scripts/gpu-check on a machine without a GPU: what is packed, what is skipped and why, and that
its checks pass and fail as they should, by a stand-in whose device cuda computes on the cpu."""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu_check"

NO_GPU = unittest.skipIf(shutil.which("nvidia-smi"), "this machine has a GPU")

# The trainer with what chooses the device taken out; @CHANGE@ may add to the flags of cuda runs.
STAND_IN = f"""#!{sys.executable}
import os, sys
flags, kept, cuda = iter(sys.argv[1:]), [], False
for flag in flags:
    if flag in ("--device", "--compute-device", "--update-device", "--gemm", "--precision",
                "--stream-priority"):
        cuda = next(flags).startswith("cuda") or cuda
    elif flag != "--cuda-graphs":
        kept.append(flag)
if cuda:
    kept += @CHANGE@
os.execv("{BUILD}/bin/poolscope-trainer", ["poolscope-trainer", *kept])
"""


def gpu_check(*arguments, out):
    done = subprocess.run([sys.executable, SCRIPT, "--out", out, *map(str, arguments)],
                          capture_output=True, text=True, timeout=250)
    path = pathlib.Path(out) / "gpu-check.json"
    results = json.loads(path.read_text())["checks"] if path.exists() else []
    return done, {each["name"]: each for each in results}


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def stand_in(self, change):
        """A build folder whose trainer computes on the cpu and says it was a GPU."""
        programs = self.folder / "programs"
        shutil.rmtree(programs, ignore_errors=True)
        (programs / "bin").mkdir(parents=True)
        for name in ("bin/poolscope", "lib"):
            (programs / name).symlink_to(BUILD / name)
        trainer = programs / "bin" / "poolscope-trainer"
        trainer.write_text(STAND_IN.replace("@CHANGE@", repr(change)))
        trainer.chmod(stat.S_IRWXU)
        return programs

    @NO_GPU
    def test_without_a_gpu_each_check_is_skipped_and_says_why(self):
        done, checks = gpu_check("--programs", BUILD, out=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(len(checks), 10)
        for check in checks.values():
            if check["name"] == "program":  # there the one line of error is what is tested
                continue
            self.assertEqual(check["status"], "SKIP", check)
            self.assertRegex(check["summary"], "no CUDA device|not there|no CUPTI|cannot load")
        self.assertIn("kernels", (self.folder / "gpu-check.txt").read_text())

    def test_a_device_that_computes_right_passes(self):
        done, checks = gpu_check("--programs", self.stand_in([]), "loss_fp32", "offload",
                                 out=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({each["status"] for each in checks.values()}, {"PASS"}, done.stdout)
        self.assertEqual(checks["loss_fp32"]["numbers"], {"own": 0, "cublas": 0})
        self.assertGreater(checks["offload"]["numbers"]["encode_seconds"]["gradients"], 0)

    def test_a_device_that_computes_wrong_fails(self):
        wrong = self.stand_in(["--learning-rate", "0.0015"])
        done, checks = gpu_check("--programs", wrong, "loss_fp32", out=self.folder)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual({each["status"] for each in checks.values()}, {"FAIL"}, done.stdout)

    def test_memory_is_held_against_what_the_program_asked_for(self):
        programs = self.stand_in([])
        (programs / "tests").mkdir()
        program = programs / "tests" / "known_allocations"
        for pinned, status in ((30, "PASS"), (31, "FAIL")):
            asked = {"device": 7000, "pool": 0, "pinned": pinned, "managed": 0, "held": 4000}
            calls = "; ".join(f"launch cudaMalloc_v3020 correlation={i}" for i in range(1, 5))
            program.write_text(
                f"#!/bin/sh\necho '{json.dumps(asked)}'\nexec {BUILD}/tests/cuda_job 'cuda; push "
                f"series; {calls}; pop; freeze; allocate address=1 bytes=3000 correlation=1 at=90;"
                "allocate address=2 bytes=4000 correlation=2 at=80; allocate address=3 bytes=30 "
                "memory=2 correlation=3 at=70; release address=1 correlation=4 at=60;"
                "release address=3 correlation=4 at=50; allocate address=9 bytes=1'\n")
            program.chmod(stat.S_IRWXU)
            with unittest.mock.patch.dict(
                    os.environ, POOLSCOPE_CUPTI=str(BUILD / "tests/standin/libcupti.so")):
                done, checks = gpu_check("--programs", programs, "memory", out=self.folder)
            self.assertEqual(checks["memory"]["status"], status, done.stdout)

    @NO_GPU
    def test_a_machine_with_a_gpu_that_cuda_does_not_find_fails(self):
        smi = self.folder / "nvidia-smi"
        smi.write_text("#!/bin/sh\necho 'NVIDIA H200, 580.1, 143771 MiB'\n")
        smi.chmod(stat.S_IRWXU)
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        done = subprocess.run([sys.executable, SCRIPT, "--out", self.folder, "--programs", BUILD,
                               "kernels", "tokens"], capture_output=True, text=True, timeout=60,
                              env=environment)
        self.assertEqual(done.returncode, 1, done.stdout)
        for line in done.stdout.splitlines()[1:-1]:
            self.assertRegex(line, "^FAIL.*no CUDA device|SKIP.*not there: built without CUDA")

    def test_no_check_begins_without_time(self):
        done, checks = gpu_check("--programs", self.stand_in([]), "--minutes", "0", "tokens",
                                 out=self.folder)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(checks["tokens"]["summary"], "no time left")

    def test_the_pack_holds_all_that_its_programs_need(self):
        done, _ = gpu_check("--pack", "--build", BUILD, out=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        archive = self.folder / "programs.tar.gz"
        self.assertLess(archive.stat().st_size, 60 << 20)
        subprocess.run(["tar", "-xzf", archive, "-C", self.folder], check=True, timeout=60)
        for name in ("bin/poolscope", "bin/poolscope-trainer"):
            # Of the machine's own libraries only the C library's.
            listed = subprocess.run(["ldd", self.folder / name], capture_output=True, text=True,
                                    env={"LD_LIBRARY_PATH": str(self.folder / "carried")}).stdout
            for line in listed.splitlines():
                own = str(self.folder) in line or "linux-vdso" in line
                self.assertTrue(own or any(f"{c}.so" in line for c in
                                           ("/libc", "/libm", "/libdl", "/libpthread", "/librt",
                                            "/ld-linux-x86-64")), line)
        helped = subprocess.run([self.folder / "bin" / "poolscope-trainer", "--help"], timeout=60,
                                env={"LD_LIBRARY_PATH": str(self.folder / "carried")},
                                capture_output=True, text=True)
        self.assertEqual(helped.returncode, 0, helped.stderr)


if __name__ == "__main__":
    unittest.main()
