# `stoker show`: the picture has the samples that the table lists, in training's order.
import shutil

import numpy as np
import pytest
from PIL import Image

LABEL = 18  # the height of a label, in pixels
CROP = '{op = "random_resized_crop", size = 32}, {op = "horizontal_flip"}'


def keys(report):
    return [sample["key"] for sample in report["samples"]]


def test_small_images_are_enlarged_without_smoothing(stoker, tmp_path):
    data = "synth:digits?count=100"
    report = stoker("show", data, "--json").json()
    assert [sample["index"] for sample in report["samples"]] == list(range(64))
    grid = np.asarray(Image.open(tmp_path / "grid.png"))
    assert grid.shape == (8 * (88 + LABEL) + 4, 8 * 88 + 4, 3)
    for index in (0, 9, 63):
        stoker("show", data, "--index", index, "--npy", "one.npy")
        one = np.load(tmp_path / "one.npy")
        top, left = 4 + index // 8 * (88 + LABEL), 4 + index % 8 * 88
        assert (grid[top : top + 84, left : left + 84] == one.repeat(3, 0).repeat(3, 1)).all()


def test_large_images_shrink_to_fit(stoker, drawn, tmp_path):
    report = stoker("show", drawn, "-o", "photos.png", "--json").json()
    grid = np.asarray(Image.open(tmp_path / "photos.png"))
    assert grid.shape == (4 * (164 + LABEL) + 4, 6 * 164 + 4, 3)
    assert len(report["samples"]) == 24
    for index, sample in enumerate(report["samples"]):
        top, left = 4 + index // 6 * (164 + LABEL), 4 + index % 6 * 164
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


def labels_of(picture, side, columns):
    """The label below each cell, cut to its letters, by the label's pixels."""
    grid = np.asarray(Image.open(picture))
    found = []
    for top in range(4, grid.shape[0] - side, side + 4 + LABEL):
        for left in range(4, columns * (side + 4), side + 4):
            found.append((grid[top + side : top + side + LABEL, left : left + side] == 255).all(2))
    return found


def test_labels_are_drawn_below_the_images(stoker, tmp_path):
    report = stoker("show", "synth:digits?count=100", "--json").json()
    by_label = {}
    for sample, drawn_label in zip(report["samples"], labels_of(tmp_path / "grid.png", 84, 8), strict=True):
        by_label.setdefault(sample["label"], []).append(drawn_label)
    assert len(by_label) == 10
    for same in by_label.values():
        assert same[0].any() and all((label == same[0]).all() for label in same)
    first = [same[0].tobytes() for same in by_label.values()]
    assert len(set(first)) == 10
    one = by_label[1][0][2:16, 37:47].reshape(7, 2, 5, 2)  # two pixels for each of the font, in the middle of the cell
    assert (one.any((1, 3)) == one.all((1, 3))).all() and one[:, 0, 2, 0].all()


def test_labels_that_the_font_lacks_are_numbers_and_long_ones_are_cut(stoker, tmp_path):
    names = ["\u677e", "b" * 200, "cedar", ""]
    np.savez(tmp_path / "d.npz", images=np.zeros((4, 8, 8), np.uint8), labels=np.arange(4), classes=np.array(names))
    stoker("show", "d.npz")
    label = labels_of(tmp_path / "grid.png", 96, 2)
    widths = [np.flatnonzero(drawn.any(0)) for drawn in label]
    assert (np.asarray(Image.open(tmp_path / "grid.png"))[:, [3, 100, 103, 200]] == 0x60).all()  # between cells
    assert np.ptp(widths[0]) + 1 == 10 and 80 < np.ptp(widths[1]) < 96 and 50 < np.ptp(widths[2]) < 60
    assert np.ptp(widths[3]) + 1 == 10  # an empty name
    np.savez(tmp_path / "unlabelled.npz", images=np.zeros((4, 8, 8), np.uint8))
    stoker("show", "unlabelled.npz")
    assert Image.open(tmp_path / "grid.png").size == (204, 204)  # no space for labels


