"""Grain: a shuffled, repeated map of paths, read by threads, decoding with OpenCV."""

from __future__ import annotations

from collections.abc import Iterator

import grain
import numpy as np

from opencv_ops import load_file
from protocol import Opened, Task, images_of, serve


def prepare(task: Task) -> Opened:
    return Opened(task.data, images_of(task.data)[0])


def batches(task: Task, paths: list[str]) -> Iterator[np.ndarray]:
    samples = grain.MapDataset.source(paths).seed(0).shuffle().repeat().map(lambda path: load_file(path, task.size))
    reading = grain.ReadOptions(num_threads=task.workers, prefetch_buffer_size=2 * task.batch)
    yield from samples.to_iter_dataset(reading).batch(task.batch, drop_remainder=True)


serve(prepare, batches)
