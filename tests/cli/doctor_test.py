"""`poolscope doctor` tries what it names, and says what is broken."""

import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from harness import AGENT, BUILD, POOLSCOPE, STORM, EndToEnd, clean_environment

ENDS = str(BUILD / "tests" / "nvtx_ends")

# A job that has recorded something when a library comes whose NVTX is not of version 3.
FOREIGN_NVTX = """
    import ctypes, sys
    sys.path.insert(0, sys.argv[2])
    import poolscope
    with poolscope.range("before"):
        pass
    no_tables = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(lambda which: None)
    print(ctypes.CDLL(sys.argv[1]).InitializeInjectionNvtx2(no_tables), flush=True)
    sys.stdin.read()
"""


class Doctor(EndToEnd):
    def test_agent_that_records_is_said_to_work(self):
        out, _ = self.run_program([POOLSCOPE, "doctor"])
        self.assertRegex(out, r"agent records NVTX +works +[1-9]\d* bytes")
        self.assertNotIn("BROKEN", out)

    def test_devices_are_counted_where_the_driver_is_there(self):
        devices = self.folder / "devices"
        devices.write_text("0 gpu 50\n3 gpu 1\n")
        nvml = str(pathlib.Path(POOLSCOPE).parents[1] / "tests/standin/libnvidia-ml.so")
        for script, said in ((str(devices), "works +4 devices"), (None, "not here .*start")):
            variables = {"POOLSCOPE_NVML": nvml}
            if script: variables["POOLSCOPE_STANDIN_NVML"] = script
            out, _ = self.run_program([POOLSCOPE, "doctor"], env=clean_environment(**variables))
            self.assertRegex(out, "NVML +" + said)
        out, _ = self.run_program([POOLSCOPE, "doctor"],
                                  env=clean_environment(POOLSCOPE_NVML="/none.so"))
        self.assertRegex(out, "NVML +not here +no /none.so")

    def test_agent_that_is_missing_or_no_library_is_broken(self):
        (self.folder / "bin").mkdir()
        (self.folder / "lib").mkdir()
        moved = shutil.copy(POOLSCOPE, self.folder / "bin")
        out, _ = self.run_program([moved, "doctor"], expect=1)
        self.assertRegex(out, r"agent records NVTX +BROKEN .*libpoolscope_agent.so")
        (self.folder / "lib" / "libpoolscope_agent.so").write_text("no library")
        out, _ = self.run_program([moved, "doctor"], expect=1)
        self.assertRegex(out, r"agent records NVTX +BROKEN")
        shutil.copy(AGENT, self.folder / "lib" / "libpoolscope_agent.so")
        self.run_program([moved, "doctor"], expect=0)

    def environment(self, **more):
        return clean_environment(NVTX_INJECTION64_PATH=AGENT, POOLSCOPE_RUN_DIR=str(self.shm),
                                 **more)

    def processes(self, folder=None):
        """{pid: (state, the rest of the line)} of what doctor says of the run folder."""
        folder = str(folder or self.shm)
        out, _ = self.run_program([POOLSCOPE, "doctor"], expect=None,
                                  env=clean_environment(POOLSCOPE_RUN_DIR=folder))
        parts = dict(part.split("\n", 1) for part in out.split("\nprocesses in ")[1:])
        lines = [line.split(None, 2) for line in parts.get(folder, "").splitlines() if line]
        return {int(pid): (state, rest) for pid, state, rest in lines}

    def test_processes_that_are_recorded_or_were_are_listed(self):
        alive = self.start([STORM, "--ranges", "1000000", "--rate", "1000"],
                           env=self.environment())
        killed = self.start([STORM, "--ranges", "1000000", "--rate", "1000"],
                            env=self.environment())
        ended = self.start([STORM, "--ranges", "10"], env=self.environment())
        ended.wait(timeout=60)
        self.wait_until("all record", lambda: len(self.cursors(self.shm)) == 3)
        killed.send_signal(signal.SIGKILL)
        killed.wait(timeout=60)
        found = self.processes()
        self.assertEqual({pid: state for pid, (state, _) in found.items()},
                         {alive.pid: "recorded", killed.pid: "killed", ended.pid: "exited"})
        self.assertRegex(found[alive.pid][1], "nvtx_storm.*: no collector takes it$")
        self.assertRegex(found[killed.pid][1], r"[1-9]\d* bytes of it are not stored$")
        # A collector takes them: what has ended goes, what lives is said to be collected.
        collector = self.start([POOLSCOPE, "collect", "--store", self.store, "--run-dir",
                                str(self.shm)])
        found = self.wait_until("taken", lambda: len(self.processes()) == 1 and self.processes())
        self.assertEqual(found[alive.pid][0], "recorded")
        self.assertNotIn("no collector", found[alive.pid][1])
        collector.terminate()
        collector.wait(timeout=60)

    def test_processes_whose_agent_could_not_begin_say_why(self):
        limited = self.start(["sh", "-c", f"ulimit -f 0; exec {ENDS} return | cat"],
                             env=self.environment())
        limited.wait(timeout=60)
        (state, why), = self.processes().values()
        self.assertEqual(state, "OFF")
        self.assertRegex(why, r"^the file size limit \(ulimit -f\) is under the \d+ bytes")
        self.assertEqual(len(list(self.shm.glob("*.off"))), 1, "doctor only reads")

    def test_full_run_folder_is_the_reason(self):
        small = self.shm / "small"
        small.mkdir(mode=0o700)
        command = f"mount -t tmpfs -o size=64k,mode=0700 tmpfs {small}"
        if subprocess.run(command, shell=True, capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", "-l", str(small)], check=True)
        job = self.start([ENDS, "return"], env=dict(self.environment(),
                                                    POOLSCOPE_RUN_DIR=str(small)))
        job.wait(timeout=60)
        state, why = self.processes(small)[job.pid]
        self.assertEqual(state, "OFF")
        self.assertIn("free", why)

    def test_agent_that_gave_up_in_mid_run_says_why_and_the_store_too(self):
        job = self.start([sys.executable, "-c", textwrap.dedent(FOREIGN_NVTX), AGENT,
                          str(pathlib.Path(__file__).resolve().parents[2] / "python")],
                         env=self.environment(), stdin=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), "0\n")
        state, why = self.processes()[job.pid]
        self.assertEqual(state, "OFF")
        self.assertIn("a library's NVTX is not of version 3", why)
        collector = self.start([POOLSCOPE, "collect", "--store", self.store, "--run-dir",
                                str(self.shm)])
        job.stdin.close()
        job.wait(timeout=60)
        self.wait_until("stored", lambda: not list(self.shm.glob("*.session")))
        collector.terminate()
        collector.communicate(timeout=60)
        row, = self.sql("SELECT cause, events, place FROM event_loss")
        self.assertEqual((row["cause"], row["events"]), ("agent_off", None))
        self.assertEqual(row["place"], f"process {job.pid}: a library's NVTX is not of version 3")
        self.assertEqual(self.value("SELECT count(*) FROM event WHERE name = 'before'"), 1)

    def test_environment_that_keeps_the_agent_out_is_said(self):
        out, _ = self.run_program([POOLSCOPE, "doctor"], env=clean_environment(
            NVTX_INJECTION64_PATH="/opt/other.so"))
        self.assertRegex(out, "environment +not here +NVTX_INJECTION64_PATH is set to /opt/other")
        out, _ = self.run_program([POOLSCOPE, "doctor"], expect=1, env=clean_environment(
            POOLSCOPE_RUN_DIR=str(self.folder)))
        self.assertRegex(out, "environment +BROKEN +the run folder .* is not in tmpfs")


if __name__ == "__main__":
    sys.exit(unittest.main())
