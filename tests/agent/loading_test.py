"""Whatever loads the agent, in whatever order, a process has one session with all of it."""

import itertools
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from harness import AGENT, BUILD, POOLSCOPE, EndToEnd, clean_environment  # noqa: E402

JOB = str(BUILD / "tests" / "loading_job")
LINKED = str(BUILD / "tests" / "loading_job_linked")
VARIABLES = {name: AGENT for name in ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH",
                                      "NCCL_PROFILER_PLUGIN")}
CUPTI = str(BUILD / "tests" / "standin" / "libcupti.so")
DOMAINS = {"nvtx": "", "cuda": "cuda", "nccl": "nccl", "api": "poolscope"}
ORDERS = [order for count in (1, len(DOMAINS)) for order in itertools.permutations(DOMAINS, count)]
WAYS = {
    "by variables": (JOB, VARIABLES),
    "preloaded": (JOB, {"LD_PRELOAD": AGENT}),
    "preloaded by a link to it": (JOB, {"LD_PRELOAD": "{shm}/link.so"}),
    "linked": (LINKED, {}),
    "by variables and preloaded": (JOB, {**VARIABLES, "LD_PRELOAD": AGENT}),
    "all at once": (LINKED, {**VARIABLES, "LD_PRELOAD": AGENT}),
}


class Loading(EndToEnd):
    def setUp(self):
        super().setUp()
        (self.shm / "link.so").symlink_to(AGENT)

    def job(self, program, words, variables):
        """The pid of a job that ended well."""
        variables = {k: v.format(shm=self.shm) for k, v in variables.items()}
        process = self.start([program, *words], env=clean_environment(
            POOLSCOPE_RUN_DIR=str(self.shm), POOLSCOPE_AGENT_LOG="1", POOLSCOPE_CUPTI=CUPTI,
            **variables))
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out, err), (0, "", ""), (program, words, variables))
        return process.pid

    def recorded(self):
        """What a collector finds: {pid: (sessions, {domain: events})}."""
        collector = self.start([POOLSCOPE, "collect", "--store", self.store, "--run-dir",
                                str(self.shm)])
        collector.stdout.readline()
        collector.terminate()
        collector.communicate(timeout=60)
        found = {row["pid"]: (row["n"], {})
                 for row in self.sql("SELECT pid, count(*) AS n FROM process GROUP BY pid")}
        for row in self.sql("SELECT pid, coalesce(domain, '') AS domain, count(*) AS n FROM event "
                            "WHERE name NOT LIKE 'CUPTI %' "  # which version is read
                            "GROUP BY 1, 2"):
            found[row["pid"]][1][row["domain"]] = row["n"]
        return found

    def test_every_way_and_order_makes_one_session(self):
        expected = {}
        for (program, variables), order in itertools.product(WAYS.values(), ORDERS):
            pid = self.job(program, order, variables)
            expected[pid] = (1, {DOMAINS[source]: 1 for source in order})
        self.assertEqual(len(expected), len(WAYS) * len(ORDERS))
        self.assertEqual(self.recorded(), expected)

    def test_children_by_fork_and_exec_have_one_session_each(self):
        for program, variables in WAYS.values():
            self.job(program, ["nvtx", "fork", "nccl", "api", "exec", "nccl", "nvtx"], variables)
        found = self.recorded()
        # The parent's range; the child's two images, of which each starts a session of its own.
        self.assertEqual(sorted((n, sorted(e.items())) for n, e in found.values()),
                         [(1, [("", 1)])] * len(WAYS) +
                         [(2, [("", 1), ("nccl", 2), ("poolscope", 1)])] * len(WAYS))

    def test_preloading_leaves_what_the_user_chose(self):
        def shown(**variables):
            out, _ = self.run_program(
                ["sh", "-c", "echo $NVTX_INJECTION64_PATH,$CUDA_INJECTION64_PATH,"
                 "$NCCL_PROFILER_PLUGIN"],
                env=clean_environment(LD_PRELOAD=AGENT, **variables))
            return out.strip()
        agent = os.path.realpath(AGENT)
        self.assertEqual(shown(), f"{agent},{agent},{agent}")
        self.assertEqual(shown(NCCL_PROFILER_PLUGIN="none"), f"{agent},{agent},none")
        self.assertEqual(shown(NVTX_INJECTION64_PATH="/other.so"), f"/other.so,{agent},{agent}")
        self.assertEqual(shown(NVTX_INJECTION64_PATH=AGENT), f"{AGENT},,")

    def test_program_that_makes_no_call_gets_no_session(self):
        self.job(LINKED, [], {})
        self.job(JOB, [], {"LD_PRELOAD": AGENT})
        self.assertEqual(list(self.shm.glob("*.session")), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
