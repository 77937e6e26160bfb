"""A stand-in for PyTorch: as much of it as `python -m poolscope` marks, with its names and its
ways of calling, for tests where the real one is not installed. Work is a sleep."""

import time

from . import autograd


class _Device:
    type = "cpu"


class Tensor:
    """A scalar that remembers how long its backward takes."""

    device = _Device()

    def __init__(self, value, seconds=0.0):
        self.value, self.seconds = value, seconds

    def backward(self):
        autograd.backward(self)

    def numel(self):
        return 1

    def detach(self):
        return self

    def __float__(self):
        if self.value is None:
            raise RuntimeError("a tensor without data, as under a tracer")
        return self.value


def loss(value, forward_seconds, backward_seconds):
    time.sleep(forward_seconds)
    return Tensor(value, backward_seconds)
