# `python -m stoker watch` of a program that waits for an ImageFolder says what stoker.Loader gives of the same images.
import json

import numpy as np
import pytest
from PIL import Image
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
)
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
import stoker
from stoker.watch.own_rate import image_source, measure
from stoker.watch.seen import LoaderNote, Seen
from test_watch import Runs
from test_watch_program import train
from test_watch_program import watched as watched_here

# Each crop is made twenty times, so that stoker.Loader gives more on any machine.
SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

torch.set_num_threads(1)
crop = T.RandomResizedCrop.forward
T.RandomResizedCrop.forward = lambda self, image: [crop(self, image) for _ in range(20)][-1]
data = ImageFolder("photos", T.Compose([T.RandomResizedCrop(32), T.ToTensor()]))
loader = DataLoader(data, batch_size=4, shuffle=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
CROPS = T.Compose([T.RandomResizedCrop(32), T.ToTensor()])


@pytest.fixture
def runs(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(16):
            pixels = rng.integers(0, 255, (160, 200, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.jpg")
    return Runs(tmp_path)


def folder_of(runs, transform=CROPS, **options):
    return ImageFolder(runs.folder / "photos", transform, **options)


@pytest.mark.slow
def test_the_verdict_says_what_stokers_loader_gives(runs):
    done = runs.watch("--json", "verdict.json", "--keep", "kept", runs.script(SCRIPT))
    assert done.returncode == 0, done.stderr
    rate = runs.records("kept", "facts")[-1]["data"]["stoker_samples_per_second"]
    findings = json.loads((runs.folder / "verdict.json").read_text())["findings"]
    finding = next(each for each in findings if "stoker_samples_per_second" in each["evidence"])
    evidence, code = finding["evidence"], finding["fix"]["code"]
    assert evidence["stoker_samples_per_second"] == pytest.approx(rate) and evidence["samples_per_second"] < rate
    assert evidence["wait_share"] > 0.3
    assert f"stoker.Loader gives {rate:.0f} samples a second" in " ".join(done.stderr.split())
    assert 'stoker.Loader("' in code and "batch_size=4" in code


def test_what_stays_in_python_is_not_measured(runs):
    data = folder_of(runs, T.Compose([T.Resize((32, 32)), T.Lambda(lambda x: x), T.ToTensor()]))
    assert measure(image_source(LoaderNote(DataLoader(data, batch_size=4)))) is None


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        ({}, True),
        ({"shuffle": True, "drop_last": True}, True),
        ({"subset": True}, False),
        ({"sampler": WeightedRandomSampler([1.0] * 32, 32)}, False),
        ({"sampler": RandomSampler(range(32), replacement=True)}, False),
        ({"collate_fn": lambda samples: samples}, False),
        ({"is_valid_file": lambda path: True}, False),
    ],
    ids=["plain", "shuffled", "subset", "sampler", "replacement", "collate_fn", "is_valid_file"],
)
def test_what_the_program_decides_itself_is_not_replaced(runs, options, offered):
    given = {"batch_size": 4, **options}
    chosen = {"is_valid_file": given.pop("is_valid_file")} if "is_valid_file" in given else {}
    data = folder_of(runs, **chosen)
    data = Subset(data, [1, 2]) if given.pop("subset", False) else data
    seen = Seen()
    seen.note_loader(LoaderNote(DataLoader(data, **given)))
    assert (seen.images is not None) == offered
    assert ("path" in seen.data) == ("subset" not in options), "a fix would train on all of it"
    if offered:
        assert seen.data["shuffle"] == given.get("shuffle", False)
        assert seen.data.get("drop_last", False) == given.get("drop_last", False)


def test_the_order_of_a_batch_sampler_is_seen():
    data = list(range(32))
    orders = {"RandomSampler": True, "SequentialSampler": False}
    for sampler in (RandomSampler(data), SequentialSampler(data)):
        loader = DataLoader(data, batch_sampler=BatchSampler(sampler, 4, False))
        assert LoaderNote(loader).shuffled is orders[type(sampler).__name__]


def test_a_part_of_the_images_is_not_measured(runs):
    data = folder_of(runs)
    source = image_source(LoaderNote(DataLoader(data, batch_size=4)))
    assert measure(source) > 0
    data.samples = data.samples[:5]
    assert measure(image_source(LoaderNote(DataLoader(data, batch_size=4)))) is None


def test_a_subset_of_an_opened_folder_has_no_path(runs):
    seen = Seen()
    seen.note_loader(LoaderNote(DataLoader(Subset(stoker.open(runs.folder / "photos"), [1, 2]))))
    assert "path" not in seen.data


@pytest.mark.parametrize(("share", "rate"), [(0.04, None), (0.06, 321.0)], ids=["no wait", "a wait"])
def test_a_program_that_does_not_wait_is_not_measured(runs, monkeypatch, share, rate):
    monkeypatch.setattr("stoker.watch.session.measure", lambda source: 321.0)
    with watched_here(runs.folder) as session:
        monkeypatch.setattr(session.writer, "wait_share", lambda: share)
        train(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2)), DataLoader(folder_of(runs), batch_size=4))
    assert runs.records("kept", "facts")[-1]["data"].get("stoker_samples_per_second") == rate
