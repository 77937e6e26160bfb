"""The checks. Each takes the Programs; returns a line and its numbers, or raises Skip or Failed."""

import json
import pathlib
import random
import re
import statistics

from results import Failed, Skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN, CUBLAS = ("--gemm", "own"), ("--gemm", "cublas")
GPU = ("--device", "cuda:0")
CURVE = ("--steps", "40", "--width", "32", "--context", "32", "--batch", "2")
# Large enough for a GPU to be busy, small enough for our own product.
LARGE = ("--mode", "monolithic", "--layers", "6", "--width", "512", "--heads", "8", "--context",
         "256", "--batch", "16", "--steps", "20")


def apart(one, other):
    """The largest relative difference of two curves."""
    if len(one) != len(other):
        raise Failed(f"curves of {len(one)} and {len(other)} steps")
    return max(abs(a - b) / abs(a) for a, b in zip(one, other))


def need(good, text, numbers):
    if not good:
        raise Failed(text, numbers)
    return text, numbers


def with_either_gemm(run):
    """run(flags) by cuBLAS and by our own product; cuBLAS may be missing."""
    results = {"own": run(OWN)}
    try:
        results["cublas"] = run(CUBLAS)
    except Skip as why:
        results["cublas"] = None
        print(f"      without cuBLAS: {why}", flush=True)
    return {name: result for name, result in results.items() if result is not None}


def google_test(programs, filters):
    log = programs.fresh(".json")
    done = programs.run([programs.path("tests/gpu_test"), f"--gtest_filter={filters}",
                         f"--gtest_output=json:{log}"], 150, codes=(0, 1))
    cases = [case for suite in json.loads(log.read_text())["testsuites"]
             for case in suite["testsuite"]]
    skipped = [case for case in cases if case["result"] == "SKIPPED"]
    failed = [f"{case['classname']}.{case['name']}" for case in cases if case.get("failures")]
    numbers = {"ran": len(cases) - len(skipped), "failed": failed, "skipped": len(skipped)}
    if cases and len(skipped) == len(cases):
        programs.lacks(re.search(r"Skipped\n(.*)", done.stdout)[1])
    return need(cases and not failed, f"{numbers['ran']} ran, {len(failed)} failed, "
                f"{len(skipped)} skipped {' '.join(failed[:3])}".strip(), numbers)


def kernels(programs):
    return google_test(programs, "GpuKernels.*:*/GpuKernels.*")


def training(programs):
    return google_test(programs, "*GpuTraining.*:*GpuOffload.*")


def program(programs):
    done = programs.python(ROOT / "tests" / "gpu" / "program_test.py",
                           programs.path("bin/poolscope"), programs.path("bin/poolscope-trainer"))
    last = done.stderr.strip().splitlines()[-1]
    return need(done.returncode == 0, last, {})


def loss_fp32(programs):
    curves = with_either_gemm(lambda gemm: programs.train(*CURVE, *GPU, *gemm)[0])
    cpu, _ = programs.train(*CURVE)
    off = {name: apart(cpu, curve) for name, curve in curves.items()}
    return need(max(off.values()) <= 1e-3,
                "cuda against cpu, largest relative difference (bar 1e-3): " +
                ", ".join(f"{name} {value:.2g}" for name, value in off.items()), off)


def loss_bf16(programs):
    curves = with_either_gemm(
        lambda gemm: programs.train(*CURVE, *GPU, *gemm, "--precision", "bf16")[0])
    cpu, _ = programs.train(*CURVE)
    off = {name: apart(cpu, curve) for name, curve in curves.items()}
    return need(0 < min(off.values()) and max(off.values()) <= 0.02,
                "cuda in bf16 against cpu (bar 0.02, not 0): " +
                ", ".join(f"{name} {value:.2g}" for name, value in off.items()), off)


def graphs(programs):
    def times(gemm):
        plain, first = programs.train(*CURVE, *GPU, *gemm)
        replayed, second = programs.train(*CURVE, *GPU, *gemm, "--cuda-graphs")
        return {"apart": apart(plain, replayed), "plain_seconds": first["step_seconds_median"],
                "graph_seconds": second["step_seconds_median"]}
    found = with_either_gemm(times)
    return need(all(each["apart"] == 0 for each in found.values()),
                "; ".join(f"{name}: curves {each['apart']:.2g} apart (bar 0), step "
                          f"{each['plain_seconds'] * 1e3:.2f} ms, by graphs "
                          f"{each['graph_seconds'] * 1e3:.2f} ms" for name, each in found.items()),
                found)