def test_validation_data_and_ops(stoker, drawn, tmp_path):
    shutil.copytree(drawn, tmp_path / "val")
    shutil.rmtree(tmp_path / "val/rings")
    (tmp_path / "r.toml").write_text(
        f'[data]\ntrain = "{drawn}"\nval = "val"\nbatch_size = 4\ntrain_ops = [{CROP}]\n'
        'val_ops = [{op = "resize", size = [20, 30]}]\n'
    )
    report = stoker("show", "--recipe", "r.toml", "--val", "--json").json()
    assert [sample["index"] for sample in report["samples"]] == [0, 1, 2, 3]
    assert {(sample["height"], sample["width"]) for sample in report["samples"]} == {(20, 30)}
    all_of_them = stoker("show", "--recipe", "r.toml", "--val", "--set", "data.batch_size=64", "--json").json()
    assert len(all_of_them["samples"]) == 21
    given = stoker("show", drawn, "--recipe", "r.toml", "--val", "--set", "data.batch_size=64", "--json").json()
    assert len(given["samples"]) == 24
    stoker("show", "--recipe", "r.toml", "--val", "--index", 20, "--npy", "one.npy")
    assert np.load(tmp_path / "one.npy").shape == (3, 20, 30)
    held = stoker("show", "--recipe", "r.toml", "--val", "--set", "data.val=30%", "--json").json()["samples"]
    trained = stoker("show", "--recipe", "r.toml", "--set", "data.val=30%", "--set", "data.batch_size=64", "--json")
    assert held and not {sample["key"] for sample in held} & set(keys(trained.json()))
    for options in (["--val", "--recipe", "r.toml", "--epoch", "1"], ["--val", "val"]):
        stoker("show", *options, status=2)
    assert "expected validation data" in stoker("show", "--recipe", "r.toml", "--val", "--set", "data.val=", status=1).err


def test_a_bad_image_is_a_marked_cell_and_a_line(stoker, drawn, tmp_path):
    shutil.copytree(drawn, tmp_path / "photos")
    bad = sorted((tmp_path / "photos").rglob("*.jpg"))[1]
    bad.write_bytes(b"spoilt")
    done = stoker("show", "photos", "--json")
    samples = done.json()["samples"]
    key = str(bad.relative_to(tmp_path / "photos"))
    assert [sample["key"] for sample in samples if "error" in sample] == [key]
    assert samples[1]["label"] == 0 and samples[1]["error"].startswith("expected a JPEG")
    assert done.err.splitlines() == [f"{key}: {samples[1]['error']}"]
    cell = np.asarray(Image.open(tmp_path / "grid.png"))[4:164, 168:328]
    assert (cell[[0, 0, 80, 159], [0, 159, 80, 0]] == 255).all() and (cell[0, 80] == (0x90, 0, 0)).all()
    table = stoker("show", "photos").out.splitlines()
    assert len(table) == 25 and table[2].split()[-2] == "-"
    only = stoker("show", "photos", "--index", 1, status=1)
    assert key in only.out and key in only.err
    assert "expected a JPEG" in stoker("show", "photos", "--index", 1, "--npy", "x.npy", status=1).err


def segmented(folder, count=4):
    """Grey images with a mask: class 1 in the left half, class 2 in one corner."""
    for i in range(count):
        for name in ("images", "masks"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (100, 100, 100)).save(folder / f"images/{i}.png")
        mask = np.zeros((32, 32), np.uint8)
        mask[:, :16] = 1
        mask[24:, 24:] = 2
        Image.fromarray(mask).save(folder / f"masks/{i}.png")


