# `stoker show`: the picture has the samples that the table lists, in training's order.
import shutil

import numpy as np
import pytest
from PIL import Image

CROP = '{op = "random_resized_crop", size = 32}, {op = "horizontal_flip"}'


def keys(report):
    return [sample["key"] for sample in report["samples"]]


def test_small_images_are_enlarged_without_smoothing(stoker, tmp_path):
    data = "synth:digits?count=100"
    report = stoker("show", data, "--json").json()
    assert [sample["index"] for sample in report["samples"]] == list(range(64))
    grid = np.asarray(Image.open(tmp_path / "grid.png"))
    assert grid.shape == (8 * 88 + 4, 8 * 88 + 4, 3)
    for index in (0, 9, 63):
        stoker("show", data, "--index", index, "--npy", "one.npy")
        one = np.load(tmp_path / "one.npy")
        top, left = 4 + index // 8 * 88, 4 + index % 8 * 88
        assert (grid[top : top + 84, left : left + 84] == one.repeat(3, 0).repeat(3, 1)).all()


def test_large_images_shrink_to_fit(stoker, drawn, tmp_path):
    report = stoker("show", drawn, "-o", "photos.png", "--json").json()
    grid = np.asarray(Image.open(tmp_path / "photos.png"))
    assert grid.shape == (4 * 164 + 4, 6 * 164 + 4, 3)
    assert len(report["samples"]) == 24
    for index, sample in enumerate(report["samples"]):
        top, left = 4 + index // 6 * 164, 4 + index % 6 * 164
        cell = grid[top : top + 160, left : left + 160]
        photo = Image.open(drawn / sample["key"])
        assert (sample["height"], sample["width"]) == photo.size[::-1]
        photo.thumbnail((160, 160), Image.Resampling.BILINEAR, reducing_gap=None)
        inner = np.asarray(photo, dtype=float)
        y, x = (160 - inner.shape[0]) // 2, (160 - inner.shape[1]) // 2
        shown = cell[y : y + inner.shape[0], x : x + inner.shape[1]]
        assert shown.shape == inner.shape and abs(shown - inner).mean() < 2


def test_the_same_seed_and_epoch_give_the_same_picture(stoker, recipe, drawn, tmp_path):
    path = recipe(CROP, "batch_size = 16", train=drawn, top="seed = 5")

    def picture(*options):
        stoker("show", drawn, "--recipe", path, "-o", "a.png", *options)
        return (tmp_path / "a.png").read_bytes()

    first = picture()
    assert first == picture("--seed", 5, "--epoch", 0)
    assert first != picture("--epoch", 1)
    assert first != picture("--seed", 6)


def test_an_epoch_is_another_order_of_the_same_samples(stoker, recipe, drawn):
    path = recipe(CROP, "batch_size = 24", train=drawn)
    first = keys(stoker("show", "--recipe", path, "--json").json())
    second = keys(stoker("show", "--recipe", path, "--epoch", 1, "--json").json())
    assert first != second and sorted(first) == sorted(second)
    assert first != sorted(first)
    in_order = keys(stoker("show", "--recipe", path, "--set", "data.shuffle=false", "--json").json())
    assert in_order == sorted(first)


def test_a_crop_depends_on_the_sample_alone(stoker, recipe, drawn, tmp_path):
    """The third cell of the picture equals --index of the third sample in the table."""
    path = recipe(CROP, "batch_size = 9", train=drawn)
    sample = stoker("show", "--recipe", path, "--json").json()["samples"][2]
    stoker("show", "--recipe", path, "--index", sample["index"], "--npy", "one.npy")
    one = np.rint(np.load(tmp_path / "one.npy").transpose(1, 2, 0) * 255).astype(np.uint8)
    left = 4 + 2 * 100
    cell = np.asarray(Image.open(tmp_path / "grid.png"))[4:100, left : left + 96]
    assert (cell == one.repeat(3, 0).repeat(3, 1)).all()


# Training reads samples in the order that `show` lists. All but the first four are spoilt, so training must fail on the
# fifth; also if a share is held back for evaluation.
@pytest.mark.parametrize("val", ["", 'val = "30%"'])
def test_training_takes_the_order_that_is_shown(stoker, recipe, drawn, tmp_path, val):
    folder = tmp_path / "photos"
    shutil.copytree(drawn, folder)
    path = recipe(CROP, f"batch_size = 24\nworkers = 0\n{val}", train=folder)
    samples = stoker("show", "--recipe", path, "--json").json()["samples"]
    assert (len(samples) == 24) == (not val)
    first = min(sample["index"] for sample in samples)  # the loader learns the shape from it
    spoilt = [sample["key"] for sample in samples[4:] if sample["index"] != first]
    for key in spoilt:
        (folder / key).write_bytes(b"spoilt")
    done = stoker("train", path, "--out", "run", "--set", "train.epochs=1", "--json", status=1)
    assert spoilt[0] in done.err


def test_held_back_samples_are_said_to_be(stoker, recipe, drawn):
    path = recipe(CROP, 'batch_size = 24\nval = "30%"', train=drawn)
    shown = {sample["index"] for sample in stoker("show", "--recipe", path, "--json").json()["samples"]}
    assert 0 < len(shown & set(range(0, 24, 3))) < 8
    for index in range(0, 24, 3):
        done = stoker("show", "--recipe", path, "--index", index, "-o", "one.png")
        assert ("holds sample" in done.err) == (index not in shown)


def test_table(stoker, drawn):
    done = stoker("show", drawn, "--index", 9)
    header, line = done.out.splitlines()
    assert header.split() == ["row", "col", "index", "label", "class", "height", "x", "width", "key"]
    assert line.split()[:5] == ["1", "1", "9", "3", "rings"] and line.endswith("rings/00000.jpg")
    assert done.err == "written to grid.png\n"


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["DATA", "--npy", "x.npy"],
        ["DATA", "--set", "seed=1"],
        ["DATA", "--index", "-1"],
        ["DATA", "--index", "0", "--npy", "x.npy", "-o", "y.png"],
        ["DATA", "-o", "x.jpg"],
    ],
)
def test_wrong_usage(stoker, drawn, options):
    assert stoker("show", *[drawn if option == "DATA" else option for option in options], status=2).out == ""


def test_an_index_beyond_the_data(stoker, drawn):
    assert "from 0 to 23, got 24" in stoker("show", drawn, "--index", 24, status=1).err
