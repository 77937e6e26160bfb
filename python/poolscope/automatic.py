"""Marks that a job gets without a line changed: `python -m poolscope` (docs/python.md)."""

import importlib.abc
import importlib.util
import os
import sys
import traceback

from . import queue_marks, torch_marks
from .activity import choose, chosen, leave_alone
from .interface import agent, own


def install(pool, role):
    """Marks this process and those that its multiprocessing starts. Nothing where nobody watches,
    and nothing more where it was called before."""
    if agent.attached() == 0 or any(isinstance(f, _Imports) for f in sys.meta_path):
        return
    choose(pool, role)
    own.marks = leave_alone
    imports = _Imports({**queue_marks.MARKS, **torch_marks.MARKS,
                        "multiprocessing.util": _follow_children})
    for name in list(imports.waiting):
        if name in sys.modules:
            imports.mark(name, sys.modules[name])
    sys.meta_path.insert(0, imports)


class _Imports(importlib.abc.MetaPathFinder):
    """Marks each module once it has been imported."""

    def __init__(self, marks):
        self.waiting = marks

    def mark(self, name, module):
        marks = self.waiting.pop(name, None)
        try:
            if marks is not None:
                marks(module)
        except Exception:  # of a version that is not as those known: it stays unmarked
            if os.environ.get("POOLSCOPE_AGENT_LOG") == "1":
                traceback.print_exc()

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting or name in self.finding:
            return None
        self.finding.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.finding.discard(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module):
                execute(module)
                self.mark(name, module)

            spec.loader.exec_module = executed
        return spec

    finding = set()


def _follow_children(module):
    """Children by spawn and by a fork server begin with a program of their own, given by -c."""
    spawn = module.spawnv_passfds
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    def marked(path, arguments, passed):
        arguments = list(arguments)
        at = next((i for i, word in enumerate(arguments) if word in ("-c", b"-c")), None)
        if at is not None and "resource_tracker" not in os.fsdecode(arguments[at + 1]):
            pool, role = chosen()
            begin = (f"import sys; sys.path.append({here!r}); import poolscope.automatic; "
                     f"poolscope.automatic.install({pool!r}, {role!r}); ")
            arguments[at + 1] = begin + os.fsdecode(arguments[at + 1])
        return spawn(path, arguments, passed)

    module.spawnv_passfds = marked
