"""SPDL: its thread pipeline over paths, decoding with OpenCV, which was faster here than its own FFmpeg decoder."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
from spdl.pipeline import PipelineBuilder

from opencv_ops import load_file
from protocol import Opened, Task, images_of, serve


def prepare(task: Task) -> Opened:
    return Opened(task.data, images_of(task.data)[0])


def endless(paths: list[str]) -> Iterator[str]:
    while True:
        yield from random.sample(paths, len(paths))


def batches(task: Task, paths: list[str]) -> Iterator[np.ndarray]:
    pipeline = (
        PipelineBuilder()
        .add_source(endless(paths))
        .pipe(lambda path: load_file(path, task.size), concurrency=task.workers)
        .aggregate(task.batch)
        .pipe(np.stack)
        .add_sink(2)
        .build(num_threads=task.workers)
    )
    with pipeline.auto_stop():
        yield from pipeline


serve(prepare, batches)
