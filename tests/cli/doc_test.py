"""docs/cli.md is what the program prints of itself."""

import os
import pathlib
import subprocess
import unittest

BUILD = pathlib.Path(os.environ.get("POOLSCOPE_BUILD", "build")).resolve()
DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "cli.md"


class Doc(unittest.TestCase):
    def test_command_line_document_is_what_the_program_prints(self):
        printed = subprocess.run([str(BUILD / "bin" / "poolscope"), "--print-cli-doc"],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(DOCUMENT.read_text(), printed,
                         "run: build/bin/poolscope --print-cli-doc > docs/cli.md")


if __name__ == "__main__":
    unittest.main()
