# A watch's questions and measurements of loading: clocks of workers on a full disk, samplers and batches of any kind,
# decoders of images, and the precision of matrix products.
import errno
import os
import time
from collections import Counter

import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
import torch
from stoker.watch.counters import CounterReader
from stoker.watch.fetch_clock import FIELDS, WorkerTarget
from stoker.watch.seen import LoaderNote, Seen
from test_watch_program import DATA, records, train, watched
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    get_worker_info,
)


class Slow(nn.Module):
    """A transform, as torchvision's are modules."""

    def forward(self, image):
        time.sleep(0.003)
        return image


class Transformed(Dataset):
    def __init__(self):
        self.transform = Slow()

    def __len__(self):
        return len(DATA)

    def __getitem__(self, index):
        image, label = DATA[index]
        return self.transform(image), label


def test_a_transform_that_is_a_module_belongs_to_the_loader(tmp_path):
    with watched(tmp_path):
        train(nn.Linear(8, 4), DataLoader(Transformed(), batch_size=8))
    spent = Counter()
    for step in records(tmp_path, "step"):
        spent.update(step["us"])
    assert spent["wait"] > 0.9 * 3000 * len(DATA), spent  # microseconds


def test_a_worker_on_a_full_disk_runs_unwatched(tmp_path, monkeypatch):
    """Its clock is a mapped file: a store into a hole that finds no room ends the process by SIGBUS."""
    given = []
    target = WorkerTarget(str(tmp_path), lambda *args: given.append(args))

    def full(*args):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "posix_fallocate", full)
    target("kind", "data set", "tasks", "results")
    assert given == [("kind", "data set", "tasks", "results")]


class Holding(Dataset):
    """Each worker allocates 64 MiB, in addition to all that it has from the process that forked it."""

    held = b""

    def __len__(self):
        return len(DATA)

    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is not None and not self.held:
            self.held = b"1" * (64 << 20)
        return DATA[index]


def test_the_memory_of_workers_is_counted_and_what_they_share_only_once(tmp_path):
    train(nn.Linear(8, 4), DataLoader(DATA, batch_size=8))  # what PyTorch loads at the first use
    inherited = b"1" * (256 << 20)
    own = CounterReader().read([], 0).rss
    loader = DataLoader(Holding(), batch_size=8, num_workers=2, persistent_workers=True)
    with watched(tmp_path):
        train(nn.Linear(8, 4), loader)
    used = records(tmp_path, "interval")[-1]["rss_bytes"]
    assert len(inherited) < own and 120 << 20 < used - own < 240 << 20


class Drawing(Sampler):
    """Draws a new length whenever it is asked for one."""

    def __iter__(self):
        return iter(range(48))

    def __len__(self):
        return int(torch.randint(1, 48, ()))


@pytest.mark.parametrize("batched", [False, True])
def test_a_sampler_of_the_program_is_not_asked_for_its_length(tmp_path, batched):
    def draws():
        torch.manual_seed(0)
        model = nn.Linear(8, 4)
        sampler = Drawing()
        how = {"batch_sampler": BatchSampler(sampler, 8, False)} if batched else {"sampler": sampler, "batch_size": 8}
        train(model, DataLoader(DATA, **how))
        return torch.rand(3).tolist()

    plain = draws()
    with watched(tmp_path):
        assert draws() == plain
    assert "steps_per_epoch" not in records(tmp_path, "facts")[-1]["train"]


@pytest.mark.parametrize("how", [{"shuffle": True}, {}, {"batch_sampler": BatchSampler(RandomSampler(DATA), 8, True)}])
def test_samplers_of_pytorch_are(how):
    seen = Seen()
    seen.note_loader(LoaderNote(DataLoader(DATA, **({"batch_size": 8} if "batch_sampler" not in how else {}), **how)))
    assert seen.loader["steps_per_epoch"] == 6
    assert type(DataLoader(DATA).sampler) is SequentialSampler


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_batch_may_be_nested(tmp_path):
    def collate(samples):
        nested = torch.nested.nested_tensor([x[: 1 + i] for i, (x, _) in enumerate(samples)])
        return [nested, torch.tensor([y for _, y in samples])]

    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for x, y in DataLoader(DATA, batch_size=6, collate_fn=collate):
            nn.functional.cross_entropy(model(torch.nested.to_padded_tensor(x, 0.0, (6, 8))), y).backward()
            optimizer.step()
    assert [step["samples"] for step in records(tmp_path, "step")] == [6] * 8


