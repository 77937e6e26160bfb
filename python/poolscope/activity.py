"""What a thread that says nothing itself is doing, as far as what it calls tells."""

import atexit
import os
import sys
import threading

from .interface import NO_VALUE, agent, encoded, name_of
from .ranges import FIXED, HOST, INPUT, PER_MICRO_BATCH, WAIT_LINK, WAIT_PEER, WORK

SCRIPT, FORWARD, BACKWARD, OPTIMIZER = "script", "forward", "backward", "optimizer"
_begin, _end_work = agent.begin, agent.end_work
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


class Activity:
    """A thread's stack of what it does, of which the top alone is an open range: work ends where a
    wait begins. Lowest lies, on a worker's thread, the script's own work, under the name of what
    it does next."""

    __slots__ = ("stack", "own")

    def __init__(self):
        self.stack = []  # (category, name, its number, key)
        self.own = False  # the thread marks itself: nothing is added

    def enter(self, category, name, key=None):
        if self.stack:
            self._close()
        number = name_of(name)
        self.stack.append((category, name, number, key))
        _begin(category, number)

    def leave(self, then=None):
        """Ends what was entered last; `then`: what the script does next."""
        stack = self.stack
        if not stack:
            return
        self._close()
        stack.pop()
        if stack:
            if then and len(stack) == 1:
                stack[0] = (work(), then, name_of(then), None)
            _begin(stack[-1][0], stack[-1][2])

    def forget(self, key):
        """Leaves what was entered with the key, and what was entered since, if it never was."""
        while any(entry[3] == key for entry in self.stack):
            self.leave()

    def waits_matter(self):
        """Whether a wait here is a worker's, and not part of what it waits for already."""
        return bool(self.stack) and self.stack[-1][0] not in (INPUT, WAIT_PEER, WAIT_LINK)

    def _close(self):
        category, name, _, _ = self.stack[-1]
        if category == WORK:
            step = progress.step
            if name == OPTIMIZER:
                _end_work(step, NO_VALUE, step + 1, FIXED, NO_VALUE)
            elif name == SCRIPT:
                _end_work(step, NO_VALUE, step, FIXED, NO_VALUE)
            else:
                _end_work(step, progress.micro_batches, step, PER_MICRO_BATCH, NO_VALUE)
        elif category == WAIT_LINK:
            agent.end_wait(NO_VALUE, NO_VALUE)
        else:
            agent.end()


class Progress:
    """Steps of this process. They are those of the first optimizer that steps, and number 0 alone
    tells them: the update is one, however many processes make it."""

    def __init__(self):
        self.step = self.micro_batches = 0
        self.losses = []
        self.leader = None
        self.told = True

    def backward(self, loss):
        self.micro_batches += 1
        if loss is not None:
            self.losses.append(loss)

    def update(self, optimizer):
        if self.leader is None:
            self.leader, self.told = id(optimizer), rank() == 0
        if self.leader != id(optimizer):
            return
        if self.told:
            loss = sum(self.losses) / len(self.losses) if self.losses else float("nan")
            agent.step(name_of("step"), self.step, self.step + 1, 0, self.micro_batches, loss)
        self.step += 1
        self.micro_batches, self.losses = 0, []


progress = Progress()
_threads = threading.local()
_worker = {"pool": "trainer", "role": "trainer", "thread": None}


def current():
    """The calling thread's activity."""
    try:
        return _threads.activity
    except AttributeError:
        _threads.activity = Activity()
        return _threads.activity


def choose(pool, role):
    _worker.update(pool=pool, role=role)


def chosen():
    return _worker["pool"], _worker["role"]


def become_worker():
    """The calling thread is the process's worker, if it is the first that asks."""
    if _worker["thread"] is not None:
        return
    _worker["thread"] = threading.get_ident()
    agent.worker(encoded(_worker["pool"]), rank(), encoded(_worker["role"]))
    current().enter(work(), SCRIPT)
    if threading.current_thread() is threading.main_thread():
        atexit.register(leave_alone)


def leave_alone():
    """The calling thread marks itself from here on."""
    activity = current()
    while activity.stack:
        activity.leave()
    activity.own = True


def rank():
    """The process's number among those that train together: of torch.distributed, of its launcher,
    or among its parent's children by multiprocessing."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    for name in _RANKS:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    multiprocessing = sys.modules.get("multiprocessing.process")
    identity = getattr(multiprocessing and multiprocessing.current_process(), "_identity", ())
    return identity[-1] - 1 if identity else 0


def work():
    """On a job with a GPU the host's part feeds a device, whose kernels are the work."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return HOST if cuda is not None and cuda.is_initialized() else WORK


def _in_child():
    _threads.activity = Activity()
    _worker["thread"] = None
    progress.__init__()


os.register_at_fork(after_in_child=_in_child)
