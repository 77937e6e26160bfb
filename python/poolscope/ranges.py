"""Ranges: what a thread does, or waits for, from the beginning of a `with` to its end.

A range is of one thread: it cannot hold an `await` or a `yield` during which others run.
"""

import functools
import inspect
import time

from .interface import NO_VALUE, agent, name_of

# The categories and scopes of poolscope/annotate.h.
PLAIN, WORK, TRANSFER, WAIT_LINK, BLOCKED_LINK, WAIT_CREDIT, WAIT_PEER = 0, 1, 2, 3, 4, 5, 6
INPUT, OTHER_WORK, PHASE, HOST = 7, 8, 11, 12
PER_MICRO_BATCH, PER_SHARD, FIXED = 0, 1, 2

_begin, _end, _end_work, _end_wait = agent.begin, agent.end, agent.end_work, agent.end_wait


class Range:
    """A range without more to say than its name; may be used again, nested, and as a decorator."""

    __slots__ = ("_category", "_name")

    def __init__(self, category, name):
        self._category, self._name = category, name_of(name)

    def __enter__(self):
        _begin(self._category, self._name)
        return self

    def __exit__(self, *_):
        _end()

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


class Work(Range):
    """The pool's own work. What it says of itself may be set until it ends."""

    __slots__ = ("step", "micro_batch", "version", "scope", "_cpu_time", "_began")

    def __init__(self, name, step=NO_VALUE, micro_batch=NO_VALUE, version=NO_VALUE,
                 scope=PER_MICRO_BATCH, cpu_time=True):
        super().__init__(WORK, name)
        self.step, self.micro_batch, self.version, self.scope = step, micro_batch, version, scope
        self._cpu_time = cpu_time

    def __enter__(self):
        _begin(WORK, self._name)
        if self._cpu_time:
            self._began = time.thread_time_ns()
        return self

    def __exit__(self, *_):
        _end_work(self.step, self.micro_batch, self.version, self.scope,
                  time.thread_time_ns() - self._began if self._cpu_time else NO_VALUE)

    def _again(self):
        again = Work.__new__(Work)
        for slot in ("_category", "_name") + Work.__slots__[:-1]:
            setattr(again, slot, getattr(self, slot))
        return again


class WaitLink(Range):
    """A wait for what a link delivers; `message` says what ended it."""

    __slots__ = ("_source", "_sequence")

    def __init__(self, link):
        super().__init__(WAIT_LINK, link)

    def __enter__(self):
        self._source = self._sequence = NO_VALUE
        _begin(WAIT_LINK, self._name)
        return self

    def message(self, source, sequence):
        self._source, self._sequence = source, sequence

    def __exit__(self, *_):
        _end_wait(self._source, self._sequence)

    def _again(self):
        again = WaitLink.__new__(WaitLink)
        again._category, again._name = self._category, self._name
        return again


_kept = {}


def _of(category):
    def named(name):
        found = _kept.get((category, name))
        if found is None:
            found = Range(category, name)
            if len(_kept) < 65536:
                _kept[category, name] = found
        return found
    return named


range = _of(PLAIN)
blocked_link = _of(BLOCKED_LINK)
wait_credit = _of(WAIT_CREDIT)
wait_peer = _of(WAIT_PEER)
input = _of(INPUT)
other_work = _of(OTHER_WORK)
phase = _of(PHASE)
host = _of(HOST)
work = Work
wait_link = WaitLink
