# A model of one channel meets image files, which decode to three: they are read as Pillow's convert("L") reads them.
# And the figures of `normalize` are for as many channels as images have.
import csv
import json
import shutil

import numpy as np
import pytest
import torch
from conftest import run_program
from PIL import Image
from safetensors.torch import load_file
from test_models_parity import Mlp
from test_weights import newest
from torch import nn

SIDE, CLASSES = 12, 7
MEAN, STD = 0.1307, 0.3081


@pytest.fixture(scope="module")
def trained(program, tmp_path_factory):
    """Grey arrays, a model of theirs, and image files of all kinds in folders by class."""
    tmp_path = tmp_path_factory.mktemp("grey")
    random = np.random.default_rng(2)
    images = random.integers(0, 256, (70, SIDE, SIDE), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", images=images, labels=np.arange(70) % CLASSES)
    for i in range(2 * CLASSES):
        folder = tmp_path / "files" / str(i % CLASSES)
        folder.mkdir(parents=True, exist_ok=True)
        colours = Image.fromarray(random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8))
        if i == 4:
            colours.convert("RGBA").save(folder / f"{i:02}.png")
        elif i == 5:
            colours.save(folder / f"{i:02}.jpg", quality=90)
        elif i % 2:
            colours.save(folder / f"{i:02}.png")
        else:
            Image.fromarray(images[i]).save(folder / f"{i:02}.png")
    (tmp_path / "r.toml").write_text(f"""
device = "cpu"
[data]
train = "d.npz"
val = "files"
batch_size = 10
workers = 1
val_ops = [{{op = "normalize", preset = "mnist"}}]
train_ops = [{{op = "normalize", preset = "mnist"}}]
[model]
classes = {CLASSES}
[train]
epochs = 1
threads = 1
""")
    run_program("train", "r.toml", "--out", "run", cwd=tmp_path)
    return tmp_path


@pytest.fixture
def digits(trained, tmp_path):
    """The last epoch of the run, which is copied into the test's own folder."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return json.loads((tmp_path / "run/account.json").read_text())["epochs"][-1]


@torch.no_grad()
def in_python(tmp_path):
    net = Mlp(SIDE * SIDE)
    net.load_state_dict(load_file(newest(tmp_path / "run") / "model.safetensors"))
    files = sorted((tmp_path / "files").rglob("*.*"))
    grey = np.stack([np.asarray(Image.open(file).convert("L")) for file in files])
    labels = torch.tensor([int(file.parent.name) for file in files])
    return files, net(((torch.from_numpy(grey).float() / 255) - MEAN) / STD), labels


def test_image_files_are_read_grey_for_a_model_of_grey_arrays(stoker, tmp_path, digits):
    files, logits, labels = in_python(tmp_path)
    loss = nn.functional.cross_entropy(logits, labels).item()
    assert digits["val_loss"] == pytest.approx(loss, abs=1e-5)
    evaluated = stoker("eval", "r.toml", "--checkpoint", "run", "--json").json()
    assert evaluated["val_loss"] == pytest.approx(loss, abs=1e-5) and evaluated["samples"] == len(files) == 14
    rows = list(csv.DictReader(stoker("predict", "r.toml", "--checkpoint", "run", "files").out.splitlines()))
    for row, file, expected in zip(rows, files, logits.softmax(1), strict=True):
        assert row["key"] == file.relative_to(tmp_path / "files").as_posix()
        assert [float(row[str(c)]) for c in range(CLASSES)] == pytest.approx(expected.tolist(), abs=1e-5), row["key"]
    stoker("export", "r.toml", "--checkpoint", "run", "-o", "net.pt")  # its data.val are those files
    with torch.no_grad():
        assert torch.jit.load(tmp_path / "net.pt")(torch.zeros(1, 1, SIDE, SIDE)).shape == (1, CLASSES)


def test_arrays_of_other_channels_are_refused_in_one_line(stoker, tmp_path, digits):
    np.savez(tmp_path / "colour.npz", images=np.zeros((3, SIDE, SIDE, 3), np.uint8), labels=np.arange(3))
    for command in (("predict", "colour.npz"), ("eval", "--set", "data.val=colour.npz")):
        error = stoker(command[0], "r.toml", "--checkpoint", "run", *command[1:], status=1).err
        assert "expected images of 1 channel, as in training, got 3" in error and error.count("\n") == 1, error
        assert ("colour.npz" if command[0] == "predict" else "model.safetensors") in error


@pytest.mark.parametrize("key", ["train_ops", "val_ops"])
def test_normalize_is_for_the_channels_of_the_images(stoker, tmp_path, digits, key):
    ops = f'data.{key}=[{{op = "normalize", preset = "imagenet"}}]'
    error = stoker("train", "r.toml", "--out", "no", "--set", ops, status=1).err
    assert f"data.{key}" in error and "got values for 3" in error and error.count("\n") == 1, error
    one = f'data.{key}=[{{op = "normalize", mean = [0.5], std = 0.5}}]'
    stoker("train", "r.toml", "--out", "one", "--set", one)


@torch.no_grad()
def test_a_folder_trains_with_one_channel(stoker, tmp_path, digits):
    """data.channels = 1 is torchvision's Grayscale(1): the first batch of the run has the pixels of convert("L")."""
    ops = [f'data.{key}=[{{op = "normalize", mean = [{MEAN}], std = [{STD}]}}]' for key in ("train_ops", "val_ops")]
    sets = [word for op in [*ops, "data.train=files", "data.channels=1"] for word in ("--set", op)]
    report = stoker("train", "r.toml", "--out", "grey", *sets, "--json").json()
    net = Mlp(SIDE * SIDE)
    net.load_state_dict(load_file(newest(tmp_path / "grey") / "model.safetensors"))
    files, _, labels = in_python(tmp_path)
    grey = np.stack([np.asarray(Image.open(file).convert("L")) for file in files])
    loss = nn.functional.cross_entropy(net((torch.from_numpy(grey).float() / 255 - MEAN) / STD), labels).item()
    assert report["epochs"][-1]["val_loss"] == pytest.approx(loss, abs=1e-5)
    evaluated = stoker("eval", "grey", "--json").json()
    assert evaluated["val_loss"] == pytest.approx(loss, abs=1e-5)
    assert len(stoker("predict", "grey", "files").out.splitlines()) == len(files) + 1
    stoker("show", "--recipe", "r.toml", *sets, "--index", 5, "--npy", "one.npy")
    assert np.load(tmp_path / "one.npy").shape == (1, SIDE, SIDE)


def test_channels_are_those_of_the_images(stoker, tmp_path, digits):
    np.savez(tmp_path / "colour.npz", images=np.zeros((9, SIDE, SIDE, 3), np.uint8), labels=np.arange(9) % CLASSES)
    for value, data, count in ((1, "colour.npz", 3),):
        changed = (f"data.channels={value}", f"data.train={data}", "data.val=", "data.train_ops=[]")
        sets = [word for setting in changed for word in ("--set", setting)]
        error = stoker("train", "r.toml", "--out", "no", *sets, status=1).err
        assert f"[data.channels] expected the {count} channel" in error and error.count("\n") == 1, error
    error = stoker("train", "r.toml", "--out", "no", "--set", "data.channels=2", status=2).err
    assert 'expected "auto", 1 or 3, got 2' in error, error
