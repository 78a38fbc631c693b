# `python -m stoker watch` of a program that waits for an ImageFolder says what stoker.Loader gives of the same images.
import json

import numpy as np
import pytest
from PIL import Image
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

pytest.importorskip("stoker._watch", reason="needs the extension modules: STOKER_PYTHON=ON")
import stoker
from stoker.watch.own_rate import image_source, measure
from stoker.watch.seen import LoaderNote, Seen
from test_watch import Runs

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

torch.set_num_threads(1)
data = ImageFolder("photos", {transform})
loader = DataLoader(data, batch_size=4, shuffle=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range({epochs}):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
CROPS = "T.Compose([T.RandomResizedCrop(32), T.ToTensor()])"


@pytest.fixture
def runs(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(16):
            pixels = rng.integers(0, 255, (160, 200, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.jpg")
    return Runs(tmp_path)


def watched(runs, transform, epochs=24):
    script = runs.script(SCRIPT.format(transform=transform, epochs=epochs))
    done = runs.watch("--json", "verdict.json", "--keep", "kept", script)
    assert done.returncode == 0, done.stderr
    return done, json.loads((runs.folder / "verdict.json").read_text())


def test_the_verdict_says_what_stokers_loader_gives(runs):
    done, document = watched(runs, CROPS)
    rate = runs.records("kept", "facts")[-1]["data"]["stoker_samples_per_second"]
    assert rate > 0
    finding = next(each for each in document["findings"] if each["evidence"].get("wait_share", 0) > 0.3)
    now = finding["evidence"].get("samples_per_second")
    if rate > 1.2 * 1.1 * (now or rate):  # on a busy machine it may be no more
        assert finding["evidence"]["stoker_samples_per_second"] == pytest.approx(rate)
    if "stoker_samples_per_second" in finding["evidence"]:
        assert f"stoker.Loader gives {rate:.0f} samples a second" in done.stderr
        assert 'stoker.Loader("' in finding["fix"]["code"] and "batch_size=4" in finding["fix"]["code"]


def test_what_stays_in_python_is_not_measured(runs):
    _, document = watched(runs, "T.Compose([T.Resize((32, 32)), T.Lambda(lambda x: x), T.ToTensor()])")
    assert "stoker_samples_per_second" not in runs.records("kept", "facts")[-1]["data"]
    assert all("stoker_samples_per_second" not in each["evidence"] for each in document["findings"])


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
    data = ImageFolder(runs.folder / "photos", T.Compose([T.RandomResizedCrop(32), T.ToTensor()]), **chosen)
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
    data = ImageFolder(runs.folder / "photos", T.Compose([T.RandomResizedCrop(32), T.ToTensor()]))
    source = image_source(LoaderNote(DataLoader(data, batch_size=4)))
    assert measure(source) > 0
    data.samples = data.samples[:5]
    assert measure(image_source(LoaderNote(DataLoader(data, batch_size=4)))) is None


def test_a_subset_of_an_opened_folder_has_no_path(runs):
    seen = Seen()
    seen.note_loader(LoaderNote(DataLoader(Subset(stoker.open(runs.folder / "photos"), [1, 2]))))
    assert "path" not in seen.data


def test_a_program_that_does_not_wait_is_not_measured(runs):
    slow = SCRIPT.replace("loss.backward()", "loss.backward(); [torch.mm(a, a) for a in 20 * [torch.ones(300, 300)]]")
    script = runs.script(slow.format(transform="T.Compose([T.Resize((32, 32)), T.ToTensor()])", epochs=3))
    slow_model = runs.watch("--keep", "kept", script)
    assert slow_model.returncode == 0, slow_model.stderr
    steps = runs.records("kept", "step")
    wait = sum(step["us"].get("wait", 0) for step in steps) / sum(sum(step["us"].values()) for step in steps)
    assert ("stoker_samples_per_second" in runs.records("kept", "facts")[-1]["data"]) == (wait >= 0.05)
