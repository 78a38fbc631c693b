"""Makes small data sets of drawn photos (a folder, stk with dct, WebDataset shards, LMDB) and reads each for many
epochs with many workers: memory and descriptors have to stop growing. --python reads with stoker.Loader instead: the
folder, and a Python data set with forked and with spawned workers; there threads, processes and shared memory count, too,
and nothing may be left behind. Exit status 1 where something grows."""

from __future__ import annotations

import argparse
import gc
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

KEPT_FROM = 5  # of ten readings: those before are a warm-up
LEAK = 4  # rises in the last five steps
MOST_GROWTH = 1.0  # MB in 100 epochs
FEWEST = 100  # epochs, below which memory says nothing


def make(stoker: Path, folder: Path, count: int) -> list[Path]:
    def run(*words: object) -> None:
        subprocess.run([str(stoker), *map(str, words)], check=True, stdout=subprocess.DEVNULL)

    photos = folder / "photos"
    run("synth", "photos", photos, "--count", count)
    run("pack", photos, folder / "photos.stk", "--codec", "dct")
    run("pack", photos, folder / "photos-{000000..}.tar")
    run("pack", photos, folder / "photos.lmdb")
    return [photos, folder / "photos.stk", folder / "photos-000000.tar", folder / "photos.lmdb"]


class Rows:
    """A Python data set: arrays, numbers and texts."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, object]:
        import numpy

        return {"row": numpy.full(20_000, index), "label": index, "text": str(index)}


@dataclass
class Use:
    """The resources that the loader's processes hold."""

    threads: int
    processes: int
    descriptors: int
    mapped: int  # areas of shared memory
    named: int  # files in /dev/shm that its processes have mapped, now or before
    megabytes: float

    @property
    def counts(self) -> tuple[int, ...]:
        return self.threads, self.processes, self.descriptors, self.mapped, self.named


def use_now() -> Use:
    """Use by this process and its children. A worker may have a file open now and then: the least of several looks."""
    looks = [_look() for _ in range(5)]
    least = map(min, zip(*(look.counts for look in looks)))
    return Use(*least, megabytes=min(look.megabytes for look in looks))


def _look() -> Use:
    pids = [os.getpid(), *_children()]
    maps = "".join(_text(f"/proc/{pid}/maps") for pid in pids)
    pages = sum(int((_text(f"/proc/{pid}/statm").split() or [0, 0])[1]) for pid in pids)
    return Use(
        threads=sum(_entries(f"/proc/{pid}/task") for pid in pids),
        processes=len(pids),
        descriptors=sum(_entries(f"/proc/{pid}/fd") for pid in pids),
        mapped=maps.count("/memfd:stoker"),
        named=_named(maps),
        megabytes=pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
    )


_seen: set[str] = set()  # other programs also have files there


def _named(maps: str) -> int:
    _seen.update(re.findall(r"/dev/shm/(\S+)", maps))
    return sum(Path("/dev/shm", name).exists() for name in _seen)


def _children() -> list[int]:
    """Zombies too; without multiprocessing's tracker, which stays."""
    listed = [_text(f"/proc/self/task/{task}/children").split() for task in os.listdir("/proc/self/task")]
    pids = [int(pid) for part in listed for pid in part]
    return [pid for pid in pids if "resource_tracker" not in _text(f"/proc/{pid}/cmdline")]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:  # a process or thread that has ended
        return ""


def _entries(folder: str) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0


def loader_of(source: object, workers: int, method: str | None) -> Iterable[object]:
    import stoker

    options = {"multiprocessing_context": method} if method else {"ops": [stoker.transforms.RandomResizedCrop(64)]}
    return stoker.Loader(source, 8, workers=workers, **options)


def soak_loader(name: str, source: object, epochs: int, workers: int, method: str | None) -> bool:
    """Whether nothing grows over the epochs and nothing stays behind."""
    first = use_now()
    loader = loader_of(source, workers, method)
    uses = []
    for epoch in range(1, epochs + 1):
        for batch in loader:
            del batch
        if epoch % max(1, epochs // 10) == 0:
            uses.append(use_now())
    print(f"{name}: {epochs} epochs, {workers} workers: {uses[-1]}", flush=True)
    before, after = uses[KEPT_FROM - 1], uses[-1]
    # A busy machine may take one more batch or thread now and then; a leak grows from reading to reading.
    kept = [use.counts for use in uses[KEPT_FROM - 1 :]]
    rises = [sum(b > a for a, b in zip(count, count[1:])) for count in zip(*kept)]
    growth = 100 * (after.megabytes - before.megabytes) / (epochs * (len(uses) - KEPT_FROM) / len(uses))
    steady = max(rises) < LEAK and (epochs < FEWEST or growth < MOST_GROWTH)
    if not steady:
        print(f"  grows: {before} -> {after}, {growth:+.2f} MB in 100 epochs")
    del loader
    gc.collect()
    left = use_now()
    clean = all(b <= a for a, b in zip(first.counts, left.counts))
    if not clean:
        print(f"  leaves behind: {first} -> {left}")
    return steady and clean


def soak_python(photos: Path, epochs: int, workers: int) -> bool:
    kinds = [("folder", photos, None), ("forked workers", Rows(), "fork"), ("spawned workers", Rows(), "spawn")]
    for _, source, method in kinds:
        list(loader_of(source, 1, method))  # torch and multiprocessing's tracker stay from the first use on
    gc.collect()
    steady = [soak_loader(name, source, epochs, workers, method) for name, source, method in kinds]
    print("steady" if all(steady) else "FAILED")
    return all(steady)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build/release/bin"), help="folder of stoker and soak")
    parser.add_argument("--count", type=int, default=200, help="photos")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--python", action="store_true", help="with stoker.Loader: PYTHONPATH names the built package")
    arguments = parser.parse_args()
    if arguments.epochs < 10:
        parser.error("--epochs: expected at least 10")
    with tempfile.TemporaryDirectory(prefix="stoker-soak-") as folder:
        data = make(arguments.build.resolve() / "stoker", Path(folder), arguments.count)
        if arguments.python:
            return 0 if soak_python(data[0], arguments.epochs, arguments.workers) else 1
        numbers = ["--epochs", arguments.epochs, "--workers", arguments.workers]
        command = [arguments.build.resolve() / "soak", *numbers, *data]
        return subprocess.run([str(word) for word in command]).returncode


if __name__ == "__main__":
    sys.exit(main())
