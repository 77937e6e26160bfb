"""`poolscope pools` on a run of the reference trainer."""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))
from harness import BUILD, POOLSCOPE, QUICK_TRAINER, EndToEnd  # noqa: E402


class Pools(EndToEnd):
    def pools(self, *words):
        return subprocess.run([POOLSCOPE, "pools", *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)

    def collect(self, *options):
        subprocess.run([POOLSCOPE, "run", "--no-report", "--store", self.store, *options, "--",
                        *QUICK_TRAINER], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       check=True, timeout=120)

    def test_check_says_what_matched_and_fails_where_nothing_did(self):
        self.collect()
        check = self.pools("check", "reference-trainer", self.store)
        self.assertEqual((check.returncode, check.stderr), (0, ""), check.stdout)
        self.assertIn("compute/0 of pid", check.stdout)
        self.assertIn("update/0 of pid", check.stdout)

        mapping = pathlib.Path(self.store).with_suffix(".toml")
        mapping.write_text('[[worker]]\nthread = "compute/*"\npool = "c"\n'
                           '[[worker]]\nrank = "0-3"\npool = "r"\n')
        check = self.pools("check", mapping, self.store)
        self.assertEqual(check.returncode, 1)
        self.assertIn("no process has a rank in its environment", check.stdout)
        self.assertTrue(check.stdout.endswith("\n1 rule matched nothing\n"), check.stdout)

    def test_plain_nvtx_job_gets_pools_and_steps_by_a_mapping(self):
        mapping = pathlib.Path(self.store).with_suffix(".toml")
        mapping.write_text('[[worker]]\nprocess = "*nvtx_probe*"\npool = "compute"\n'
                           '[[range]]\nname = "push a"\nmeans = "work"\n'
                           '[[range]]\nname = "mark a"\nmeans = "step"\ntokens = 64\n')
        subprocess.run([POOLSCOPE, "run", "--no-report", "--store", self.store, "--pools", mapping,
                        "--", BUILD / "tests" / "nvtx_probe", "core"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True, timeout=60)
        report = self.report()
        self.assertEqual([pool["name"] for pool in report["pools"]], ["compute"])
        self.assertEqual(report["steps"], 1)
        unattributed = report["unattributed"]
        self.assertIn("push ex", [kind["name"] for kind in unattributed["ranges"]])
        self.assertNotIn("push a", [kind["name"] for kind in unattributed["ranges"]])
        self.assertIn("step", [entry["what"] for entry in unattributed["inferred"]])
        check = self.pools("check", mapping, self.store)
        self.assertEqual(check.returncode, 0, check.stdout)

    def test_link_that_joins_nothing_is_said(self):
        mapping = pathlib.Path(self.store).with_suffix(".toml")
        mapping.write_text('[[worker]]\nprocess = "*nvtx_probe*"\npool = "compute"\n'
                           '[[range]]\nname = "push a"\nmeans = "wait_link"\nlink = "lost"\n')
        subprocess.run([POOLSCOPE, "run", "--no-report", "--store", self.store, "--pools", mapping,
                        "--", BUILD / "tests" / "nvtx_probe", "core"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True, timeout=60)
        said = [text for text in self.report()["unseen"] if "lost" in text]
        self.assertEqual(said[0], "what link lost joins (poolscope_link, or [[link]] of a mapping)")
        self.assertNotIn("''", "".join(said))
        check = self.pools("check", mapping, self.store)
        self.assertIn("1 link that no [[link]] says the pools of: lost\n", check.stdout)
        with open(mapping, "a") as file:
            file.write('[[link]]\nname = "lost"\nfrom = "compute"\nto = "compute"\n')
        self.assertNotIn("left over\n   1 link", self.pools("check", mapping, self.store).stdout)

    def test_suggest_says_that_a_marked_job_needs_no_rule(self):
        self.collect()
        suggested = self.pools("suggest", self.store)
        self.assertEqual((suggested.returncode, suggested.stderr), (0, ""))
        self.assertIn("4 threads say themselves which worker they are", suggested.stdout)
        mapping = pathlib.Path(self.store).with_suffix(".toml")
        mapping.write_text(suggested.stdout)
        check = self.pools("check", mapping, self.store)
        self.assertEqual(check.returncode, 0, suggested.stdout + check.stdout)

    def test_show_prints_presets_that_a_mapping_can_begin_with(self):
        names = [line.split(":")[0] for line in self.pools("show").stdout.splitlines()]
        self.assertIn("zero-offload", names)
        for name in names:
            with self.subTest(name):
                shown = self.pools("show", name)
                self.assertEqual(shown.returncode, 0, shown.stderr)
                self.assertIn("[[worker]]", shown.stdout)
        self.assertEqual(self.pools("show", "zero-ofload").returncode, 2)

    def test_what_cannot_be_read_is_one_line(self):
        for words in [("check", "reference-trainer", "/nonexistent.db"),
                      ("check", "/nonexistent.toml", "/nonexistent.db")]:
            failed = self.pools(*words)
            self.assertEqual((failed.returncode, failed.stdout), (1, ""))
            self.assertRegex(failed.stderr, r"\Apoolscope pools \w+: [^\n]*/nonexistent[^\n]*\n\Z")
        self.assertEqual(self.pools().returncode, 2)


if __name__ == "__main__":
    unittest.main()
