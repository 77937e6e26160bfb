"""What the tests of the Python module share: jobs in Python under `poolscope run`."""

import json
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))
from harness import POOLSCOPE, EndToEnd, clean_environment  # noqa: E402,F401

MODULE = str(ROOT / "python")


class PythonJob(EndToEnd):
    def script(self, body, name="job.py"):
        path = self.folder / name
        path.write_text(textwrap.dedent(body))
        return str(path)

    def run_python(self, *words, python=sys.executable, expect=0, flags=()):
        """Runs python WORDS under the agent, with the module at hand; its stdout and stderr."""
        return self.run_program(
            [POOLSCOPE, "run", "--no-report", "--store", self.store, *flags, "--", python, *words],
            env=clean_environment(PYTHONPATH=MODULE), expect=expect)

    def events(self, where="1"):
        """Rows of the table event in the module's domains, by start, payload decoded."""
        rows = self.sql("SELECT name, category, kind, thread, tid, pid, start_ns, end_ns, payload "
                        "FROM event WHERE coalesce(domain, '') IN ('', 'poolscope') "
                        f"AND {where} ORDER BY start_ns")
        for row in rows:
            row["payload"] = json.loads(row["payload"] or "{}")
            row["duration_ns"] = int(row["end_ns"]) - int(row["start_ns"])
        return rows
