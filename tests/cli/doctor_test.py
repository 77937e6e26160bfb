"""`poolscope doctor` tries what it names, and says what is broken."""

import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from harness import AGENT, POOLSCOPE, EndToEnd, clean_environment


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


if __name__ == "__main__":
    sys.exit(unittest.main())
