"""Makes the records of `stoker bench storage --peers` with the formats' own Python libraries, so that Stoker and they
read the same files; prints nothing. Beside the records lie made.json, with the sums that reading must give, and
index.npy: shard, offset and size of each .npy member of the shards."""

from __future__ import annotations

import argparse
import io
import json
import pickle
import tarfile
from collections import Counter
from pathlib import Path

import h5py
import lmdb
import numpy as np
import webdataset
import xxhash

CLASSES = 10
SHARDS = 8
CHUNK = 4096


def hash_of(content: bytes | memoryview) -> int:
    return xxhash.xxh3_64_intdigest(content)


def chunks(shape: tuple[int, ...], records: int):
    """First index and images, some at a time: noise that depends on the record's number alone."""
    for first in range(0, records, CHUNK):
        count = min(CHUNK, records - first)
        yield first, np.random.default_rng(first).integers(0, 256, (count, *shape), np.uint8)


def write_arrays(folder: Path, shape: tuple[int, ...], records: int, sums: Counter) -> None:
    images = np.lib.format.open_memmap(folder / "records.npy", "w+", np.uint8, (records, *shape))
    with h5py.File(folder / "records.h5", "w") as file:
        dataset = file.create_dataset("images", (records, *shape), np.uint8)  # contiguous
        file["labels"] = np.arange(records) % CLASSES
        for first, some in chunks(shape, records):
            images[first : first + len(some)] = some
            dataset[first : first + len(some)] = some
            sums["pixels"] += sum(hash_of(image.data) for image in some)
    images.flush()


def write_files(folder: Path, shape: tuple[int, ...], records: int, sums: Counter) -> None:
    grey = len(shape) == 2
    header = f"P{5 if grey else 6}\n{shape[1]} {shape[0]}\n255\n".encode()
    for label in range(CLASSES):
        (folder / f"folder/{label}").mkdir(parents=True)
    for first, some in chunks(shape, records):
        for index, image in enumerate(some, first):
            content = header + image.tobytes()
            path = folder / f"folder/{index % CLASSES}/{index:08d}.{'pgm' if grey else 'ppm'}"
            path.write_bytes(content)
            sums["folder"] += hash_of(content)


def write_lmdb(folder: Path, shape: tuple[int, ...], records: int, sums: Counter) -> None:
    size = 2 * records * (int(np.prod(shape)) + 8192) + (1 << 24)
    with lmdb.open(str(folder / "records.lmdb"), subdir=False, map_size=size, sync=False) as environment:
        for first, some in chunks(shape, records):
            with environment.begin(write=True) as transaction:
                for index, image in enumerate(some, first):
                    value = pickle.dumps({"image": image, "label": index % CLASSES})
                    transaction.put(f"{index:08d}".encode(), value, append=True)
                    sums["lmdb"] += hash_of(value)
        environment.sync(True)


def npy(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, image)
    return file.getvalue()


def write_shards(folder: Path, shape: tuple[int, ...], records: int, sums: Counter) -> None:
    (folder / "shards").mkdir()
    names = [folder / f"shards/records-{shard:06d}.tar" for shard in range(SHARDS)]
    writers = [webdataset.TarWriter(str(name)) for name in names]
    for first, some in chunks(shape, records):
        for index, image in enumerate(some, first):
            content = npy(image)
            sample = {"__key__": f"{index:08d}", "npy": content, "cls": index % CLASSES}
            writers[index * SHARDS // records].write(sample)
            sums["webdataset"] += hash_of(content)
    for writer in writers:
        writer.close()
    index = []
    for shard, name in enumerate(names):
        with tarfile.open(name) as archive:
            index += [(shard, one.offset_data, one.size) for one in archive if one.name.endswith(".npy")]
    np.save(folder / "index.npy", np.array(index, np.int64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--shape", type=int, nargs="+", required=True, help="height, width and, if not 1, channels")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    sums: Counter = Counter()
    for write in (write_arrays, write_files, write_lmdb, write_shards):
        write(arguments.folder, tuple(arguments.shape), arguments.records, sums)
    made = {"maker": "python", "records": arguments.records, "sums": {name: sums[name] % 2**64 for name in sums}}
    (arguments.folder / "made.json").write_text(json.dumps(made, indent=2) + "\n")


if __name__ == "__main__":
    main()
