# What stoker.Loader over a Python data set holds: loops that are left, errors and many epochs keep no worker processes,
# memory or files.
import contextlib
import gc
import os
import warnings
import weakref

import numpy as np
import pytest
from python_datasets import Failing, Numbers
from test_py_workers import children, nothing_stays  # noqa: F401

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")


def test_loops_that_are_left_and_loaders_that_are_dropped():
    loader = stoker.Loader(Numbers(40), 4, workers=2)
    for _ in range(3):
        for _ in loader:
            break
    workers = children()
    assert len(workers) == 2  # the same ones over the epochs
    list(loader)
    assert children() == workers
    del loader
    assert children() == []
    for _ in range(3):
        with pytest.raises(stoker.TooManyBadSamples):
            list(stoker.Loader(Failing(40, {30}), 4, workers=2, bad_samples=0))
    gc.collect()  # the errors' tracebacks hold the loaders
    held = next(iter(stoker.Loader(Numbers(40), 4, workers=1)))
    assert children() == [] and len(held[0]) == 4


def test_an_error_leaves_no_cycle_that_keeps_the_workers():
    options = [
        {"bad_samples": 0},
        {"bad_samples": 1},
        {"collate_fn": no_batch},
    ]
    list(stoker.Loader(Numbers(4), 2, workers=0))  # imports torch, which leaves cycles
    gc.collect()
    gc.disable()
    try:
        for workers in (0, 2):
            for given in options:
                loader = stoker.Loader(Fresh(40), 4, workers=workers, **given)
                with contextlib.suppress(stoker.TooManyBadSamples, ZeroDivisionError), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    list(loader)
                gone = weakref.ref(loader)
                del loader
                assert gone() is None and children() == [], (workers, given)
    finally:
        gc.enable()


class Fresh(Numbers):
    """Raises a new error for each bad sample."""

    def __getitem__(self, index):
        if index in (30, 31):
            raise ValueError(index)
        return index


def no_batch(samples):
    raise ZeroDivisionError


def resident_mb(process):
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_200_epochs_take_no_more_memory_and_files():
    data = [np.full((16, 16), i) for i in range(16)]
    loader = stoker.Loader(data, 4, workers=2)

    def used():
        processes = [os.getpid(), *children()]
        return [resident_mb(process) for process in processes], [len(os.listdir(f"/proc/{process}/fd")) for process in processes]

    for _ in range(30):
        list(loader)
    memory, files = used()
    for _ in range(200):
        for batch in loader:
            batch.sum()
    memory_after, files_after = used()
    assert all(after - before < 10 for before, after in zip(files, files_after)), (files, files_after)
    assert all(after - before < 3 for before, after in zip(memory, memory_after)), (memory, memory_after)
    loader.close()
