import queue
import threading
import time


class _BaseDataLoaderIter:
    """Batches come through a queue from a thread, as with num_workers."""

    def __init__(self, loader):
        self.queue = queue.Queue(2)
        threading.Thread(target=self._load, args=(loader,), daemon=True).start()

    def _load(self, loader):
        for i in range(loader.batches):
            time.sleep(loader.seconds)
            self.queue.put(i)
        self.queue.put(None)

    def __next__(self):
        batch = self.queue.get()
        if batch is None:
            raise StopIteration
        return batch


class _ThreadIter(_BaseDataLoaderIter):
    def __iter__(self):
        return self


class DataLoader:
    def __init__(self, batches, seconds):
        self.batches, self.seconds = batches, seconds

    def __iter__(self):
        return _ThreadIter(self)
