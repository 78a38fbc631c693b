"""DALI on the CPU: its decoder with the random crop built in, its antialiasing resize, crop_mirror_normalize."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from nvidia.dali import fn, pipeline_def, types

from protocol import MEAN, RATIO, SCALE, STD, Opened, Task, serve


@pipeline_def
def photos(task: Task):
    encoded, _ = fn.readers.file(file_root=str(task.data), random_shuffle=True, initial_fill=1024, name="photos")
    images = fn.decoders.image_random_crop(
        encoded, device="cpu", output_type=types.RGB, random_area=list(SCALE), random_aspect_ratio=list(RATIO)
    )
    images = fn.resize(images, size=(task.size, task.size), interp_type=types.INTERP_LINEAR, antialias=True)
    return fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=(MEAN * 255).tolist(),
        std=(STD * 255).tolist(),
        mirror=fn.random.coin_flip(),
    )


def prepare(task: Task) -> Opened:
    return Opened(task.data, None)


def batches(task: Task, _: None) -> Iterator[np.ndarray]:
    pipeline = photos(
        task, batch_size=task.batch, num_threads=task.workers, device_id=None, seed=0, prefetch_queue_depth=2
    )
    pipeline.build()
    while True:
        yield np.asarray(pipeline.run()[0].as_tensor())


serve(prepare, batches)
