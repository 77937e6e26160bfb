"""Marks for jobs that Poolscope watches (docs/python.md).

    import poolscope
    poolscope.worker("compute", rank, "compute")
    with poolscope.work("forward", step=3, version=3):
        ...

Where nobody watches, every call does nothing.
"""

from .interface import NO_VALUE
from .messages import Transfer
from .ranges import (FIXED, PER_MICRO_BATCH, PER_SHARD, blocked_link, host, input, other_work,
                     phase, range, wait_credit, wait_link, wait_peer, work)
from .run import Counter, attached, link, setting, step, worker

__all__ = ["NO_VALUE", "FIXED", "PER_MICRO_BATCH", "PER_SHARD", "Counter", "Transfer", "attached",
           "blocked_link", "host", "input", "link", "other_work", "phase", "range", "setting",
           "step", "wait_credit", "wait_link", "wait_peer", "work", "worker"]
