"""Ranges: what a thread does, or waits for, from the beginning of a `with` to its end.

A range is of one thread: it cannot hold an `await` or a `yield` during which others run.
"""

import functools
import inspect
import time

from .interface import NO_VALUE, agent, name_of, own

# The categories and scopes of poolscope/annotate.h.
WORK, TRANSFER, WAIT_LINK, BLOCKED_LINK, WAIT_CREDIT, WAIT_PEER = 1, 2, 3, 4, 5, 6
INPUT, OTHER_WORK, PHASE, HOST = 7, 8, 11, 12
PER_MICRO_BATCH, PER_SHARD, FIXED = 0, 1, 2

_push, _pop, _begin, _end = agent.push, agent.pop, agent.begin, agent.end
_end_work, _end_wait = agent.end_work, agent.end_wait


class Plain:
    """A range that means nothing by itself; may be used again, nested, and as a decorator."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = name_of(name)

    def __enter__(self):
        _push(self._name)
        return self

    def __exit__(self, *_):
        _pop()

    def __call__(self, function):
        if (inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or
                inspect.isasyncgenfunction(function)):
            raise TypeError(f"{function.__qualname__} gives up its thread while it runs: mark what "
                            "lies between its awaits or yields")

        @functools.wraps(function)
        def marked(*arguments, **named):
            with self._again():
                return function(*arguments, **named)

        return marked

    def _again(self):
        return self


class Range(Plain):
    """A range of a category, without more to say than its name."""

    __slots__ = ("_category",)

    def __init__(self, category, name):
        super().__init__(name)
        self._category = category

    def __enter__(self):
        own.marks()
        _begin(self._category, self._name)
        return self

    def __exit__(self, *_):
        _end()


class Work(Plain):
    """The pool's own work. What it says of itself may be set until it ends."""

    __slots__ = ("step", "micro_batch", "version", "scope", "_cpu_time", "_began")

    def __init__(self, name, step=NO_VALUE, micro_batch=NO_VALUE, version=NO_VALUE,
                 scope=PER_MICRO_BATCH, cpu_time=True):
        super().__init__(name)
        self.step, self.micro_batch, self.version, self.scope = step, micro_batch, version, scope
        self._cpu_time = cpu_time

    def __enter__(self):
        own.marks()
        _begin(WORK, self._name)
        if self._cpu_time:
            self._began = time.thread_time_ns()
        return self

    def __exit__(self, *_):
        _end_work(self.step, self.micro_batch, self.version, self.scope,
                  time.thread_time_ns() - self._began if self._cpu_time else NO_VALUE)

    def _again(self):
        again = Work.__new__(Work)
        for slot in ("_name",) + Work.__slots__[:-1]:
            setattr(again, slot, getattr(self, slot))
        return again


class WaitLink(Plain):
    """A wait for what a link delivers; `message` says what ended it."""

    __slots__ = ("_source", "_sequence")

    def __init__(self, link):
        super().__init__(link)

    def __enter__(self):
        self._source = self._sequence = NO_VALUE
        own.marks()
        _begin(WAIT_LINK, self._name)
        return self

    def message(self, source, sequence):
        self._source, self._sequence = source, sequence

    def __exit__(self, *_):
        _end_wait(self._source, self._sequence)

    def _again(self):
        again = WaitLink.__new__(WaitLink)
        again._name = self._name
        return again


_kept = {}


def _kind(make, *category):
    """Gives the ranges of a kind by name; the same object for the same name."""
    def named(name):
        found = _kept.get((category, name))
        if found is None:
            found = make(*category, name)
            if len(_kept) < 65536:
                _kept[category, name] = found
        return found
    return named


range = _kind(Plain)
blocked_link = _kind(Range, BLOCKED_LINK)
wait_credit = _kind(Range, WAIT_CREDIT)
wait_peer = _kind(Range, WAIT_PEER)
input = _kind(Range, INPUT)
other_work = _kind(Range, OTHER_WORK)
phase = _kind(Range, PHASE)
host = _kind(Range, HOST)
work = Work
wait_link = WaitLink