@pytest.mark.parametrize("named", [False, True], ids=["read_image", "decode_png"])
def test_decoders_of_torchvision_are_timed_however_a_program_holds_them(tmp_path, named):
    io = pytest.importorskip("torchvision.io")
    held = {"bytes": io.read_file, "png": io.decode_png, "image": io.read_image}
    path = str(tmp_path / "one.png")
    io.write_png(torch.zeros(3, 64, 64, dtype=torch.uint8), path)

    class Images(Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, index):
            image = held["png"](held["bytes"](path)) if named else held["image"](path)
            return image[0, 0, :8].float(), index % 4

    with watched(tmp_path) as session:
        for _ in range(2):
            train(nn.Linear(8, 4), DataLoader(Images(), batch_size=8))
        sums = dict(zip(FIELDS, session._own_clock.sums))
        torch.jit.script(io.decode_png)
    assert {type(of) for of in (torch.ops.image.decode_png, torch.ops.image.decode_image)} == {type(torch.ops.aten.add)}
    assert sums["torchvision"] == 48 and 0 < sums["decode"] < sums["fetch"]
    data = records(tmp_path, "facts")[-1]["data"]
    assert data["decode"] == "torchvision" and data.get("codec") == ("png" if named else None)


@pytest.mark.parametrize("name", ["tf32", "ieee"])
def test_the_precision_of_products_may_be_set_in_the_new_way(monkeypatch, name):
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this PyTorch has the old way alone")
    before = torch.backends.cuda.matmul.fp32_precision
    seen = Seen()
    seen.device, seen.dtype = torch.device("cuda"), torch.float32
    try:
        torch.backends.cuda.matmul.fp32_precision = name
        assert seen.precision == ("tf32" if name == "tf32" else "fp32")
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


asked = get_worker_info


class Whole(IterableDataset):
    def __iter__(self):
        return iter(DATA)


def share():
    return get_worker_info()


class Divided(IterableDataset):
    def __iter__(self):
        info = share()
        yield from list(DATA)[info.id if info else 0 :: info.num_workers if info else 1]


class Batches(IterableDataset):
    def __iter__(self):
        yield from DataLoader(DATA, batch_size=6)


@pytest.mark.parametrize("dataset, samples", [(DATA, 1), (Whole(), 1), (Batches(), 6)])
def test_a_loader_may_leave_batches_to_the_data_set(tmp_path, dataset, samples):
    model, loss = nn.Linear(8, 4), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for _ in range(2):
            for x, y in DataLoader(dataset, batch_size=None):
                optimizer.zero_grad()
                loss(model(x.view(-1, 8)), y.view(-1)).backward()
                optimizer.step()
    counts = [step["samples"] for step in records(tmp_path, "step")]
    assert len(counts) == 2 * len(DATA) / samples and set(counts[4:]) == {samples}, counts
    assert records(tmp_path, "facts")[-1]["train"]["batch_size"] == samples


def test_single_samples_that_the_program_stacks(tmp_path):
    model, loss = nn.Linear(8, 4), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        images, labels = [], []
        for _ in range(4):
            for x, y in DataLoader(DATA, batch_size=None):
                images.append(x)
                labels.append(y)
                if len(images) == 12:
                    optimizer.zero_grad()
                    loss(model(torch.stack(images)), torch.stack(labels)).backward()
                    optimizer.step()
                    images, labels = [], []
    counts = [step["samples"] for step in records(tmp_path, "step")]
    facts = records(tmp_path, "facts")[-1]
    assert len(counts) == 16 and set(counts[4:]) == {12} and facts["train"]["batch_size"] == 12
    assert facts["data"]["image_bytes"] == 32


def test_a_list_of_images_is_a_batch(tmp_path):
    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Conv2d(3, 2, 3)

        def forward(self, images):
            return sum(self.head(image).mean() for image in images)

    model = Detector()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for _ in range(6):
            optimizer.zero_grad()
            model([torch.randn(3, 8, 8) for _ in range(5)]).backward()
            optimizer.step()
    assert records(tmp_path, "facts")[-1]["train"]["batch_size"] == 5


@pytest.mark.parametrize("size", [1, 12])
def test_without_a_loader_the_batch_is_what_the_model_gets(tmp_path, size):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = DATA.tensors
    with watched(tmp_path):
        for at in range(0, 48, size):
            x, y = (images[at], labels[at]) if size == 1 else (images[at : at + size], labels[at : at + size])
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert records(tmp_path, "facts")[-1]["train"]["batch_size"] == size


class Seeded(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(DATA) if info is None or info.seed else iter(())


class Renamed(IterableDataset):
    def __init__(self, inner=None):
        self.inner = inner

    def __iter__(self):
        info = asked()
        yield from list(self.inner or DATA)[:: info.num_workers if info else 1]


class Wrapping(IterableDataset):
    def __init__(self, inner):
        self.inner = inner

    def __iter__(self):
        return iter(self.inner)


@pytest.mark.parametrize("dataset, whole", [
    (Whole(), True), (Divided(), False), (DATA, False), (Seeded(), True), (Renamed(), False), (Wrapping(Divided()), False),
    (Wrapping(Whole()), True),
])
def test_a_stream_that_divides_itself_is_known(dataset, whole):
    seen = Seen()
    seen.note_loader(LoaderNote(DataLoader(dataset, batch_size=8)))
    assert seen.data.get("iterable", False) == whole
