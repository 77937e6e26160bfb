"""What a job makes is what the store holds, or a counted event loss."""

import re
import subprocess
import sys
import unittest

from harness import AGENT, STORM, EndToEnd, clean_environment

TEN_MILLION = 10_000_000


class Counts(EndToEnd):
    def check_storm(self, threads, ranges, *flags):
        out, err = self.run_under_agent([STORM, "--threads", str(threads), "--ranges", str(ranges),
                                         *flags])
        made = int(re.search(r"(\d+)", out)[1])
        self.assertEqual(made, ranges, out + err)
        stored = self.value("SELECT coalesce(sum(events), 0) FROM chunk JOIN track USING (track_id)"
                            " WHERE kind = 1")
        self.assertEqual(stored + self.lost(), made)
        self.assertGreater(stored, 0)
        return stored

    def test_ten_million_ranges_of_one_thread_are_stored_or_counted_lost(self):
        self.check_storm(1, TEN_MILLION)

    def test_ten_million_ranges_of_eight_threads_are_stored_or_counted_lost(self):
        self.check_storm(8, TEN_MILLION)

    def test_ten_million_ranges_of_64_threads_are_stored_or_counted_lost(self):
        self.check_storm(64, TEN_MILLION)

    def test_ranges_at_a_modest_rate_are_all_stored(self):
        stored = self.check_storm(4, 200_000, "--rate", "50000")
        self.assertEqual(stored, 200_000)

    def test_summaries_agree_with_decoded_events(self):
        self.check_storm(4, 100_000, "--rate", "50000")
        decoded = self.value("SELECT count(*) FROM event WHERE kind = 'range'")
        summed = self.value("SELECT sum(events) FROM chunk JOIN track USING (track_id)"
                            " WHERE kind = 1")
        self.assertEqual(decoded, summed)

    def test_without_a_collector_the_job_does_not_notice(self):
        command = [STORM, "--threads", "4", "--ranges", "100000"]
        plain = subprocess.run(command, capture_output=True, env=clean_environment(), check=True)
        traced = subprocess.run(command, capture_output=True, check=True,
                                env=clean_environment(NVTX_INJECTION64_PATH=AGENT,
                                                      POOLSCOPE_RUN_DIR=str(self.shm)))
        self.assertEqual(traced.stdout, plain.stdout)
        self.assertEqual(traced.stderr, plain.stderr)
        self.assertTrue(list(self.shm.glob("*.session")), "the agent was not even there")


if __name__ == "__main__":
    sys.exit(unittest.main())