def test_masks_follow_the_ops_of_their_images(stoker, recipe, tmp_path):
    segmented(tmp_path / "seg")
    shown = stoker("show", "seg", "--json").json()["samples"]
    assert [sample["fields"] for sample in shown] == [{"mask": {"classes": [0, 1, 2]}}] * 4
    cell = np.asarray(Image.open(tmp_path / "grid.png"))[4:100:3, 4:100:3].astype(int)
    tinted = (cell != 100).any(2)
    assert tinted[:, :16].all() and tinted[24:, 24:].all() and tinted.sum() == 32 * 16 + 8 * 8
    assert (cell[0, 0] != cell[31, 31]).any()  # a colour for each class
    path = recipe('{op = "horizontal_flip", p = 1.0}, {op = "center_crop", size = 16}', "batch_size = 4", train="seg")
    table = stoker("show", "--recipe", path).out.splitlines()
    assert table[0].split() == ["row", "col", "index", "label", "class", "height", "x", "width", "mask", "key"]
    assert table[1].split()[3:] == ["-", "16", "x", "16", "classes", "0", "1", table[1].split()[-1]]
    cell = np.asarray(Image.open(tmp_path / "grid.png"))[4:100:6, 4:100:6]
    assert (cell[:, 8:] != 100).any(2).all() and (cell[:, :8] == 100).all()
    (tmp_path / "seg/masks/1.png").write_bytes(b"spoilt")
    done = stoker("show", "seg", "--json")
    assert "error" in done.json()["samples"][1] and len(done.err.splitlines()) == 1


def test_boxes_are_outlines_and_values_are_printed(stoker, tmp_path):
    boxes = np.array([[[8, 4, 24, 20]], [[0, 0, 0, 0]]], np.float32)
    arrays = {"images": np.full((2, 32, 32, 3), 100, np.uint8), "boxes": boxes, "score": np.array([0.5, -2.0])}
    np.savez(tmp_path / "d.npz", **arrays, flags=np.array([[1, 0], [0, 1]]))
    fields = ["--field", "boxes:boxes", "--field", "score", "--field", "flags:label"]
    shown = stoker("show", "d.npz", *fields, "--json").json()["samples"]
    assert shown[0]["fields"] == {"boxes": [[8, 4, 24, 20]], "score": 0.5, "flags": [1, 0]}
    assert shown[0]["label"] == -1
    grid = np.asarray(Image.open(tmp_path / "grid.png"))
    outline = (grid[4:100, 4:100] != 100).any(2)
    expected = np.zeros((96, 96), bool)
    expected[12:60, 24:72] = True  # three times as large
    expected[14:58, 26:70] = False
    assert (outline == expected).all() and (grid[4:100, 104:200] == 100).all()
    table = stoker("show", "d.npz", *fields).out.splitlines()
    assert table[0].split()[-4:] == ["boxes", "score", "flags", "key"]
    assert table[2].split()[3:] == ["-", "32", "x", "32", "1", "box", "-2", "0", "1", "1"]


def test_boxes_far_beyond_the_image_end_at_its_border(stoker, tmp_path):
    boxes = np.array([[[-1e30, -1e30, 1e30, 1e30]]], np.float32)
    np.savez(tmp_path / "d.npz", images=np.full((1, 32, 32, 3), 100, np.uint8), boxes=boxes)
    stoker("show", "d.npz", "--field", "boxes:boxes")
    outline = (np.asarray(Image.open(tmp_path / "grid.png"))[4:100, 4:100] != 100).any(2)
    assert outline[:2].all() and outline[-2:].all() and not outline[2:-2, 2:-2].any()


def test_ops_that_masks_cannot_follow_are_refused(stoker, recipe, tmp_path):
    segmented(tmp_path / "seg")
    path = recipe('{op = "trivial_augment_wide"}', train="seg")
    assert "ops that masks and boxes can follow" in stoker("show", "--recipe", path, status=1).err


def test_only_a_picture_of_its_own_is_replaced(stoker, tmp_path):
    data = "synth:digits?count=4"
    stoker("show", data, "-o", "mine.png")
    stoker("show", data, "-o", "mine.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "holiday.png")
    (tmp_path / "notes.txt").write_text("notes")
    for option, name in (("-o", "holiday.png"), ("--npy", "notes.txt")):
        before = (tmp_path / name).read_bytes()
        refused = stoker("show", data, "--index", 0, option, name, status=1)
        assert f"[{name}] expected a new file" in refused.err and f"choose another name with {option}" in refused.err
        assert (tmp_path / name).read_bytes() == before
