"""Transfers: the messages on a link, stage by stage, at both ends."""

from .interface import NO_VALUE, agent, name_of, own, words
from .ranges import TRANSFER

# The stages and kinds of fault of poolscope/annotate.h.
QUEUED, ENCODE, WIRE, DECODE, APPLY, RECEIVE = 0, 1, 2, 3, 4, 5
_STAGES = {"encode": ENCODE, "wire": WIRE, "decode": DECODE, "apply": APPLY, "receive": RECEIVE}
_FAULTS = {"retry": 0, "corrupt": 1, "duplicate": 2, "lost": 3}


class Transfer:
    """One message of a link, known at both ends by (link, source, sequence)."""

    __slots__ = ("link", "source", "destination", "sequence", "version", "applied_version",
                 "raw_bytes", "wire_bytes", "step", "micro_batch", "codec")

    def __init__(self, link, source, destination, sequence, version=NO_VALUE,
                 applied_version=NO_VALUE, raw_bytes=0, wire_bytes=None, step=NO_VALUE,
                 micro_batch=NO_VALUE, codec=None):
        self.link, self.sequence = link, sequence
        self.source, self.destination = source, destination
        self.version, self.applied_version = version, applied_version
        self.raw_bytes, self.wire_bytes = raw_bytes, wire_bytes
        self.step, self.micro_batch, self.codec = step, micro_batch, codec

    def stage(self, name):
        """A range of this thread: encode, wire, decode, apply or receive."""
        return _Stage(self, _STAGES[name])

    def queue(self):
        """Begins the queued stage; `end()` of what it gives ends it, on any thread."""
        return _Queued(agent.queue_begin(name_of(self.link), self._words(QUEUED)))

    def discard(self):
        """The message and the work that made it are thrown away."""
        agent.discard(name_of(self.link), self._words(APPLY))

    def fault(self, kind, bytes=0):
        """What went wrong on the wire: retry, corrupt, duplicate or lost."""
        agent.fault(name_of(self.link), _FAULTS[kind], self.source, self.destination, self.sequence,
                    bytes)

    def _words(self, stage):
        wire_bytes = self.raw_bytes if self.wire_bytes is None else self.wire_bytes
        return words(stage, self.source, self.destination, self.sequence, self.version,
                     self.applied_version, self.raw_bytes, wire_bytes, self.step, self.micro_batch,
                     name_of(self.codec) if self.codec else 0)


class _Stage:
    __slots__ = ("_transfer", "_stage")

    def __init__(self, transfer, stage):
        self._transfer, self._stage = transfer, stage

    def __enter__(self):
        own.marks()
        agent.begin(TRANSFER, name_of(self._transfer.link))
        return self._transfer

    def __exit__(self, *_):
        agent.end_transfer(self._transfer._words(self._stage))


class _Queued:
    __slots__ = ("_id",)

    def __init__(self, id):
        self._id = id

    def end(self):
        agent.queue_end(self._id)
