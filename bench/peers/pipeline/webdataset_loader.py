"""WebDataset: tar shards, resampled without an end, a shuffle buffer, decoding with OpenCV, batches made in the
workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
import webdataset as wds
from torch import Tensor

from opencv_ops import load
from protocol import Opened, Task, images_of, serve

SHARDS = 8


def write_shards(task: Task) -> Path:
    folder = task.work / "webdataset"
    folder.mkdir()
    paths, labels = images_of(task.data)
    for shard in range(SHARDS):
        with wds.TarWriter(str(folder / f"{shard:06}.tar")) as sink:
            for index in range(shard, len(paths), SHARDS):
                sample = {"__key__": f"{index:06}", "jpg": Path(paths[index]).read_bytes(), "cls": labels[index]}
                sink.write(sample)
    return folder


def prepare(task: Task) -> Opened:
    folder = task.work / "webdataset"
    return Opened(folder if folder.exists() else write_shards(task), folder)


def batches(task: Task, folder: Path) -> Iterator[Tensor]:
    data = (
        wds.WebDataset(sorted(str(path) for path in folder.iterdir()), resampled=True, shardshuffle=False)
        .shuffle(500)
        .to_tuple("jpg", "cls")
        .map_tuple(lambda content: torch.from_numpy(load(content, task.size)), int)
        .batched(task.batch, partial=False)
    )
    for images, _ in wds.WebLoader(data, batch_size=None, num_workers=task.workers):
        yield images


serve(prepare, batches)
