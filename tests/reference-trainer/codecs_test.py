"""`poolscope-trainer codecs` as its user meets it."""

import json
import re
import subprocess
import sys
import unittest

TRAINER = sys.argv.pop(1)
SMALL = ["--layers", "1", "--width", "16", "--heads", "2", "--context", "16"]


def run(*arguments):
    return subprocess.run([TRAINER, "codecs", *arguments], capture_output=True, text=True,
                          timeout=60, check=False)


class Codecs(unittest.TestCase):
    def test_measures_every_kind_of_tensor_on_both_links(self):
        result = run(*SMALL, "--steps", "20", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(result.stdout)["codecs"]
        kinds = {"embedding", "attention", "MLP", "norm", "all"}
        by_codec = {}
        for row in rows:
            by_codec.setdefault((row["payload"], row["codec"]), {})[row["kind"]] = row
        for key, each in by_codec.items():
            self.assertEqual(set(each), kinds, key)
            # The kinds are all of the model: 256 and 16 rows of 16, 12 x 16^2 and 13 x 16 of a
            # block, 2 x 16 of the last norm.
            parts = sum(row["raw_bytes"] for kind, row in each.items() if kind != "all")
            self.assertEqual(parts, each["all"]["raw_bytes"])
            self.assertEqual(parts, 4 * (272 * 16 + 12 * 256 + 13 * 16 + 2 * 16))
        for payload in ("gradients", "weights"):
            self.assertEqual(by_codec[payload, "bf16"]["all"]["ratio"], 0.5)
            # Rounding to 8 bits is off by up to 2^-9, of which a third in the square.
            self.assertAlmostEqual(by_codec[payload, "bf16"]["MLP"]["relative_error"], 0.0016,
                                   delta=0.0004)
            for lossless in ("lz4", "zstd", "deflate"):
                self.assertEqual(by_codec[payload, lossless]["all"]["relative_error"], 0)
                self.assertLessEqual(by_codec[payload, lossless]["all"]["ratio"], 1.01)
        self.assertNotIn(("weights", "1bit"), by_codec)
        self.assertNotIn(("gradients", "1bit-delta"), by_codec)
        one_bit = by_codec["gradients", "1bit"]["all"]
        self.assertLess(one_bit["relative_error_of_sum"], one_bit["relative_error"])
        self.assertIsNone(by_codec["weights", "bf16"]["all"]["relative_error_of_sum"])

    def test_table_is_aligned(self):
        result = run(*SMALL, "--steps", "10", "--codec", "bf16+zstd", "--codec", "1bit")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 1 + 5 * 3)
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})
        self.assertRegex(lines[1], r"^gradients +bf16\+zstd +embedding +17408 +\d\.\d\dx")

    def test_final_loss_of_a_lossless_codec_is_that_of_none(self):
        result = run(*SMALL, "--steps", "20", "--final-loss", "--codec", "zstd,lz4", "--codec",
                     "1bit,bf16", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        none, lossless, lossy = json.loads(result.stdout)["runs"]
        self.assertEqual((none["gradients"], none["weights"]), ("none", "none"))
        self.assertEqual(none["gradients_raw_bytes"], none["gradients_wire_bytes"])
        self.assertAlmostEqual(lossless["final_loss"], none["final_loss"], delta=1e-5)
        self.assertNotEqual(lossy["final_loss"], none["final_loss"])
        self.assertLess(lossy["gradients_wire_bytes"] * 25, lossy["gradients_raw_bytes"])
        self.assertEqual(lossy["weights_wire_bytes"] * 2, lossy["weights_raw_bytes"])

    def test_wrong_usage_is_one_line_and_exit_2(self):
        for arguments in (["--codec", "zip"], ["--bogus"], ["--steps", "1"], ["--codec", ""],
                          ["--final-loss", "--codec", "bf16"], ["--heads", "3"],
                          ["--final-loss", "--codec", "1bit-delta,none"]):
            result = run(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertEqual(result.stdout, "")
        self.assertIn("bf16, fp16, topk:SHARE", run("--codec", "zip").stderr)

    def test_failures_are_one_line_and_exit_1(self):
        result = run("--data", "/nowhere/text")
        self.assertEqual(result.returncode, 1)
        self.assertTrue(re.fullmatch(r".*/nowhere/text.*\n", result.stderr), result.stderr)
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([TRAINER, "codecs", *SMALL, "--steps", "10"], stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_help_and_the_trainers_own_help_name_it(self):
        self.assertIn("--final-loss", run("--help").stdout)
        own = subprocess.run([TRAINER, "--help"], capture_output=True, text=True, check=True)
        self.assertIn("poolscope-trainer codecs", own.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
