"""The viewer as a user has it: a window under Xvfb that xdotool drives, and screenshots."""

import json
import os
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

BUILD = pathlib.Path(os.environ.get("POOLSCOPE_BUILD", "build")).resolve()
POOLSCOPE = str(BUILD / "bin" / "poolscope")
SCENARIO = str(BUILD / "tests" / "scenario_file")
# Links so slow that gradients traffic is the finding; the advisor's own fixture.
SLOW_LINK = {"compute": 6, "update": 3, "micro_batches": 12, "forward_ms": 4, "backward_ms": 8,
             "update_ms": 40, "jitter": 0.05, "gradients": {"bytes": 4e6, "bandwidth": 3e8}}
PATIENCE_S = 60


def make_store(folder):
    store = str(pathlib.Path(folder) / "run.db")
    subprocess.run([SCENARIO, store, json.dumps(SLOW_LINK)], check=True)
    return store


def read_png(path):
    """Width, height and rows of an 8-bit RGB picture, filters undone."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, bits, colour = struct.unpack(">IIBB", body[:10])
            assert (bits, colour) == (8, 2), "8-bit RGB"
        if kind == b"IDAT":
            packed += body
        at += 12 + length
    raw, stride = zlib.decompress(packed), width * 3
    rows, before = [], bytearray(stride)
    for y in range(height):
        line = bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        method = raw[y * (stride + 1)]
        for i in range(stride):
            left = line[i - 3] if i >= 3 else 0
            up, corner = before[i], before[i - 3] if i >= 3 else 0
            if method == 1:
                line[i] = (line[i] + left) & 255
            elif method == 2:
                line[i] = (line[i] + up) & 255
            elif method == 3:
                line[i] = (line[i] + (left + up) // 2) & 255
            elif method == 4:
                guess = left + up - corner
                near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up),
                           (abs(guess - corner), 2, corner))
                line[i] = (line[i] + near[2]) & 255
        rows.append(bytes(line))
        before = line
    return width, height, rows


class Screenshot(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="poolscope-view-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.store = make_store(self.folder)

    def shoot(self, name, *more, size="900x600"):
        path = os.path.join(self.folder, name)
        environment = {k: v for k, v in os.environ.items() if k != "DISPLAY"}
        subprocess.run([POOLSCOPE, "view", self.store, "--screenshot", path, "--size", size,
                        *more], check=True, env=environment, timeout=PATIENCE_S)
        return path

    def test_picture_has_the_size_asked_for_and_shows_the_timeline(self):
        width, height, rows = read_png(self.shoot("a.png"))
        self.assertEqual((width, height), (900, 600))
        area = [row[3 * 190:3 * 540] for row in rows[110:560]]
        colours = {row[i:i + 3] for row in area for i in range(0, len(row), 3)}
        self.assertGreater(len(colours), 12)
        busy, waiting = bytes.fromhex("009e73"), bytes.fromhex("e69f00")
        self.assertIn(busy, colours)
        self.assertIn(waiting, colours)

    def test_same_store_gives_the_same_picture(self):
        first = pathlib.Path(self.shoot("a.png")).read_bytes()
        self.assertEqual(first, pathlib.Path(self.shoot("b.png")).read_bytes())
        other = pathlib.Path(self.shoot("c.png", "--begin", "1", "--end", "1.2")).read_bytes()
        self.assertNotEqual(first, other)

    def state_of(self, *more, size="900x600"):
        """The view as it was when the picture was taken."""
        dump = os.path.join(self.folder, "state.json")
        self.shoot("a.png", "--dump-state", dump, *more, size=size)
        return json.loads(pathlib.Path(dump).read_text())

    def test_span_given_stays_when_a_finding_is_selected(self):
        state = self.state_of("--select", "0", "--begin", "1", "--end", "1.5")
        self.assertAlmostEqual(state["begin_ns"], 1e9, delta=1e6)
        self.assertAlmostEqual(state["end_ns"], 1.5e9, delta=1e6)
        self.assertEqual((state["finding"], state["highlight"]["subject"]), (0, "gradients"))
        alone = self.state_of("--select", "0")
        self.assertLess(alone["begin_ns"], alone["highlight"]["begin_ns"])

    def test_verdict_is_whole_in_a_narrow_window(self):
        wide = " ".join(self.state_of(size="3000x600")["verdict"])
        self.assertRegex(wide, r"throughput\)\.$")
        for size in ("900x600", "640x480", "400x600"):
            self.assertEqual(" ".join(self.state_of(size=size)["verdict"]), wide)

    def refused(self, *words):
        """The one line of stderr of a screenshot that fails."""
        done = subprocess.run([POOLSCOPE, "view", self.store, *words], capture_output=True,
                              text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_unwritable_picture_is_one_line_and_exit_1(self):
        self.assertIn("/nonexistent/a.png", self.refused("--screenshot", "/nonexistent/a.png"))

    def test_search_that_finds_nothing_is_said(self):
        path = os.path.join(self.folder, "none.png")
        self.assertIn("nowhere", self.refused("--screenshot", path, "--search", "nowhere"))
        self.assertFalse(os.path.exists(path))
        self.shoot("some.png", "--search", "forward")

    def test_damaged_chunk_is_said_in_time(self):
        with sqlite3.connect(self.store) as db:  # one chunk of one lane; the others are whole
            key = db.execute("SELECT max(chunk_key) FROM chunk_data").fetchone()[0]
            db.execute("UPDATE chunk_data SET data = zeroblob(length(data)) WHERE chunk_key = ?",
                       (key,))
        db.close()
        path = os.path.join(self.folder, "damaged.png")
        self.assertIn("chunk", self.refused("--screenshot", path))
        self.assertFalse(os.path.exists(path))

    def test_no_display_points_to_the_screenshot(self):
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
        done = subprocess.run([POOLSCOPE, "view", self.store], capture_output=True, text=True,
                              env=environment, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--screenshot", done.stderr)


class Colours(unittest.TestCase):
    def test_ranges_have_the_programs_colours_unless_told_otherwise(self):
        folder = tempfile.mkdtemp(prefix="poolscope-view-")
        self.addCleanup(shutil.rmtree, folder)
        store = os.path.join(folder, "run.db")
        job = str(BUILD / "tests" / "nvtx_extensions")
        subprocess.run([POOLSCOPE, "run", "--no-report", "--store", store, "--", job, "colors"],
                       check=True, capture_output=True, timeout=PATIENCE_S)
        green = {}
        for colours in ("program", "name"):
            picture = os.path.join(folder, colours + ".png")
            subprocess.run([POOLSCOPE, "view", store, "--screenshot", picture, "--size", "900x600",
                            "--search", "green", "--colours", colours],
                           check=True, timeout=PATIENCE_S)
            _, _, rows = read_png(picture)
            green[colours] = sum(row.count(bytes.fromhex("00ff80")) for row in rows)
        self.assertGreater(green["program"], 100)
        self.assertEqual(green["name"], 0)


@unittest.skipUnless(shutil.which("Xvfb") and shutil.which("xdotool"), "needs Xvfb and xdotool")
class WindowCase(unittest.TestCase):
    """A viewer in a window of a server of its own, on the store that make_store() makes."""

    def make_store(self):
        return make_store(self.folder)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="poolscope-view-")
        self.addCleanup(shutil.rmtree, self.folder)
        store = self.make_store()
        out, into = os.pipe()
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(into), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
            pass_fds=[into], stderr=subprocess.DEVNULL)
        os.close(into)
        self.addCleanup(self.stop, self.server)
        with os.fdopen(out) as display:
            self.environment = dict(os.environ, DISPLAY=":" + display.readline().strip())
        self.dump = os.path.join(self.folder, "state.json")
        self.viewer = subprocess.Popen([POOLSCOPE, "view", store, "--size", "1200x700",
                                        "--dump-state", self.dump], env=self.environment)
        self.addCleanup(self.stop, self.viewer)
        self.start = self.wait(lambda state: state["settled"] and state["findings"])
        window = self.xdotool("search", "--sync", "--name", "^Poolscope").split()[0]
        self.xdotool("windowfocus", "--sync", window)

    @staticmethod
    def stop(process):
        process.terminate()
        process.wait()

    def xdotool(self, *arguments):
        return subprocess.run(["xdotool", *map(str, arguments)], env=self.environment, check=True,
                              capture_output=True, text=True, timeout=PATIENCE_S).stdout

    def state(self):
        try:
            return json.loads(pathlib.Path(self.dump).read_text())
        except (OSError, ValueError):
            return None

    def wait(self, condition):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            self.assertIsNone(self.viewer.poll(), "the viewer ended")
            state = self.state()
            if state and condition(state):
                return state
            time.sleep(0.05)
        self.fail(f"not reached; the view is {self.state()}")

    @staticmethod
    def span(state):
        return state["end_ns"] - state["begin_ns"]

    def click_first_finding(self):
        card = self.start["findings"][0]
        self.xdotool("mousemove", "--sync", int(card["x"] + 60), int(card["y"] + 14))
        self.xdotool("click", "1")
        return self.wait(lambda s: s["finding"] == 0 and "highlight" in s and s["settled"])


class Window(WindowCase):
    def test_short_key_taps_zoom_and_pan(self):
        self.xdotool("key", "--delay", "1", "w", "w", "w", "w", "w")
        expected = self.span(self.start) * 0.8 ** 5
        state = self.wait(lambda s: abs(self.span(s) - expected) < expected * 1e-3)
        begin = state["begin_ns"]
        self.xdotool("key", "d")
        moved = self.wait(lambda s: s["begin_ns"] > begin)
        self.assertAlmostEqual((moved["begin_ns"] - begin) / expected, 0.12, places=3)
        self.xdotool("key", "f")
        self.wait(lambda s: s["begin_ns"] == self.start["begin_ns"])

    def test_wheel_zooms_about_the_cursor_and_drag_pans(self):
        area = self.start["timeline"]
        x, y = int(area["x"] + area["width"] * 0.7), int(area["y"] + 60)

        def under_cursor(state):
            return state["begin_ns"] + self.span(state) * (x - area["x"]) / area["width"]

        self.xdotool("mousemove", "--sync", x, y)
        self.xdotool("click", "4", "click", "4")
        expected = self.span(self.start) * 0.82 ** 2
        zoomed = self.wait(lambda s: abs(self.span(s) - expected) < expected * 1e-3)
        self.assertAlmostEqual(under_cursor(zoomed), under_cursor(self.start),
                               delta=self.span(self.start) / area["width"] * 2)
        self.xdotool("mousedown", "1", "mousemove", "--sync", x - 100, y, "mouseup", "1")
        moved = self.wait(lambda s: s["begin_ns"] > zoomed["begin_ns"])
        self.assertAlmostEqual((moved["begin_ns"] - zoomed["begin_ns"]) / self.span(zoomed),
                               100 / area["width"], places=2)

    def test_click_on_a_finding_goes_to_its_evidence(self):
        self.assertEqual(self.start["findings"][0]["rule"], "exposed_traffic")
        state = self.click_first_finding()
        self.assertEqual(state["highlight"]["subject"], "gradients")
        self.assertLess(state["begin_ns"], state["highlight"]["begin_ns"])
        self.assertGreater(state["end_ns"], state["highlight"]["end_ns"])
        self.xdotool("key", "Escape")
        self.wait(lambda s: s["finding"] == -1 and "highlight" not in s)

    def test_click_on_a_range_shows_its_details(self):
        # Search takes us to a range that is wide enough to click on.
        self.xdotool("key", "slash")
        self.wait(lambda s: s["search_open"])
        self.xdotool("type", "--delay", "20", "optimizer")
        self.wait(lambda s: s["search"] == "optimizer")
        self.xdotool("key", "Return")
        state = self.wait(lambda s: s["selected"] and s.get("details") and s["settled"])
        self.assertEqual(state["selected"]["name"], "optimizer")
        first = state["selected"]["begin_ns"]
        self.xdotool("key", "Escape")
        state = self.wait(lambda s: not s["selected"] and s["settled"])
        area = state["timeline"]
        lane = next(lane for lane in state["lanes"]
                    if lane["subject"] == "update" and lane["ranges"])
        x = area["x"] + (first + 100000 - state["begin_ns"]) / self.span(state) * area["width"]
        self.xdotool("mousemove", "--sync", int(x), int(lane["y"] + 6))
        self.xdotool("click", "1")
        state = self.wait(lambda s: s["selected"] and s.get("details"))
        self.assertEqual(state["selected"]["name"], "optimizer")
        self.assertEqual(state["panel"], "details")

    def test_help_opens_and_an_idle_viewer_takes_no_time(self):
        self.xdotool("key", "question")
        self.wait(lambda s: s["help"])
        self.xdotool("key", "Escape")
        self.wait(lambda s: not s["help"] and s["settled"])
        time.sleep(0.5)

        def ticks():
            fields = pathlib.Path(f"/proc/{self.viewer.pid}/stat").read_text().rsplit(")", 1)[1]
            return sum(map(int, fields.split()[11:13]))

        before = ticks()
        time.sleep(2)
        self.assertLessEqual(ticks() - before, 10)  # of 200: at most 5 % of a core


class DemoStore(WindowCase):
    """The demo's first run, shortened."""

    def make_store(self):
        store = os.path.join(self.folder, "demo.db")
        subprocess.run([POOLSCOPE, "run", "--no-report", "--store", store, "--",
                        str(BUILD / "bin" / "poolscope-trainer"), "--device", "emulated", "--math",
                        "tiny", "--async", "--compute-workers", "4", "--forward-ms", "15",
                        "--backward-ms", "25", "--update-ms", "20", "--gradient-bytes", "64M",
                        "--weight-bytes", "64M", "--gradients-bandwidth", "2G",
                        "--weights-bandwidth", "20G", "--micro-batches", "8", "--steps", "30"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return store

    def test_first_finding_leads_to_the_slow_link(self):
        self.assertEqual(self.start["findings"][0]["rule"], "exposed_traffic")
        state = self.click_first_finding()
        self.assertEqual(state["highlight"]["subject"], "gradients")
        self.assertLess(state["highlight"]["begin_ns"], state["highlight"]["end_ns"])


class LargeStore(WindowCase):
    """Ten million events, as the bench makes them."""

    def make_store(self):
        store = os.path.join(self.folder, "large.db")
        subprocess.run([str(BUILD / "bench" / "make_store"), store, "--events", "10000000"],
                       check=True, stdout=subprocess.DEVNULL)
        return store

    def peak_mb(self):
        status = pathlib.Path(f"/proc/{self.viewer.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1e3

    def test_zooms_from_all_to_single_ranges_within_bounded_memory(self):
        whole = self.span(self.start)
        for _ in range(6):
            self.xdotool("key", "--delay", "1", *["w"] * 10)
        zoomed = self.wait(lambda s: self.span(s) < whole * 0.8 ** 59 and s["settled"])
        self.assertTrue(any(lane["ranges"] for lane in zoomed["lanes"]), "no range in sight")
        self.xdotool("key", "f")
        self.wait(lambda s: self.span(s) == whole and s["settled"])
        self.assertLess(self.peak_mb(), 500)


if __name__ == "__main__":
    unittest.main()
