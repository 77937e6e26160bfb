"""The figures of a run agree with a second computation from its events, by SQL."""

import collections
import sys
import unittest

from harness import QUICK_TRAINER, EndToEnd


class Figures(EndToEnd):
    def test_busy_ratios_agree_with_sql_and_states_add_up(self):
        self.run_under_agent(QUICK_TRAINER + ["--steps", "400"])
        report = self.report()
        windows = self.sql("SELECT * FROM worker_window")
        self.assertTrue(windows)
        for window in windows:
            total = sum(v for k, v in window.items()
                        if k.endswith("_ns") and k not in ("start_ns", "window_ns"))
            self.assertEqual(total, window["window_ns"], window)

        # The report's figures are of the whole windows within the part that it analysed.
        inside = [w for w in windows if w["start_ns"] >= report["analysed_begin_ns"]
                  and w["start_ns"] + w["window_ns"] <= report["analysed_end_ns"]]
        begin = min(w["start_ns"] for w in inside)
        end = max(w["start_ns"] + w["window_ns"] for w in inside)
        self.assertEqual((begin, end), (report["windows_begin_ns"], report["windows_end_ns"]))
        # Work ranges (category 1) and applied messages (transfers at stage apply), as intervals.
        rows = self.sql(
            "SELECT pool, worker_index, start_ns, start_ns + duration_ns AS end_ns FROM event"
            " WHERE domain = 'poolscope' AND kind = 'range' AND pool <> ''"
            " AND (category = 1 OR (category = 2"
            " AND json_extract(payload, '$.stage') = 4))"
            " ORDER BY pool, worker_index, start_ns")
        busy, last = collections.Counter(), {}
        for row in rows:
            worker = (row["pool"], row["worker_index"])
            start = max(row["start_ns"], last.get(worker, begin))
            stop = min(row["end_ns"], end)
            if stop > start:
                busy[worker] += stop - start
                last[worker] = stop
        pools = collections.defaultdict(list)
        for (pool, _), ns in busy.items():
            pools[pool].append(ns)
        self.assertEqual({p["name"] for p in report["pools"]}, set(pools))
        for pool in report["pools"]:
            wall = (end - begin) * pool["workers"]
            self.assertAlmostEqual(pool["busy_ratio"], sum(pools[pool["name"]]) / wall, delta=0.02)
            self.assertAlmostEqual(sum(pool["state_ratios"].values()), 1, places=6)

    def test_transfers_are_complete_and_numbered_without_gap(self):
        self.run_under_agent(QUICK_TRAINER + ["--steps", "100"])
        rows = self.sql(
            "SELECT name, json_extract(payload, '$.source') AS source,"
            " json_extract(payload, '$.sequence') AS sequence FROM event"
            " WHERE domain = 'poolscope' AND category = 2 AND kind = 'range'"
            " AND json_extract(payload, '$.stage') = 2")
        sent = collections.defaultdict(list)
        for row in rows:
            sent[row["name"], row["source"]].append(row["sequence"])
        self.assertEqual({name for name, _ in sent}, {"gradients", "weights"})
        for key, sequences in sent.items():
            self.assertEqual(sorted(sequences), list(range(len(sequences))), key)


if __name__ == "__main__":
    sys.exit(unittest.main())
