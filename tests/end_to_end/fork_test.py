"""Processes made by fork are each traced, exactly."""

import sys
import unittest

from harness import EndToEnd, BUILD

FORK = str(BUILD / "tests" / "nvtx_fork")


class Fork(EndToEnd):
    def test_three_processes_after_a_fork_have_exact_counts(self):
        # The parent makes 1000 ranges before it forks twice; then each of the three makes 5000.
        self.run_under_agent([FORK, "--before", "1000", "--after", "5000", "--children", "2"])
        rows = self.sql(
            "SELECT pid, sum(chunk.events) AS events FROM chunk JOIN track USING (track_id)"
            " JOIN thread USING (thread_id) JOIN process USING (session_id)"
            " WHERE track.kind = 1 GROUP BY session_id ORDER BY events")
        self.assertEqual([row["events"] for row in rows], [5000, 5000, 6000])
        self.assertEqual(self.lost(), 0)
        self.assertEqual(self.value("SELECT count(*) FROM run"), 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
