"""What NVTX's less used calls say, read back with SQL from the store of a run."""

import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.end_to_end.harness import BUILD, EndToEnd  # noqa: E402


class Nvtx(EndToEnd):
    def after(self, program, *scenarios):
        self.store = str(self.folder / f"{program}.db")
        self.run_under_agent([str(BUILD / "tests" / program), *scenarios])

    def column(self, query):
        return [next(iter(row.values())) for row in self.sql(query)]

    def test_objects_locks_and_colours_can_be_queried(self):
        self.after("nvtx_client", "objects")
        self.assertEqual(
            self.column("SELECT name FROM event WHERE domain = 'nvtx.object' AND "
                        "json_extract(payload, '$.kind') = 'cuda stream' ORDER BY start_ns"),
            ["copies \u00e9", "compute"])
        self.after("nvtx_extensions", "sync", "colors")
        self.assertEqual(
            self.column("SELECT json_extract(payload, '$.what') || ' ' || kind FROM event "
                        "WHERE domain = 'nvtx.sync' ORDER BY end_ns"),
            ["failed range", "acquired range", "releasing mark"])
        self.assertEqual(
            self.column("SELECT name FROM event "
                        "WHERE json_extract(payload, '$.color') = 0xff00ff80"),
            ["green"])

    def test_arrays_and_unions_are_values_of_the_payload(self):
        self.after("nvtx_payloads")
        def payload(name):
            return json.loads(self.value(f"SELECT payload FROM event WHERE name = '{name}'"))
        self.assertEqual(payload("arrays"), {
            "length": 2, "fixed": [-1, 2, -3], "values": [0.5, -1.5], "shape": [7, 8, 9],
            "dimensions": [4, 5]})
        self.assertEqual(payload("union of a real number"), {"kind": 1, "value.real": 0.75})
        self.assertEqual(
            self.column("SELECT name FROM event WHERE json_extract(payload, '$.fixed[2]') = -3"),
            ["arrays"])
        self.assertEqual(
            self.column("SELECT json_extract(payload, '$.\"operation.name\"') FROM event "
                        "WHERE json_extract(payload, '$.operation') = 2"), ["Max"])
        self.assertEqual(payload("a mode"), {
            "narrow": -1, "narrow.name": "unknown", "flags": 5, "flags.name": "read|execute",
            "other": 7, "other.name": None})

    def test_events_and_samples_of_the_past_lie_in_order_on_the_timeline(self):
        self.after("nvtx_extensions", "event_batch", "counter_batch")
        self.assertEqual(
            self.column("SELECT name FROM event WHERE domain = 'past' ORDER BY start_ns"),
            ["first", "second", "third"])
        self.assertEqual(
            self.column("SELECT end_ns - start_ns FROM event WHERE domain = 'past'"), [100] * 3)
        samples = self.sql("SELECT start_ns, value FROM event "
                           "WHERE name = 'node/GPU[CUDAID:0]/clock' ORDER BY start_ns")
        self.assertEqual(len(samples), 12)
        first = samples[0]["start_ns"]
        self.assertEqual([(row["start_ns"] - first, row["value"]) for row in samples[:6]],
                         [(0, 10), (1000, 20), (2000, 30), (2100, 10), (2200, 20),
                          (2300, 30)])
        self.assertEqual(self.lost(), 0)


if __name__ == "__main__":
    unittest.main()
