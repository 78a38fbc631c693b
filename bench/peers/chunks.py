"""Photographs as MDS or as LitData, written and read by those libraries: the peers of bench/chunks.py, which starts this
in an environment that has one of them. `write` makes the data; `read` answers each line on its input with the seconds
of one epoch.

    python bench/peers/chunks.py write mds photos data 1000
    python bench/peers/chunks.py read mds data photos 64 2
"""

import shutil
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2


def photographs(folder, count):
    files = sorted(Path(folder).glob("*/*.*"))
    classes = sorted({file.parent.name for file in files})
    for number in range(count):
        file = files[number % len(files)]
        yield file.read_bytes(), classes.index(file.parent.name)


def write_mds(source, folder, count):
    from streaming import MDSWriter

    for name, encoding in (("photos", "jpeg"), ("bytes", "bytes")):
        with MDSWriter(out=str(Path(folder) / name), columns={"data": encoding, "label": "int"}) as out:
            for data, label in photographs(source, count):
                out.write({"data": data, "label": label})


def write_litdata(source, folder, count):
    from litdata.streaming.writer import BinaryWriter
    from litdata.types import Jpeg

    for name, wrap in (("photos", lambda data: Jpeg(bytes=data)), ("bytes", lambda data: data)):
        (Path(folder) / name).mkdir(parents=True)
        writer = BinaryWriter(str(Path(folder) / name), chunk_bytes="64MB")
        for number, (data, label) in enumerate(photographs(source, count)):
            writer[number] = (wrap(data), label)
        writer.done()
        writer.merge(1)


class Ops:
    """The ops for images of Pillow and for tensors: one library returns those, the other these."""

    def __init__(self):
        self.geometry = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()])
        self.rest = v2.Compose(
            [
                v2.ToImage(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        )

    def __call__(self, image):
        if isinstance(image, torch.Tensor):
            image = image.expand(3, -1, -1) if image.shape[0] == 1 else image
        else:
            image = image.convert("RGB")
        return self.rest(self.geometry(image))


def mds_loader(folder, decode, batch, workers):
    from streaming import StreamingDataset

    class Photographs(StreamingDataset):
        def __getitem__(self, at):
            sample = super().__getitem__(at)
            return (ops(sample["data"]) if decode else sample["data"]), sample["label"]

    ops = Ops()
    data = Photographs(local=folder, shuffle=True, batch_size=batch)
    return DataLoader(data, batch, num_workers=workers, persistent_workers=True)


def litdata_loader(folder, decode, batch, workers):
    from litdata import StreamingDataLoader, StreamingDataset

    class Photographs(StreamingDataset):
        def __getitem__(self, at):
            data, label = super().__getitem__(at)
            return (ops(data) if decode else bytes(data)), label

    ops = Ops()
    data = Photographs(folder, shuffle=True)
    return StreamingDataLoader(data, batch_size=batch, num_workers=workers, persistent_workers=True)


def read(loader):
    for _ in sys.stdin:
        start = time.perf_counter()
        samples = sum(len(batch[1]) for batch in loader)
        print(samples, time.perf_counter() - start, flush=True)


def main(command, library, *arguments):
    if command == "write":
        source, folder, count = arguments
        shutil.rmtree(folder, ignore_errors=True)
        (write_mds if library == "mds" else write_litdata)(source, folder, int(count))
        return
    folder, kind, batch, workers = arguments
    make = mds_loader if library == "mds" else litdata_loader
    read(make(str(Path(folder) / kind), kind == "photos", int(batch), int(workers)))


if __name__ == "__main__":
    main(*sys.argv[1:])