def tokens(programs):
    numbers = {}
    for precision in ("fp32", "bf16"):
        found = with_either_gemm(lambda gemm: programs.train(
            *LARGE, *GPU, *gemm, "--precision", precision)[1]["tokens_per_second"])
        numbers.update({f"{name}_{precision}": value for name, value in found.items()})
    return "tokens/s: " + ", ".join(f"{k} {v:.0f}" for k, v in numbers.items()), numbers


def pools_of(programs, store):
    """By pool: busy ratio. Failed where the states of a window do not add up to it."""
    time = {}
    for row in programs.query(store, "SELECT * FROM worker_window"):
        window, busy = time.get(row["pool"], (0, 0))
        states = sum(int(value) for name, value in row.items()
                     if name.endswith("_ns") and name not in ("start_ns", "window_ns"))
        if states != int(row["window_ns"]):
            raise Failed(f"states add up to {states} ns of a window of {row['window_ns']}")
        time[row["pool"]] = (window + int(row["window_ns"]), busy + int(row["busy_ns"]))
    return {pool: busy / window for pool, (window, busy) in time.items()}


def losses_of(programs, store):
    """Event losses."""
    return programs.query(store, "SELECT * FROM event_loss")


def offload(programs):
    """Compute on the GPU, updates on the host, under the agent."""
    store = programs.fresh(".db")
    losses, summary = programs.train(*CURVE, "--compute-device", "cuda:0", "--update-device", "cpu",
                                     *OWN, store=store)
    cpu, _ = programs.train(*CURVE)
    encode = programs.query(store, "SELECT name, avg(duration_ns) / 1e9 AS seconds FROM event "
                            "WHERE category_name = 'transfer' AND json_extract(payload, "
                            "'$.stage') = 1 GROUP BY name")
    numbers = {"apart": apart(cpu, losses), "step_seconds": summary["step_seconds_median"],
               "busy_ratio": pools_of(programs, store), "event_losses": losses_of(programs, store),
               "encode_seconds": {row["name"]: float(row["seconds"]) for row in encode}}
    return need(numbers["apart"] <= 1e-3 and not numbers["event_losses"],
                f"curve {numbers['apart']:.2g} from the cpu's (bar 1e-3), step "
                f"{numbers['step_seconds'] * 1e3:.2f} ms, " +
                ", ".join(f"{pool} busy {ratio:.1%}" for pool, ratio in
                          numbers["busy_ratio"].items()) +
                f", {len(numbers['event_losses'])} event losses", numbers)


def priority(programs):
    """Both pools on one device; without a bar."""
    numbers = {}
    for pool in ("none", "update"):
        store = programs.fresh(".db")
        programs.train("--async", "--compute-workers", "3", "--steps", "60", *GPU, *OWN,
                       "--stream-priority", pool, store=store)
        rows = programs.query(store, "SELECT end_ns - start_ns AS ns FROM event WHERE name = "
                              "'optimizer' AND category_name = 'work' AND kind = 'range'")
        numbers[pool] = statistics.median(int(row["ns"]) for row in rows) / 1e9
    return (f"an update takes {numbers['none'] * 1e6:.0f} us, with priority "
            f"{numbers['update'] * 1e6:.0f} us", {"optimizer_seconds": numbers})


def needs_cupti(programs):
    agent = pathlib.Path(programs.path("lib/libpoolscope_agent.so")).read_bytes()
    if b"\0InitializeInjection\0" not in agent:
        raise Skip("the agent has no CUPTI source")


def kernels_in(programs, store, name="%"):
    """Count and summed seconds of the kernels that CUPTI told."""
    (row,) = programs.query(store, "SELECT count(*) AS n, coalesce(sum(end_ns - start_ns), 0) AS "
                            "ns FROM event WHERE domain = 'cuda' AND json_extract(payload, "
                            f"'$.blocks') IS NOT NULL AND name LIKE '{name}'")
    return int(row["n"]), int(row["ns"]) / 1e9


