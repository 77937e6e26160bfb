"""The trainer over processes that mpirun starts, on one host and on two of its own making."""

import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import time
import unittest

from traced_run import APPLY, EMULATED, POOLSCOPE, QUEUED, RECEIVE, TRAINER, WIRE, TracedRun

# Tests run as root and on fewer cores than ranks.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
os.environ.update(ENVIRONMENT)
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]
ENDLESS = [*EMULATED, "--steps", "1000000", "--log-every", "1"]


def start(ranks, *arguments):
    return subprocess.Popen([*MPIRUN, "-n", str(ranks), TRAINER, "--transport", "mpi", *arguments],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(ranks, *arguments):
    with start(ranks, *arguments) as process:
        out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def why_not():
    if shutil.which("mpirun") is None:
        return "no mpirun here"
    _, _, err = run(1, *EMULATED, "--steps", "1")
    return "built without MPI" if "built without MPI" in err else ""


SKIPPED = why_not()


@unittest.skipIf(SKIPPED, SKIPPED)
class Processes(TracedRun):
    def steps(self, launcher, *arguments):
        log = os.path.join(self.folder.name, "log.json")
        subprocess.run([*launcher, TRAINER, "--json-log", log, *arguments], check=True,
                       stdout=subprocess.DEVNULL, timeout=100)
        with open(log, encoding="utf-8") as file:
            return [json.loads(line) for line in file][:-1]

    def test_synchronous_loss_is_bit_by_bit_that_of_one_process(self):
        for ranks, arguments in ((3, ["--update-workers", "2"]),
                                 (3, ["--weights-codec", "1bit-delta", "--gradients-codec",
                                      "topk:0.1+lz4"]),
                                 (4, ["--compute-workers", "3", "--compute-allreduce"]),
                                 (2, ["--join", "1@3", "--leave", "0@5"])):
            arguments = [*arguments, "--layers", "1", "--steps", "8"]
            losses = [[each["loss"] for each in self.steps(launcher, *arguments, *more)]
                      for launcher, more in (([], []), ([*MPIRUN, "-n", str(ranks)],
                                                        ["--transport", "mpi"]))]
            self.assertEqual(losses[0], losses[1])
            self.assertEqual(len(losses[0]), 8)

    def test_asynchronous_keeps_its_lag_bound_over_processes(self):
        steps = self.steps([*MPIRUN, "-n", "4"], "--transport", "mpi", *EMULATED, "--async",
                           "--compute-workers", "3", "--lag-bound", "2", "--weights-latency-ms",
                           "5", "--steps", "30")
        self.assertEqual(len(steps), 30)
        lags = [each["lag_max"] for each in steps]
        self.assertGreater(max(lags), 0)
        self.assertLessEqual(max(lags), 2)

    def test_one_store_has_every_rank_and_every_message_from_both_ends(self):
        self.trace("--transport", "mpi", *EMULATED[:-1], "16", "--compute-workers", "2",
                   "--update-workers", "2", "--gradients-depth", "1", "--steps", "20", "--async",
                   launcher=[*MPIRUN, "-n", "4"])
        self.assertEqual(len(self.query("SELECT DISTINCT run_id FROM process")), 1)
        workers = self.query("SELECT pool, worker_index, session_id FROM worker")
        self.assertEqual({(each["pool"], each["worker_index"]) for each in workers},
                         {(pool, index) for pool in ("compute", "update") for index in "01"})
        self.assertEqual(len({each["session_id"] for each in workers}), 4)
        process = {each["thread"]: each["pid"] for each in self.query(
            "SELECT DISTINCT thread, pid FROM event WHERE pool != ''")}
        places = {(each["name"], each["stage"], each["source"], each["sequence"]): each["pid"]
                  for each in self.query(
                      "SELECT name, pid, json_extract(payload, '$.stage') AS stage, "
                      "json_extract(payload, '$.source') AS source, json_extract(payload, "
                      "'$.sequence') AS sequence FROM event WHERE category = 2")}
        for link, pool, other, count in (("gradients", "compute", "update", 20 * 4 * 2),
                                         ("weights", "update", "compute", 20 * 2 * 2)):
            messages = self.messages(link)
            real = {key: each for key, each in messages.items()
                    if each[WIRE]["payload"]["step"] is not None}
            self.assertEqual(len(messages) - len(real), 3)  # probes
            self.assertEqual(len(real), count)
            for (source, sequence), stages in real.items():
                self.assertLessEqual({QUEUED, WIRE, RECEIVE}, set(stages))
                wire, receive = stages[WIRE], stages[RECEIVE]
                self.assertEqual(wire["payload"]["wire_bytes"], 500_000)
                self.assertIsNone(receive["payload"]["wire_bytes"])
                self.assertLessEqual(wire["start_ns"], receive["start_ns"])
                if APPLY in stages:
                    self.assertLessEqual(receive["end_ns"], stages[APPLY]["start_ns"])
                for stage, worker in ((WIRE, f"{pool}/{source}"),
                                      (RECEIVE, f"{other}/{wire['payload']['destination']}")):
                    place = places[link, str(stage), str(source), str(sequence)]
                    self.assertEqual(place, process[worker])
            total, = self.query("SELECT sum(transfers) AS transfers, sum(wire_bytes) AS bytes, "
                                f"max(depth_max) AS depth FROM link_window WHERE link = '{link}'")
            self.assertEqual(int(total["transfers"]), count + 3)
            self.assertEqual(int(total["bytes"]), count * 500_000 + 3 * 1024)
            self.assertGreater(float(total["depth"]), 0)
            self.assertLessEqual(float(total["depth"]), {"gradients": 2, "weights": 4}[link])
        self.assertEqual(len(self.of("step")), 20)
        self.assertTrue(self.of("blocked_link", pool="compute", name="gradients"))
        self.assertTrue(self.of("wait_link", pool="update", name="gradients"))
        for each in self.of("wait_link", name="gradients"):
            payload = each["payload"]
            self.assertIn((payload["source"], payload["sequence"]), self.messages("gradients"))

    def test_shaped_lane_is_shared_by_the_senders_of_all_processes(self):
        self.trace("--transport", "mpi", *EMULATED, "--compute-workers", "3", "--gradient-bytes",
                   "1M", "--gradients-bandwidth", "100M", "--gradients-latency-ms", "4", "--steps",
                   "6", launcher=[*MPIRUN, "-n", "4"])
        gradients = [each[WIRE] for each in self.messages("gradients").values()
                     if each[WIRE]["payload"]["step"] is not None]
        self.assertEqual(len(gradients), 6 * 3)
        # 10 ms on the lane, and 4 of latency; a late timer may begin late.
        wires = [each["end_ns"] - each["start_ns"] for each in gradients]
        self.assertGreaterEqual(statistics.median(wires), 12_000_000)
        steps = [[each for each in gradients if each["payload"]["step"] == step]
                 for step in range(6)]  # three messages of 10 ms behind each other
        self.assertGreaterEqual(
            statistics.median(max(each["end_ns"] for each in step) -
                              min(each["start_ns"] for each in step) for step in steps), 32_000_000)
        link, = self.query("SELECT lanes FROM link WHERE link = 'gradients'")
        self.assertEqual(link["lanes"], "1")

    def test_rank_that_waits_burns_no_core(self):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        code, _, err = run(3, "--device", "emulated", "--math", "none", "--forward-ms", "250",
                           "--backward-ms", "250", "--update-ms", "10", "--micro-batches", "2",
                           "--steps", "5")
        wall = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(code, 0, err)
        cpu = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
        self.assertLess(cpu, wall / 2)  # of three ranks; one that polls without pause takes all

    def test_what_cannot_run_is_one_line_of_rank_0(self):
        for code, text, ranks, arguments in (
                (2, "4 processes for 3 workers", 4, []), (2, "--bogus", 3, ["--bogus"]),
                (2, "--mode disaggregated", 3, ["--mode", "monolithic"]),
                (2, "too large for MPI", 3, ["--device", "emulated", "--gradient-bytes", "9G"]),
                (1, "/nowhere", 3, ["--data", "/nowhere"])):
            result, out, err = run(ranks, *arguments)
            ours = [line for line in err.splitlines() if line.startswith("poolscope-trainer:")]
            self.assertEqual((result, len(ours), out), (code, 1, ""), err)
            self.assertIn(text, ours[0])
        result = subprocess.run([*MPIRUN, "-n", "2", TRAINER], capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.count("one of 2 processes"), 1)

    def test_signal_to_mpirun_ends_the_run_after_a_step_with_a_summary(self):
        for number, mode in ((signal.SIGINT, "--sync"), (signal.SIGTERM, "--async")):
            with start(3, *ENDLESS, mode) as process:
                for line in process.stdout:
                    if line.split()[:1] == ["3"]:
                        break
                process.send_signal(number)
                rest = process.stdout.read()
                process.wait(timeout=60)
            self.assertNotEqual(process.returncode, 0)
            self.assertRegex(rest.splitlines()[-1], r"^\d+ steps, median ")

    def test_killed_rank_ends_all_and_is_named(self):
        with start(3, *ENDLESS) as process:
            for line in process.stdout:
                if line.split()[:1] == ["3"]:
                    break
            children = [int(each) for each in subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True,
                check=True).stdout.split()]
            ranks = {}
            for pid in children:
                with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
                    for each in file.read().split("\0"):
                        if each.startswith("OMPI_COMM_WORLD_RANK="):
                            ranks[int(each.split("=")[1])] = pid
            os.kill(ranks[2], signal.SIGKILL)
            _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL)
        self.assertEqual(len([line for line in err.splitlines() if "rank 2" in line]), 1, err)
        end = time.monotonic() + 20
        while any(alive(pid) for pid in ranks.values()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)


