"""Bad input gets one clear line, the right exit code, and does no damage."""

import json
import os
import pathlib
import random
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from harness import POOLSCOPE, QUICK_TRAINER, TRAINER, EndToEnd

READERS = (["report"], ["sql"], ["what-if"], ["view"])


def reading(command, store):
    """The words of a command that reads a store."""
    extra = {"sql": ["SELECT 1"], "what-if": ["--set", "compute.workers=2"],
             "view": ["--screenshot", "/dev/null"]}
    return [POOLSCOPE, *command, store, *extra.get(command[0], [])]


class BadInput(EndToEnd):
    def expect(self, command, code, *words):
        """The command fails with `code` and one line of stderr that holds all the words."""
        out, err = self.run_program(command, expect=None, stdin=subprocess.DEVNULL)
        shown = f"{command}\nexit {self.started[-1].returncode}\nstdout: {out}\nstderr: {err}"
        self.assertEqual(self.started[-1].returncode, code, shown)
        self.assertEqual(len(err.strip().splitlines()), 1, shown)
        for word in words:
            self.assertIn(word, err, shown)

    def real_store(self):
        self.run_under_agent(QUICK_TRAINER + ["--steps", "60"])
        return self.store

    def test_store_that_is_missing(self):
        missing = str(self.folder / "none.db")
        for command in READERS:
            self.expect(reading(command, missing), 1, missing)
            self.assertFalse(os.path.exists(missing), "a reader made a store")

    def test_job_without_separator_or_with_a_misspelt_option(self):
        self.expect([POOLSCOPE, "run", "true", "--steps", "2"], 2, "--steps", "after --")
        self.expect([POOLSCOPE, "run", "--stroe", "x", "--", "true"], 2, "--stroe")

    def test_job_that_records_nothing(self):
        store = str(self.folder / "nothing.db")
        self.expect([POOLSCOPE, "run", "--store", store, "--", "true"], 0, "nothing was recorded")
        self.expect([POOLSCOPE, "run", "--no-report", "--store", store, "--", "true"], 0,
                    "nothing was recorded")

    def test_view_of_nothing(self):
        store = self.real_store()
        picture = str(self.folder / "picture.png")
        for words in (["--begin", "5", "--end", "2"], ["--begin", "nan"], ["--scale", "0"],
                      ["--scale", "-1"], ["--select", "-1"], ["--end", "-3"]):
            self.expect([POOLSCOPE, "view", store, "--screenshot", picture, *words], 2, words[0])
        for words in (["--begin", "1000"], ["--select", "99"]):  # depend on the run
            self.expect([POOLSCOPE, "view", store, "--screenshot", picture, *words], 1, words[0])
        self.assertFalse(os.path.exists(picture))

    def test_store_that_is_none(self):
        noise = self.folder / "noise.db"
        noise.write_bytes(random.Random(1).randbytes(100_000))
        text = self.folder / "text.db"
        text.write_text("not a store\n")
        empty = self.folder / "empty.db"
        empty.write_bytes(b"")
        other = self.folder / "other.db"
        with sqlite3.connect(other) as db:
            db.execute("CREATE TABLE t(x)")
        db.close()
        for path in (noise, text, empty, other):
            before = path.read_bytes()
            for command in READERS:
                self.expect(reading(command, str(path)), 1, str(path))
            self.expect([POOLSCOPE, "run", "--store", str(path), "--", "true"], 1, str(path)) \
                if path != empty else None
            self.assertEqual(path.read_bytes(), before, f"{path} was changed")

    def test_store_that_is_a_folder(self):
        for command in READERS:
            self.expect(reading(command, str(self.folder)), 1, str(self.folder))

    def test_store_that_is_a_loop_of_links(self):
        loop = self.folder / "loop.db"
        loop.symlink_to(loop)
        for command in (*map(lambda reader: reading(reader, str(loop)), READERS),
                        [POOLSCOPE, "run", "--store", str(loop), "--", "echo", "ran"],
                        [POOLSCOPE, "collect", "--store", str(loop)]):
            self.expect(command, 1, str(loop), "symbolic links")

    def test_store_that_is_truncated(self):
        whole = pathlib.Path(self.real_store()).read_bytes()
        cut = self.folder / "cut.db"
        for share in (0.3, 0.7, 0.95):
            cut.write_bytes(whole[:int(len(whole) * share)])
            for command in READERS:
                out, err = self.run_program(reading(command, str(cut)), expect=None)
                code = self.started[-1].returncode
                self.assertIn(code, (0, 1), f"{command} {err}")
                if code == 1:
                    self.assertEqual(len(err.strip().splitlines()), 1, f"{command}\n{err}")
                    self.assertIn(str(cut), err)

    def test_store_of_a_newer_format(self):
        store = self.real_store()
        with sqlite3.connect(store) as db:
            db.execute("UPDATE meta SET value = 999 WHERE key = 'format'")
        db.close()
        for command in READERS:
            self.expect(reading(command, store), 1, store, "999")

    def test_output_that_is_full(self):
        store = self.real_store()
        for command in (["report", store], ["sql", store, "SELECT 1"], ["pools", "show"],
                        ["env"], ["doctor"], ["--help"], ["run", "--help"],
                        ["collect", "--print-metrics-doc", "--store", "x"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([POOLSCOPE, *command], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60)
            self.assertEqual(done.returncode, 1, command)
            self.assertEqual(len(done.stderr.splitlines()), 1, f"{command} {done.stderr}")

    def test_output_file_that_is_none_is_written_to_and_not_replaced(self):
        store = self.real_store()
        full, pipe = str(self.folder / "full"), str(self.folder / "pipe")
        if os.geteuid() == 0:  # who may replace a device must not
            os.mknod(full, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
            self.expect([POOLSCOPE, "report", store, "-o", full], 1, full, "No space")
            self.expect([POOLSCOPE, "view", store, "--screenshot", full], 1, full, "No space")
            self.assertTrue(stat.S_ISCHR(os.stat(full).st_mode))
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
            self.run_program([POOLSCOPE, "report", store, "--format", "json", "-o", pipe])
            self.assertIn("verdict", json.loads(reader.stdout.read()))
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))

    def test_output_file_is_old_or_new(self):
        store = self.real_store()
        target, link = self.folder / "target", self.folder / "link"
        target.write_text("old")
        link.symlink_to(target)
        self.run_program([POOLSCOPE, "view", store, "--screenshot", str(link)])
        self.assertTrue(link.is_symlink() and target.read_bytes().startswith(b"\x89PNG"))
        target.write_text("old")
        (self.folder / "target.partial").mkdir()  # in the way of the new one
        self.expect([POOLSCOPE, "report", store, "-o", str(target)], 1, str(target))
        self.assertEqual(target.read_text(), "old")

    def test_query_that_is_wrong(self):
        self.expect([POOLSCOPE, "sql", self.real_store(), "SELEKT 1"], 1, "SELEKT")
        self.expect([POOLSCOPE, "sql", self.store, "DELETE FROM run"], 1)
        self.assertEqual(self.value("SELECT count(*) FROM run"), 1)

    def test_run_that_does_not_exist(self):
        self.expect([POOLSCOPE, "report", self.real_store(), "--run", "feed"], 1, "feed")

    def test_unknown_flags_and_words(self):
        for command in (["frob"], ["--frob"], ["report", "--frob", "x"], ["view", "--frob", "x"],
                        ["collect", "--store", "x", "--frob"], ["sql", "--frob", "x", "y"],
                        ["run", "--frob", "--", "true"]):
            self.expect([POOLSCOPE, *command], 2, "frob")
        self.expect([POOLSCOPE, "report"], 2)
        self.expect([POOLSCOPE, "run"], 2)
        self.expect([TRAINER, "--frob"], 2, "frob")

    def test_knob_that_is_unknown_or_senseless(self):
        store = self.real_store()
        self.expect([POOLSCOPE, "what-if", store, "--set", "compute.wokers=2"], 2, "compute.wokers")
        self.expect([POOLSCOPE, "what-if", store, "--set", "compute.workers=-1"], 2, "-1")
        self.expect([POOLSCOPE, "what-if", store, "--set", "gradients.codec=zip"], 2, "zip")

    def test_job_that_cannot_start(self):
        self.expect([POOLSCOPE, "run", "--store", self.store, "--", "/no/such/job"], 127,
                    "/no/such/job")

    def test_store_in_a_folder_that_is_missing(self):
        where = str(self.folder / "nowhere" / "run.db")
        self.expect([POOLSCOPE, "run", "--store", where, "--", "echo", "ran"], 1, where)
        self.expect([POOLSCOPE, "collect", "--store", where], 1, where)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a tmpfs")
    def test_no_space_for_the_store(self):
        full = self.folder / "full"
        full.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(full)], check=True)
        try:
            (full / "filler").write_bytes(b"x" * 60_000)
            store = str(full / "run.db")
            self.expect([POOLSCOPE, "run", "--store", store, "--", "echo", "ran"], 1, store)
        finally:
            subprocess.run(["umount", "-l", str(full)], check=True)

    def test_file_size_limit_below_a_store_is_said(self):
        for command in ("run --store {} -- echo ran", "collect --store {}"):
            store = str(self.folder / f"{command.split()[0]}.db")
            self.expect(["sh", "-c", f"ulimit -f 10; exec {POOLSCOPE} {command.format(store)}"], 1,
                        store, "input/output error")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a tmpfs")
    def test_store_that_fills_up_leaves_the_job_alone_and_the_store_whole(self):
        full = self.folder / "full"
        full.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(full)], check=True)
        try:
            store = str(full / "run.db")
            out, err = self.run_program(
                [POOLSCOPE, "run", "--no-report", "--store", store, "--", *QUICK_TRAINER,
                 "--steps", "600"], expect=0)
            self.assertIn(store, err)
            db = sqlite3.connect(store)
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")
            db.close()
        finally:
            subprocess.run(["umount", "-l", str(full)], check=True)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a tmpfs")
    def test_no_space_for_the_session_leaves_the_job_alone(self):
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs",
                 str(self.shm)]
        subprocess.run(mount, check=True)
        try:
            out, err = self.run_program(
                [POOLSCOPE, "run", "--no-report", "--store", self.store, "--run-dir",
                 str(self.shm), "--", *QUICK_TRAINER, "--steps", "20"], expect=0)
            self.assertIn("20", out)
        finally:
            subprocess.run(["umount", "-l", str(self.shm)], check=True)

    def test_session_file_of_random_bytes(self):
        noise = random.Random(3)
        for i in range(5):
            (self.shm / f"{noise.randbytes(16).hex()}.session").write_bytes(
                noise.randbytes(noise.choice([0, 10, 5000, 9_000_000])))
        for path in self.shm.iterdir():
            path.chmod(0o600)
        out, err = self.run_program([POOLSCOPE, "run", "--no-report", "--store", self.store,
                                     "--run-dir", str(self.shm), "--", *QUICK_TRAINER,
                                     "--steps", "60"])
        self.assertEqual(self.value("SELECT count(*) FROM step"), 60)

    def test_mapping_with_a_typo(self):
        mapping = self.folder / "pools.toml"
        mapping.write_text('[[worker]]\nthread = "a/*"\npol = "compute"\n')
        self.expect([POOLSCOPE, "run", "--pools", str(mapping), "--store", self.store, "--",
                     "echo", "ran"], 1, str(mapping), "pol", "3")
        self.expect([POOLSCOPE, "run", "--pools", str(self.folder), "--", "echo", "ran"], 1,
                    str(self.folder))
        mapping.write_text("[[worker]\n")
        self.expect([POOLSCOPE, "run", "--pools", str(mapping), "--store", self.store, "--",
                     "echo", "ran"], 1, str(mapping))
        self.expect([POOLSCOPE, "run", "--pools", "no-such-preset", "--store", self.store, "--",
                     "echo", "ran"], 1, "no-such-preset")

    def test_port_in_use_warns_and_goes_on(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            out, err = self.run_under_agent(QUICK_TRAINER + ["--steps", "20"], "--metrics",
                                            f"127.0.0.1:{port}")
            self.assertIn(port, err)
            self.assertEqual(self.value("SELECT count(*) FROM step"), 20)

    def test_second_collector_of_the_same_store_is_refused(self):
        first = self.start([POOLSCOPE, "collect", "--store", self.store, "--run-dir",
                            str(self.shm)])
        self.wait_until("the store", lambda: os.path.exists(self.store))
        self.wait_until("the first is ready", lambda: first.stdout.readline())
        self.expect([POOLSCOPE, "collect", "--store", self.store, "--run-dir",
                     str(self.shm / "b")], 1, self.store)
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(20), 0)

    def test_training_text_that_is_missing_empty_or_short(self):
        missing = str(self.folder / "none.txt")
        empty = self.folder / "empty.txt"
        empty.write_bytes(b"")
        short = self.folder / "short.txt"
        short.write_bytes(b"ab")
        for path in (missing, str(empty), str(short), str(self.folder)):
            self.expect([TRAINER, "--steps", "1", "--data", path], 1, path)


if __name__ == "__main__":
    sys.exit(unittest.main())