def cublas(programs):
    """A program that knows nothing of us: the same output, and all its products seen."""
    plain = programs.run([programs.path("tests/plain_cublas"), "200", "1024"])
    store = programs.fresh(".db")
    traced = programs.run([*programs.traced(store), programs.path("tests/plain_cublas"), "200",
                           "1024"])
    need(traced.stdout == plain.stdout, f"traced it printed {traced.stdout!r}", {})
    try:
        needs_cupti(programs)
    except Skip as why:
        return f"the same output traced; kernels not counted: {why}", {}
    count, seconds = kernels_in(programs, store)
    return need(count >= 200, f"{count} kernels of 200 products, {seconds * 1e3:.2f} ms",
                {"kernels": count, "seconds": seconds})


def cupti(programs):
    """Kernels by CUPTI against what the program launched and CUDA events timed."""
    needs_cupti(programs)
    store = programs.fresh(".db")
    done = programs.run([*programs.traced(store), programs.path("tests/timed_kernels")])
    launched = json.loads(done.stdout)
    count, seconds = kernels_in(programs, store, "%Spin%")
    off = seconds / launched["seconds"] - 1
    losses = losses_of(programs, store)
    return need(count == launched["kernels"] and abs(off) <= 0.02 and not losses,
                f"{count} of {launched['kernels']} kernels, {launched['in_graphs']} of them in "
                f"graphs; {seconds * 1e3:.2f} ms, CUDA events {launched['seconds'] * 1e3:.2f} ms "
                f"({off:+.2%}, bar 2 %); {len(losses)} event losses",
                {**launched, "traced_kernels": count, "traced_seconds": seconds,
                 "event_losses": losses})


def memory(programs):
    """Memory by CUPTI against what the program asked for, and what it did not give back."""
    needs_cupti(programs)
    store = programs.fresh(".db")
    done = programs.run([*programs.traced(store), programs.path("tests/known_allocations")])
    asked = json.loads(done.stdout)
    rows = programs.query(store, "SELECT name, json_extract(payload, '$.bytes') AS bytes, "
                          "json_extract(payload, '$.address') AS address FROM event WHERE domain = "
                          "'cuda' AND json_extract(payload, '$.range') = 'series' AND (name LIKE "
                          "'allocate %' OR name LIKE 'release %') ORDER BY start_ns")
    seen, held = dict.fromkeys(("device", "pool", "pinned", "managed"), 0), {}
    for row in rows:
        operation, kind = row["name"].split(" ", 1)
        if operation == "allocate":
            seen[kind] = seen.get(kind, 0) + int(row["bytes"])
            held[row["address"]] = int(row["bytes"])
        else:
            held.pop(row["address"], None)
    seen["held"] = sum(held.values())
    most = programs.query(store, "SELECT name, max(value) AS bytes FROM event WHERE kind = "
                          "'counter' AND name LIKE '%\\_bytes' ESCAPE '\\' GROUP BY name")
    losses = losses_of(programs, store)
    return need(seen == asked and not losses, ", ".join(
        f"{kind} {bytes} of {asked.get(kind, 0)} bytes" for kind, bytes in seen.items()) +
        f" (bar: the same); {len(losses)} event losses",
        {"asked": asked, "seen": seen, "most": most, "event_losses": losses})


def attribution(programs):
    """Of the trainer's kernels the thread and the NVTX range that launched them, in graphs too."""
    needs_cupti(programs)
    counts, shares = {}, {}
    for flags in ((), ("--cuda-graphs",)):
        store = programs.fresh(".db")
        programs.train(*CURVE, *GPU, *OWN, *flags, store=store)
        rows = programs.query(store, "SELECT json_extract(payload, '$.range') AS range, count(*) "
                              "AS n, sum(json_extract(payload, '$.launch_tid') > 0) AS told FROM "
                              "event WHERE domain = 'cuda' AND json_extract(payload, '$.blocks') "
                              "> 0 GROUP BY range")
        name = "graphs" if flags else "plain"
        counts[name] = {row["range"]: int(row["n"]) for row in rows}
        told = sum(int(row["told"]) for row in rows if row["range"])
        shares[name] = told / max(1, sum(counts[name].values()))
    need(counts["plain"], "no kernel was recorded", {})
    same = sum(counts["plain"].values()) == sum(counts["graphs"].values())
    return need(same and min(shares.values()) >= 0.99,
                f"{sum(counts['plain'].values())} kernels, by graphs "
                f"{sum(counts['graphs'].values())} (bar: as many); thread and range of "
                f"{shares['plain']:.1%} and {shares['graphs']:.1%} known (bar 99 %)",
                {"kernels": counts, "known": shares})


