"""Marks in PyTorch, made by the functions that every job calls; each is set as its module is
imported, early or late."""

import functools

from .activity import (BACKWARD, FORWARD, OPTIMIZER, SCRIPT, become_worker, current, progress,
                       work)
from .ranges import INPUT, WAIT_PEER

_COLLECTIVES = (
    "all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "all_gather",
    "all_gather_into_tensor", "all_gather_coalesced", "reduce_scatter", "reduce_scatter_tensor",
    "gather", "scatter", "all_to_all", "all_to_all_single", "barrier", "monitored_barrier",
    "send", "recv", "all_gather_object", "broadcast_object_list")


def _optimizer(module):
    def before(optimizer, *_):
        activity = current()
        if activity.own:
            return
        become_worker()
        activity.forget(id(optimizer))  # a step of it that an exception ended
        activity.enter(work(), OPTIMIZER, id(optimizer))

    def after(optimizer, *_):
        activity = current()
        if activity.own:
            return
        activity.leave(then=SCRIPT)
        progress.update(optimizer)

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)


def _autograd(module):
    backward = module.backward

    @functools.wraps(backward)
    def marked(tensors, *arguments, **named):
        activity = current()
        if activity.own:
            return backward(tensors, *arguments, **named)
        become_worker()
        activity.enter(work(), BACKWARD)
        try:
            return backward(tensors, *arguments, **named)
        finally:
            activity.leave(then=SCRIPT)
            progress.backward(_loss(tensors))

    module.backward = marked


def _loss(tensors):
    """The value of a scalar in the host's memory; None where it is none, where a device would have
    to be waited for, and where there is no value yet (tracing)."""
    tensor = tensors[0] if isinstance(tensors, (list, tuple)) and len(tensors) == 1 else tensors
    try:
        if tensor.device.type == "cpu" and tensor.numel() == 1:
            return float(tensor.detach())
    except Exception:  # whatever a tensor may say: the job's backward has gone well
        pass
    return None


def _dataloader(module):
    iterator = module._BaseDataLoaderIter
    following = iterator.__next__

    @functools.wraps(following)
    def marked(self):
        activity = current()
        if activity.own:
            return following(self)
        become_worker()
        activity.enter(INPUT, "DataLoader")
        then = SCRIPT
        try:
            batch = following(self)
            then = FORWARD
            return batch
        finally:
            activity.leave(then)

    iterator.__next__ = marked


def _waiting(function, name):
    @functools.wraps(function)
    def marked(*arguments, **named):
        activity = current()
        if not activity.waits_matter():
            return function(*arguments, **named)
        activity.enter(WAIT_PEER, name)
        try:
            return function(*arguments, **named)
        finally:
            activity.leave()

    return marked


def _distributed(module):
    for name in _COLLECTIVES:
        if hasattr(module, name):
            setattr(module, name, _waiting(getattr(module, name), name))
    if hasattr(module, "Work"):
        module.Work.wait = _waiting(module.Work.wait, "wait")


MARKS = {
    "torch.optim.optimizer": _optimizer,
    "torch.autograd": _autograd,
    "torch.utils.data.dataloader": _dataloader,
    "torch.distributed.distributed_c10d": _distributed,
}
