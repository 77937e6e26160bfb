import os
import time

__all__ = ["all_reduce", "barrier"]


class Work:
    def wait(self):
        time.sleep(0.01)


def all_reduce(tensor, async_op=False):
    if async_op:
        return Work()
    barrier()  # one collective by another is one wait


def barrier():
    time.sleep(0.01)


def is_available():
    return True


def is_initialized():
    return "RANK" in os.environ


def get_rank():
    return int(os.environ["RANK"])
