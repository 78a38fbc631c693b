"""What every peer's script shares: its task, and being measured from outside.

A script gives serve() two functions: `prepare` opens the data (and writes it in the peer's own format first, where
it has one), `batches` yields batches without an end. Standard output carries nothing but the events "open BYTES",
"first", "begin" and "end"; each line of standard input is a number of batches to make, a round. The clock is the
driver's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)

# Taken before a round begins, so that every batch of the round is made while the clock runs.
SETTLE = 12


@dataclass
class Task:
    data: Path  # a folder of JPEGs, one subfolder a class
    work: Path  # for the script's files
    size: int
    batch: int
    workers: int
    variant: str


@dataclass
class Opened:
    path: Path  # whose bytes count as "on disk"
    data: Any  # what `batches` needs


def images_of(folder: Path) -> tuple[list[str], list[int]]:
    """Paths and class numbers, in the order of torchvision's ImageFolder."""
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    samples = [(str(path), label) for label, name in enumerate(classes) for path in sorted((folder / name).iterdir())]
    return [path for path, _ in samples], [label for _, label in samples]


def bytes_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def check(batch: Any, task: Task, channels_last: bool) -> None:
    """Refuses a batch that is not the expected one: float32 (N, 3, H, W), normalised, not all the same."""
    images = np.asarray(batch)
    wanted = (task.batch, 3, task.size, task.size)
    assert images.shape == wanted and images.dtype == np.float32, (images.shape, images.dtype, wanted)
    in_memory = images.transpose(0, 2, 3, 1) if channels_last else images
    assert in_memory.flags.c_contiguous, f"expected {'interleaved colours' if channels_last else 'planes'}"
    assert -2.2 < images.min() < -1 and 1 < images.max() < 2.7, (images.min(), images.max())
    assert len({float(image.mean()) for image in images}) > task.batch // 2, "expected different images"


def parse_task() -> Task:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--variant", default="")
    return Task(**vars(parser.parse_args()))


def serve(
    prepare: Callable[[Task], Opened], batches: Callable[[Task, Any], Iterator[Any]], channels_last: bool = False
) -> None:
    events = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not look like an event

    def say(event: str) -> None:
        print(event, file=events, flush=True)

    task = parse_task()
    opened = prepare(task)
    say(f"open {bytes_of(opened.path)}")
    feed = iter(batches(task, opened.data))
    first = next(feed)
    say("first")
    check(first, task, channels_last)
    del first
    for line in sys.stdin:
        for _ in islice(feed, SETTLE):
            pass
        say("begin")
        for _ in islice(feed, int(line)):
            pass
        say("end")
    os._exit(0)  # without waiting for workers that have no end
