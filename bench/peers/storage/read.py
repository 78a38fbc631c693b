"""One measured reading by a Python library, for `stoker bench storage --peers`: every record's bytes, shuffled, by
several processes, each byte hashed. Prints one line of JSON: samples, seconds, and the sum of the hashes.

Each process opens the data itself and takes every N-th position of one permutation; the clock runs from the common
start to the end of the last process. A first pass warms up, and a second one gives the number of passes that last long
enough. With --cold there are no such passes, and one pass is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import xxhash

ENOUGH = 0.3  # shortest measurement, seconds
hash_of = xxhash.xxh3_64_intdigest

# Given the folder and a process's indices, each reader gives back what sums up the hashes of those records.
Pass = Callable[[list], int]


def files(folder: Path) -> Pass:
    """open and read, by names that were listed before."""
    names = sorted((str(path) for path in (folder / "folder").glob("*/*")), key=os.path.basename)

    def run(indices: list) -> int:
        total = 0
        for index in indices:
            with open(names[index], "rb", buffering=0) as file:
                total += hash_of(file.read())
        return total

    return run


def lmdb(folder: Path) -> Pass:
    """A read-only environment without locks, with read-ahead; one transaction, buffers instead of copies."""
    import lmdb

    path = str(folder / "records.lmdb")
    environment = lmdb.open(path, subdir=False, readonly=True, lock=False, readahead=True, create=False)
    transaction = environment.begin(buffers=True)
    keys = [f"{index:08d}".encode() for index in range(environment.stat()["entries"])]

    def run(indices: list) -> int:
        total = 0
        for index in indices:
            total += hash_of(transaction.get(keys[index]))
        return total

    return run


def h5py(folder: Path) -> Pass:
    """read_direct of one row of a contiguous dataset into memory that is reused."""
    import h5py

    dataset = h5py.File(folder / "records.h5", "r")["images"]
    row = np.empty(dataset.shape[1:], np.uint8)

    def run(indices: list) -> int:
        total = 0
        for index in indices:
            dataset.read_direct(row, np.s_[index])
            total += hash_of(row.data)
        return total

    return run


def npy(folder: Path) -> Pass:
    """np.load with mmap_mode="r"; each row is copied out of the map."""
    images = np.load(folder / "records.npy", mmap_mode="r")
    row = np.empty(images.shape[1:], np.uint8)

    def run(indices: list) -> int:
        total = 0
        for index in indices:
            row[:] = images[index]
            total += hash_of(row.data)
        return total

    return run


def shards_of(folder: Path) -> list[str]:
    return sorted(str(path) for path in (folder / "shards").glob("*.tar"))


def webdataset_indexed(folder: Path) -> Pass:
    """pread of each member at a place known before, without the library: possible with an index."""
    shards = [os.open(name, os.O_RDONLY) for name in shards_of(folder)]
    places = [(shards[shard], size, offset) for shard, offset, size in np.load(folder / "index.npy").tolist()]

    def run(indices: list) -> int:
        total = 0
        for index in indices:
            total += hash_of(os.pread(*places[index]))
        return total

    return run


def webdataset(folder: Path) -> Pass:
    """The library as it is meant: whole shards in a shuffled order, one after the other, a shuffle buffer of 1,000.
    The indices only say whose turn it is: process n of N takes every N-th shard."""
    import webdataset

    def run(place: list) -> int:
        worker, workers = place
        own = shards_of(folder)[worker::workers]
        total = 0
        for sample in webdataset.WebDataset(own, shardshuffle=len(own) or False, empty_check=False).shuffle(1000):
            total += hash_of(sample["npy"])
        return total

    return run


READERS = {
    "files": files,
    "lmdb": lmdb,
    "h5py": h5py,
    "npy": npy,
    "webdataset-indexed": webdataset_indexed,
    "webdataset": webdataset,
}


def serve(arguments: argparse.Namespace, worker: int, pipe) -> None:
    """A process: for each number of passes received, sends begin, end and sum."""
    run = READERS[arguments.reader](arguments.folder)
    epoch = 0
    pipe.send("ready")
    while (count := pipe.recv()) > 0:
        passes = []
        for _ in range(count):
            epoch += 1
            order = np.random.default_rng(epoch).permutation(arguments.records)
            whole = arguments.reader == "webdataset"
            passes.append([worker, arguments.workers] if whole else order[worker :: arguments.workers].tolist())
        pipe.send("ordered")
        pipe.recv()
        begin = time.perf_counter()
        total = sum(run(one) for one in passes)
        pipe.send((begin, time.perf_counter(), total))


def measure(pipes: list, count: int) -> tuple[float, int]:
    for pipe in pipes:
        pipe.send(count)
    for pipe in pipes:
        pipe.recv()
    for pipe in pipes:
        pipe.send("begin")
    begins, ends, sums = zip(*(pipe.recv() for pipe in pipes), strict=True)
    return max(ends) - min(begins), sum(sums) % 2**64


def started(arguments: argparse.Namespace) -> Iterator:
    context = multiprocessing.get_context("fork")
    for worker in range(arguments.workers):
        ours, theirs = context.Pipe()
        context.Process(target=serve, args=(arguments, worker, theirs), daemon=True).start()
        theirs.close()  # so that a process which dies is an end of file here
        yield ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cold", action="store_true")
    arguments = parser.parse_args()
    pipes = list(started(arguments))
    for pipe in pipes:
        pipe.recv()
    count = 1
    if not arguments.cold:
        measure(pipes, 1)
        seconds, _ = measure(pipes, 1)
        count = max(1, math.ceil(ENOUGH / seconds))
    seconds, total = measure(pipes, count)
    print(json.dumps({"samples": count * arguments.records, "passes": count, "seconds": seconds, "sum": total}))
    for pipe in pipes:
        pipe.send(0)


if __name__ == "__main__":
    main()
