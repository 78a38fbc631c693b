# Data sets for the tests of worker processes. A separate module without torch, so that spawned workers start fast.
import errno
import os
import random
import signal
import time

import numpy as np


class Numbers:
    """(its index, three random numbers of the global generators) for each of `size` samples."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index, np.array([random.random(), np.random.rand(), np.random.randint(1 << 30)])


class Failing(Numbers):
    """The samples of `bad` raise."""

    def __init__(self, size, bad, error=ValueError("no such\nsample")):
        super().__init__(size)
        self.bad = bad
        self.error = error

    def __getitem__(self, index):
        if index in self.bad:
            raise self.error
        return index


class Broken(Numbers):
    """Its code is at fault, so every sample raises."""

    reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return index.shape


class Unlucky(Numbers):
    """A quarter of the draws raise, and not the same samples in each epoch."""

    def __getitem__(self, index):
        if (random.random() + index / 7) % 1 < 0.25:
            raise ValueError("no crop has a box")
        return index


class Unsendable(Exception):
    """Cannot be made from its message alone, so pickle cannot restore it."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Ending(Numbers):
    """Ends its process at sample `at`, by a signal or with a status."""

    def __init__(self, size, at, signal_number=0):
        super().__init__(size)
        self.at = at
        self.signal_number = signal_number

    def __getitem__(self, index):
        if index == self.at and self.signal_number:
            os.kill(os.getpid(), self.signal_number)
        if index == self.at:
            os._exit(3)
        return index


class Slow(Numbers):
    def __init__(self, size, seconds):
        super().__init__(size)
        self.seconds = seconds

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return index, np.full(1000, index)


class Lines:
    """A stream that each process reads as a whole."""

    def __init__(self, size, error_at=None):
        self.size = size
        self.error_at = error_at
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        for i in range(self.size):
            if i == self.error_at:
                raise ValueError("a broken line")
            yield {"line": 100 * self.epoch + i, "text": f"line {i}", "random": random.random()}


def collate_randomly(samples):
    return random.random(), [index for index, _ in samples]


DISK = OSError(errno.EIO, os.strerror(errno.EIO))
ABSENT = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "a.jpg")
KILL = signal.SIGKILL