@unittest.skipIf(SKIPPED, SKIPPED)
class Hosts(TracedRun):
    """Two hosts: network and UTS namespaces, with a cable (veth) between them."""

    NAMES = [f"psmpi{os.getpid()}a", f"psmpi{os.getpid()}b"]
    NETWORK = "10.199.77.0/24"

    def ip(self, *arguments):
        return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True).stdout

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("namespaces need root")
        try:
            for name in self.NAMES:
                self.ip("netns", "add", name)
                self.addCleanup(self.ip, "netns", "del", name)
            self.ip("link", "add", "cable", "netns", self.NAMES[0], "type", "veth", "peer", "name",
                    "cable", "netns", self.NAMES[1])
            for number, name in enumerate(self.NAMES):
                self.ip("-n", name, "address", "add", f"10.199.77.{number + 1}/24", "dev", "cable")
                for device in ("cable", "lo"):
                    self.ip("-n", name, "link", "set", device, "up")
        except OSError as error:
            self.skipTest(f"no network namespaces here: {error}")
        except subprocess.CalledProcessError as error:  # in a chroot, say
            self.skipTest(f"no network namespaces here: {error.stderr.strip()}")
        self.rsh = os.path.join(self.folder.name, "rsh")
        with open(self.rsh, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nhost=$1; shift\n"
                       "exec ip netns exec \"$host\" unshare --uts sh -c "
                       "'hostname \"$0\"; exec sh -c \"$*\"' \"$host\" \"$@\"\n")
        os.chmod(self.rsh, 0o700)

    def bytes_sent(self, host):
        links = json.loads(self.ip("-n", host, "-s", "-j", "link", "show", "cable"))
        return links[0]["stats64"]["tx"]["bytes"]

    def run_on_both(self, *arguments):
        """Compute workers on the first host, the update worker on the second."""
        self.store = os.path.join(self.folder.name, "run.db")
        first, second = self.NAMES
        mca = {"plm_rsh_agent": self.rsh, "btl": "self,tcp", "btl_tcp_if_include": self.NETWORK,
               "oob_tcp_if_include": self.NETWORK}
        command = [POOLSCOPE, "run", "--no-report", "--store", self.store, "--", *MPIRUN, "--host",
                   f"{first}:2,{second}:1", "-x", "NVTX_INJECTION64_PATH", "-x",
                   "POOLSCOPE_RUN_ID", "-x", "POOLSCOPE_RUN_DIR",
                   *[word for key, value in mca.items() for word in ("--mca", key, value)],
                   TRAINER, "--transport", "mpi", *EMULATED, *arguments]
        subprocess.run(["ip", "netns", "exec", first, "unshare", "--uts", "sh", "-c",
                        "hostname \"$0\"; exec \"$@\"", first, *command], check=True, timeout=100,
                       stdout=subprocess.DEVNULL)

    def wire_seconds(self, link):
        """Of each message: from its sender's first byte to its receiver's last."""
        spans = self.query(
            "SELECT min(start_ns) AS start, max(end_ns) AS end FROM event WHERE category = 2 AND "
            f"name = '{link}' AND json_extract(payload, '$.stage') IN (2, 5) AND "
            "json_extract(payload, '$.step') IS NOT NULL GROUP BY json_extract(payload, "
            "'$.source'), json_extract(payload, '$.sequence')")
        return [(int(each["end"]) - int(each["start"])) / 1e9 for each in spans]

    def test_traffic_crosses_the_cable_between_two_hosts(self):
        before = [self.bytes_sent(name) for name in self.NAMES]
        self.run_on_both("--steps", "10")
        hosts = self.query("SELECT pool, host FROM worker JOIN process USING (session_id)")
        self.assertEqual({(each["pool"], each["host"]) for each in hosts},
                         {("compute", self.NAMES[0]), ("update", self.NAMES[1])})
        for name, sent in zip(self.NAMES, before):  # 10 × 2 messages of 1 MB, and their frames
            self.assertGreater(self.bytes_sent(name) - sent, 20e6)
            self.assertLess(self.bytes_sent(name) - sent, 30e6)

    def test_slow_cable_is_what_the_wire_stages_show(self):
        subprocess.run(["ip", "netns", "exec", self.NAMES[0], "tc", "qdisc", "add", "dev", "cable",
                        "root", "tbf", "rate", "200mbit", "burst", "64kb", "latency", "500ms"],
                       check=True)
        self.run_on_both("--steps", "5")
        slow, fast = self.wire_seconds("gradients"), self.wire_seconds("weights")
        self.assertEqual((len(slow), len(fast)), (10, 10))
        median = sorted(slow)[5]
        self.assertGreater(median, 0.036)  # 1 MB at 25 MB/s is 40 ms, less the burst
        self.assertGreater(median, 2 * sorted(fast)[5])  # only one way is slow


if __name__ == "__main__":
    unittest.main(verbosity=2)
