"""What is said of the run: who works, over which links, how far it is."""

from .interface import agent, encoded, name_of, own


def attached():
    """Whether anything is recorded. Guard only what prepares marks, never the marks."""
    return agent.attached() != 0


def worker(pool, index=0, role="other"):
    """The calling thread does the work of this worker of the pool."""
    own.marks()
    agent.worker(encoded(pool), index, encoded(role))


def link(name, source, destination, capacity=0, lanes=1):
    """A link from one pool to another; capacity in messages, 0 where unknown."""
    agent.link(encoded(name), encoded(source), encoded(destination), capacity, lanes)


def setting(key, value):
    """A knob or fact of the run, for the what-if."""
    agent.setting(encoded(key), encoded(str(value)))


def step(number, version=None, tokens=0, micro_batches=1, loss=float("nan")):
    """One optimizer update was made; once per update, whichever worker says it."""
    agent.step(name_of("step"), number, number + 1 if version is None else version, tokens,
               micro_batches, loss)


class Counter:
    """A number over time: "<link>.depth", "<link>.credits", "<pool>.version", "loss", ..."""

    __slots__ = ("_id",)

    def __init__(self, name):
        self._id = agent.counter(encoded(name))

    def sample(self, value):
        agent.sample(self._id, value)
