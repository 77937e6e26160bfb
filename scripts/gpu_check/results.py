"""The results of all checks: printed as they come, written to gpu-check.json and gpu-check.txt."""

import datetime
import json
import os
import platform
import subprocess
import time


class Skip(Exception):
    """What the check needs is not here; the message says what."""


class Failed(Exception):
    """What the check found wrong. `numbers`: what it had measured."""

    def __init__(self, text, numbers=None):
        super().__init__(text)
        self.numbers = numbers or {}


def machine():
    """What there is to compute on; without nvidia-smi no GPU."""
    try:
        gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                              "--format=csv,noheader"], capture_output=True, text=True, timeout=30)
        gpus = gpu.stdout.strip().splitlines() if gpu.returncode == 0 else []
    except (OSError, subprocess.TimeoutExpired):
        gpus = []
    return {"gpus": gpus, "cores": os.cpu_count(), "kernel": platform.release()}


class Results:
    """Written anew after each check: of a run that is ended early, what there was remains."""

    def __init__(self, folder, manifest):
        self.folder, self.checks, self.begin = folder, [], time.monotonic()
        self.head = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
                     **manifest, "machine": machine()}
        self.lines = [f"gpu-check, {self.head['date']}, commit {self.head.get('commit', '?')}, "
                      f"{'; '.join(self.head['machine']['gpus']) or 'no GPU'}"]
        self.has_gpu = bool(self.head["machine"]["gpus"])
        print(self.lines[0], flush=True)

    def add(self, name, check):
        """Runs `check`, which returns a line and numbers, or raises Skip or Failed."""
        begin = time.monotonic()
        try:
            summary, numbers = check()
            status = "PASS"
        except Skip as why:
            status, summary, numbers = "SKIP", str(why), {}
        except Failed as why:
            status, summary, numbers = "FAIL", str(why), why.numbers
        except Exception as why:  # a check that breaks is a failed one; the others go on
            status, summary, numbers = "FAIL", f"{type(why).__name__}: {why}", {}
        seconds = time.monotonic() - begin
        self.checks.append({"name": name, "status": status, "summary": summary,
                            "seconds": round(seconds, 1), "numbers": numbers})
        self.lines.append(f"{status}  {name:<16} {seconds:5.1f} s  {summary}")
        print(self.lines[-1], flush=True)
        self.write()

    def write(self):
        whole = {**self.head, "seconds": round(time.monotonic() - self.begin, 1),
                 "checks": self.checks}
        (self.folder / "gpu-check.json").write_text(json.dumps(whole, indent=1) + "\n")
        (self.folder / "gpu-check.txt").write_text("\n".join(self.lines) + "\n")

    def finish(self):
        count = {status: sum(each["status"] == status for each in self.checks)
                 for status in ("PASS", "FAIL", "SKIP")}
        self.lines.append(f"{count['PASS']} passed, {count['FAIL']} failed, {count['SKIP']} "
                          f"skipped, {time.monotonic() - self.begin:.0f} s")
        print(self.lines[-1], flush=True)
        self.write()
        return 1 if count["FAIL"] else 0
