"""`poolscope env` prints what each launcher takes, and what it prints makes jobs record."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from harness import AGENT, BUILD, POOLSCOPE, EndToEnd, clean_environment  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None

FORK = [str(BUILD / "tests" / "nvtx_fork"), "--before", "10", "--after", "5", "--children", "1"]
LOADING = ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN")
AWKWARD = "/dev/shm/it's \"a\" $HOME #folder"


class Env(EndToEnd):
    def printed(self, form, *flags, expect=0, **variables):
        return self.run_program([POOLSCOPE, "env", "--format", form, *flags], expect=expect,
                                env=clean_environment(**variables))[0]

    def expect_settings(self, variables, run_dir=AWKWARD):
        for name in LOADING:
            self.assertEqual(variables[name], AGENT)
        self.assertEqual(variables["POOLSCOPE_RUN_DIR"], run_dir)
        self.assertRegex(variables["POOLSCOPE_RUN_ID"], "^[0-9a-f]{32}$")

    def sessions(self):
        return sorted(self.shm.glob("*.session"))

    def test_shell_takes_it_and_jobs_then_record_one_run(self):
        text = self.printed("sh", "--run-dir", AWKWARD)
        shown, _ = self.run_program(["sh", "-euc", text + "env"])
        variables = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        self.expect_settings(variables)

        self.run_program(["sh", "-euc", f'eval "$({POOLSCOPE} env --run-dir {self.shm})"\n'
                                        f"{shlex.join(FORK)} & {shlex.join(FORK)}; wait"])
        collector = self.start([POOLSCOPE, "collect", "--store", self.store],
                               env=clean_environment(POOLSCOPE_RUN_DIR=str(self.shm)))
        self.assertTrue(collector.stdout.readline().startswith(f"collecting from {self.shm} to"))
        collector.terminate()
        collector.communicate(timeout=60)
        self.assertEqual(self.value("SELECT count(*) FROM process"), 4)
        self.assertEqual(self.value("SELECT count(*) FROM run"), 1)
        self.assertEqual(self.value("SELECT count(*) FROM event WHERE name = 'inherited'"), 40)

    def test_docker_gets_flags_that_share_memory_and_library(self):
        words = shlex.split(self.printed("docker", "--run-dir", AWKWARD))
        self.assertEqual(words[:2], ["--ipc=host", f"--volume={AGENT}:{AGENT}:ro"])
        self.assertTrue(all(word.startswith("--env=") for word in words[2:]), words)
        self.expect_settings(dict(w.removeprefix("--env=").split("=", 1) for w in words[2:]))

    def test_slurm_gets_one_export_flag(self):
        words = shlex.split(self.printed("slurm", "--run-dir", AWKWARD))
        self.assertEqual(len(words), 1)
        names = words[0].split(",")
        self.assertEqual(names[0], "--export=ALL")
        self.expect_settings(dict(name.split("=", 1) for name in names[1:]))

    def test_slurm_cannot_take_a_comma(self):
        _, err = self.run_program([POOLSCOPE, "env", "--format", "slurm", "--run-dir", "/shm/a,b"],
                                  expect=1)
        self.assertIn("/shm/a,b", err)
        self.assertEqual(len(err.splitlines()), 1)

    def test_mpirun_gets_flags_and_its_ranks_record(self):
        words = shlex.split(self.printed("mpirun", "--run-dir", AWKWARD))
        self.assertEqual(words[::2], ["-x"] * (len(words) // 2))
        self.expect_settings(dict(word.split("=", 1) for word in words[1::2]))
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun here: what it does with the flags was not tried")
        flags = self.printed("mpirun", "--run-dir", str(self.shm))
        self.run_program(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2",
                          *shlex.split(flags), *FORK], env=clean_environment())
        self.assertEqual(len(self.sessions()), 4)

    def test_ray_gets_a_runtime_environment(self):
        environment = json.loads(self.printed("ray", "--run-dir", AWKWARD))
        self.assertEqual(list(environment), ["env_vars"])
        self.expect_settings(environment["env_vars"])

    @unittest.skipIf(yaml is None, "no yaml module (Debian: python3-yaml)")
    def test_kubernetes_gets_a_pod_with_library_and_memory(self):
        spec = yaml.safe_load(self.printed("kubernetes", "--run-dir", AWKWARD))["spec"]
        job, = spec["containers"]
        self.expect_settings({entry["name"]: entry["value"] for entry in job["env"]})
        mounts = {entry["name"]: entry for entry in job["volumeMounts"]}
        volumes = {entry["name"]: entry for entry in spec["volumes"]}
        self.assertEqual(mounts.keys(), volumes.keys())
        self.assertEqual(mounts["poolscope-sessions"]["mountPath"], "/dev/shm")
        self.assertEqual(volumes["poolscope-sessions"]["emptyDir"],
                         {"medium": "Memory", "sizeLimit": "1Gi"})
        self.assertEqual(mounts["poolscope-agent"]["mountPath"], os.path.dirname(AGENT))
        self.assertTrue(mounts["poolscope-agent"]["readOnly"])

    def test_what_the_user_had_set_is_kept_and_said_where_the_job_inherits_it(self):
        other = {"NVTX_INJECTION64_PATH": "/opt/other.so"}
        process = self.start([POOLSCOPE, "env"], env=clean_environment(**other))
        out, err = process.communicate(timeout=60)
        self.assertNotIn("NVTX_INJECTION64_PATH", out)
        self.assertIn("NCCL_PROFILER_PLUGIN", out)
        self.assertIn("NVTX_INJECTION64_PATH is set to /opt/other.so", err)
        # A container starts from an environment of its own.
        self.assertIn("NVTX_INJECTION64_PATH", self.printed("docker", **other))

    def test_format_that_is_not_known_is_wrong_usage(self):
        done = subprocess.run([POOLSCOPE, "env", "--format", "lsf"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("lsf", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
