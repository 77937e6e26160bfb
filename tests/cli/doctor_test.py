"""`poolscope doctor` tries what it names, and says what is broken."""

import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from harness import AGENT, POOLSCOPE, EndToEnd


class Doctor(EndToEnd):
    def test_agent_that_records_is_said_to_work(self):
        out, _ = self.run_program([POOLSCOPE, "doctor"])
        self.assertRegex(out, r"agent records NVTX +works +[1-9]\d* bytes")
        self.assertNotIn("BROKEN", out)

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