def nccl(programs):
    """NCCL's operations on all GPUs of the machine through the profiler plugin."""
    store = programs.fresh(".db")
    done = programs.run([*programs.traced(store), programs.path("tests/nccl_rank")])
    made = json.loads(done.stdout)
    rows = programs.query(store, "SELECT name, count(*) AS n, sum(json_extract(payload, "
                          "'$.bytes')) AS bytes, group_concat(DISTINCT json_extract(payload, "
                          "'$.timing')) AS timing FROM event WHERE domain = 'nccl' AND kind = "
                          "'range' GROUP BY name")
    seen = {row["name"]: int(row["n"]) for row in rows}
    numbers = {**made, "seen": rows}
    # On one rank NCCL may copy in place of running a collective, and then has nothing to tell.
    return need(seen, f"NCCL {made['version']}, {made['ranks']} ranks; called "
                f"{made['operations']}, seen " +
                (", ".join(f"{name} {n}" for name, n in seen.items()) or "nothing"), numbers)


def counters(programs):
    """Counters that the device samples while the trainer runs."""
    needs_cupti(programs)
    store = programs.fresh(".db")
    programs.environment["POOLSCOPE_PM_SAMPLING_MS"] = "10"
    try:
        programs.train(*LARGE, *GPU, *OWN, store=store)
    finally:
        del programs.environment["POOLSCOPE_PM_SAMPLING_MS"]
    rows = programs.query(store, "SELECT name, count(*) AS n, max(value) AS most FROM event WHERE "
                          "kind = 'counter' AND name LIKE 'device %' GROUP BY name")
    if not rows:
        why = programs.query(store, "SELECT name FROM event WHERE name LIKE 'device % is not "
                             "sampled%'")
        raise Skip(why[0]["name"] if why else "no counters of the device")
    return ", ".join(f"{row['name']} {row['n']} times, at most {row['most']}" for row in rows), {
        "counters": rows}


def overhead(programs):
    """Paired runs, bare and under agent and collector, in turns; median and its 95 % interval."""
    flags = ("--mode", "monolithic", "--layers", "4", "--width", "256", "--heads", "4", "--context",
             "128", "--batch", "8", "--steps", "60", *GPU, *OWN)
    slower, bare = [], []
    for pair in range(8):
        seconds = {}
        for traced in (pair % 2 == 0, pair % 2 == 1):
            store = programs.fresh(".db") if traced else None
            seconds[traced] = programs.train(*flags, store=store)[1]["step_seconds_median"]
        slower.append((seconds[True] / seconds[False] - 1) * 100)
        bare.append(seconds[False])
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(slower, k=len(slower))) for _ in range(2000))
    low, high = medians[50], medians[1949]
    numbers = {"percent": slower, "median_percent": statistics.median(slower), "low_percent": low,
               "high_percent": high, "bare_step_seconds": statistics.median(bare)}
    return need(low <= 1, f"{numbers['median_percent']:+.2f} % (95 % interval {low:+.2f} to "
                f"{high:+.2f} %, bar 1 %), {len(slower)} pairs, bare step "
                f"{numbers['bare_step_seconds'] * 1e3:.2f} ms", numbers)


ALL = {
    "kernels": kernels, "training": training, "program": program, "loss_fp32": loss_fp32,
    "loss_bf16": loss_bf16, "graphs": graphs, "offload": offload, "priority": priority,
    "cupti": cupti, "memory": memory, "attribution": attribution, "cublas": cublas, "nccl": nccl,
    "counters": counters, "tokens": tokens, "overhead": overhead,
}
