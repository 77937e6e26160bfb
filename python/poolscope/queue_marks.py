"""Marks of waits at queues: for what a link delivers, and for room for what it shall take."""

import functools

from .activity import current
from .ranges import BLOCKED_LINK, WAIT_LINK

LINK = "queue"


def _waiting(kind, method, category, must_wait):
    function = getattr(kind, method)

    @functools.wraps(function)
    def marked(self, *arguments, **named):
        activity = current()
        if not activity.waits_matter() or not must_wait(self):
            return function(self, *arguments, **named)
        activity.enter(category, LINK)
        try:
            return function(self, *arguments, **named)
        finally:
            activity.leave()

    setattr(kind, method, marked)


def _queues(module):
    for name in ("Queue", "SimpleQueue"):
        kind = getattr(module, name)
        if kind.__module__ != module.__name__:  # of C, which cannot be marked
            continue
        _waiting(kind, "get", WAIT_LINK, kind.empty)
        if hasattr(kind, "full"):
            _waiting(kind, "put", BLOCKED_LINK, kind.full)


MARKS = {"queue": _queues, "multiprocessing.queues": _queues}
