# Tables of images, images with masks, COCO and tokens, written by csv, Pillow, json and NumPy.
import csv
import json

import numpy as np
import pytest
from PIL import Image


def picture(path, seed, mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    size = (6, 9, 3) if mode == "RGB" else (6, 9)
    pixels = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


def write_table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows(rows)


def shown(stoker, data, index, folder):
    stoker("show", data, "--index", index, "--npy", folder / "one.npy")
    return np.load(folder / "one.npy")


def test_a_table(stoker, tmp_path):
    data = tmp_path / "data"
    names = ["a.png", "sub/é ü.png", 'with "quotes", and\nlines.png', "b.png"]
    images = [picture(data / name, i) for i, name in enumerate(names)]
    labels = ["dog", "Katze, groß", "cat", "dog"]
    write_table(data / "labels.csv", [["path", "label", "age"], *zip(names, labels, range(4))])
    report = stoker("inspect", data, "--verify", "--json").json()
    classes = sorted(set(labels), key=str.encode)
    assert (report["format"], report["samples"], report["bad"]) == ("table", 4, [])
    assert report["classes"] == classes
    assert report["class_counts"] == [labels.count(name) for name in classes]
    for index, image in enumerate(images):
        assert (shown(stoker, data / "labels.csv", index, tmp_path) == image).all()


def coloured_table(data):
    for i in range(4):
        picture(data / f"{i}.png", i)
        masks(data / f"m/{i}.png", np.full((6, 9), i, np.uint8), "grey")
    rows = [["path", "cx", "colour", "mask"], *([f"{i}.png", i / 2, "red", f"m/{i}.png"] for i in range(4))]
    write_table(data / "labels.csv", rows)


def test_ids_without_an_ending(stoker, tmp_path):
    """As in tables of competitions: the image is the one file of that name."""
    images = [picture(tmp_path / f"data/train/{name}.png", i) for i, name in enumerate("abc")]
    picture(tmp_path / "data/test/d.e.png", 9)
    rows = [["id", "label"], ["c", "pug"], ["a", "collie"], ["train/b", "pug"], ["d.e", "pug"]]
    write_table(tmp_path / "data/train.csv", rows)
    report = stoker("inspect", "data/train.csv", "--verify", "--json").json()
    assert report["samples"] == 4 and report["bad"] == []
    for index, image in enumerate((images[2], images[0], images[1])):
        assert (shown(stoker, tmp_path / "data/train.csv", index, tmp_path) == image).all()
    picture(tmp_path / "data/test/a.jpg", 9)
    error = stoker("inspect", "data/train.csv", status=1).err
    assert 'one image called "a"' in error and "train/a.png" in error and "test/a.jpg" in error
    write_table(tmp_path / "data/train.csv", [["id", "label"], ["c", "pug"], ["nobody", "pug"]])
    assert len(stoker("inspect", "data/train.csv", "--verify", "--json", status=1).json()["bad"]) == 1


def test_ids_in_a_folder_that_a_link_leads_to(stoker, tmp_path):
    """Inputs of competitions are often links. One to a folder above is not followed."""
    image = picture(tmp_path / "store/a.png", 1)
    write_table(tmp_path / "data/labels.csv", [["id", "label"], ["a", "pug"]])
    (tmp_path / "data/train").symlink_to(tmp_path / "store")
    (tmp_path / "store/up").symlink_to(tmp_path / "data")
    assert (shown(stoker, tmp_path / "data/labels.csv", 0, tmp_path) == image).all()


def test_a_column_of_paths_behind_others(stoker, tmp_path):
    image = picture(tmp_path / "data/im/a.png", 1)
    write_table(tmp_path / "data/t.csv", [["red", "label", "image_path"], ["1", "x", "im/a.png"]])
    assert (shown(stoker, tmp_path / "data/t.csv", 0, tmp_path) == image).all()


def test_a_wrong_column_of_paths_is_named(stoker, tmp_path):
    picture(tmp_path / "data/im/a.png", 1)
    write_table(tmp_path / "data/t.csv", [["red", "place"], ["1", "im/a.png"]])
    assert "from the column red" in stoker("show", "data/t.csv", "--index", "0", "--npy", "x.npy", status=1).err


@pytest.mark.parametrize("more", [[], ["--set", "model.classes=2"]], ids=["unknown classes", "known classes"])
def test_training_names_the_column_that_may_hold_the_labels(stoker, recipe, tmp_path, more):
    for name in range(40):
        picture(tmp_path / f"data/{name}.png", name)
    write_table(tmp_path / "data/t.csv", [["id", "breed"], *([str(name), f"b{name % 2}"] for name in range(40))])
    assert "the column breed may have them" in stoker("inspect", "data/t.csv").out
    path = recipe(data='val = "20%"', train="data/t.csv")
    error = stoker("train", path, *more, status=1).err
    assert "data.fields.label" in error and "set model.classes" not in error
    assert more or '"breed"' in error


def test_columns_that_are_left_out_are_named(stoker, tmp_path):
    coloured_table(tmp_path / "data")
    line = "  left out cx, colour, mask (--field NAME keeps them)\n"
    assert line in stoker("pack", "data", "all.stk").out and line in stoker("pack", "data", "all.stk").out
    one = stoker("pack", "data", "x.stk", "--field", "cx", "--field", "mask:mask")
    assert "  left out colour (--field NAME keeps it)\n" in one.out
    assert stoker("pack", "data", "x.stk", "--field", "cx", "--field", "mask:mask", "--json").json()["left_out"] == ["colour"]
    both = ["--field", "pair=cx,cx", "--label-field", "colour"]
    assert stoker("pack", "data", "y.stk", *both, "--json").json()["left_out"] == ["mask"]
    assert "  left out: cx, mask (--field NAME keeps them)\n" in stoker("unpack", "x.stk", "back").out
    report = stoker("unpack", "x.stk", "again", "--field", "cx", "--field", "mask:mask", "--json").json()
    assert report["left_out"] == []


def test_inspect_says_how_columns_are_read(stoker, tmp_path):
    coloured_table(tmp_path / "data")
    out = stoker("inspect", "data").out
    assert "  column    cx: float32; read it with --field cx\n" in out
    assert "  column    colour: text; read it with --label-field colour or --field colour:label\n" in out
    assert "  column    mask: image; read it with --field mask:image\n" in out
    assert "  labels    4 samples without a label\n" in out and "the column colour may have them\n" in out
    labelled = stoker("inspect", "data", "--label-field", "colour").out
    assert "without a label" not in labelled and "may have them" not in labelled


def masks(path, indices, kind):
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "palette":
        image = Image.fromarray(indices, mode="P")
        image.putpalette(list(np.random.default_rng(3).integers(0, 256, 768)))
        image.save(path)
    elif kind == "palette of 4 bits":
        image = Image.fromarray(indices, mode="P")
        image.putpalette(list(range(48)))
        image.save(path, bits=4)
    elif kind == "16 bits":
        Image.fromarray(indices.astype(np.uint16)).save(path)
    else:
        Image.fromarray(indices).save(path)


@pytest.mark.parametrize("kind", ["grey", "palette", "palette of 4 bits", "16 bits"])
def test_masks(stoker, tmp_path, kind):
    data = tmp_path / "data"
    for i in range(3):
        picture(data / f"images/{i}.jpg", i)
        masks(data / f"masks/{i}.png", np.random.default_rng(i).integers(0, 9, (6, 9), dtype=np.uint8), kind)
    report = stoker("inspect", data, "--verify", "--json").json()
    assert (report["format"], report["samples"], report["bad"]) == ("paired_folder", 3, [])
    assert report["fields"]["mask"] == {"kind": "mask", "guessed": False, "dtype": "uint8", "values": list(range(9))}


def test_coco(stoker, tmp_path):
    data = tmp_path / "data"
    images = [picture(data / f"train2017/{i:03}.png", i) for i in range(3)]
    annotations = {
        "info": {"description": "a test"},
        "images": [{"id": 10 - i, "file_name": f"{i:03}.png", "width": 9, "height": 6} for i in range(3)],
        "annotations": [
            {"id": 1, "image_id": 9, "category_id": 7, "bbox": [1, 2, 3, 4], "iscrowd": 0, "segmentation": [[1, 2]]}
        ],
        "categories": [{"id": 7, "name": "Bär"}, {"id": 3, "name": "bird"}],
    }
    (data / "annotations").mkdir()
    (data / "annotations/instances_train2017.json").write_text(json.dumps(annotations))
    report = stoker("inspect", data, "--verify", "--json").json()
    assert (report["format"], report["samples"], report["bad"]) == ("coco", 3, [])
    assert report["classes"] == ["bird", "Bär"]
    assert report["fields"]["boxes"] == {"kind": "boxes", "guessed": False, "dtype": "float32", "shape": [None, 4]}
    assert report["fields"]["labels"] == {"kind": "label", "guessed": False, "dtype": "int64", "shape": [None]}
    for index in range(3):
        assert (shown(stoker, data, index, tmp_path) == images[2 - index]).all()


@pytest.mark.parametrize(
    ("name", "dtype"), [("x.u32.bin", "<u4"), ("x.npy", "<i8")]
)
def test_tokens(stoker, tmp_path, name, dtype):
    tokens = np.random.default_rng(0).integers(0, 50257, 1000).astype(dtype)
    np.save(tmp_path / name, tokens) if name.endswith(".npy") else tokens.tofile(tmp_path / name)
    report = stoker("inspect", tmp_path / name, "--context", 64, "--verify", "--json").json()
    assert (report["format"], report["samples"], report["bad"]) == ("tokens", 999 // 64, [])
    assert report["fields"] == {"tokens": {"kind": "tokens", "guessed": False, "dtype": "int64", "shape": [65]}}
    assert "data.context" in stoker("inspect", tmp_path / name, status=1).err


def test_a_table_is_packed_with_its_fields(stoker, tmp_path):
    data = tmp_path / "data"
    rng = np.random.default_rng(0)
    rows = [["path", "label", "age", "smiles", "glasses", "mask"]]
    wanted = []
    for i in range(5):
        picture(data / f"{i}.png", i)
        wanted.append(rng.integers(0, 9, (6, 9), dtype=np.uint8))
        masks(data / f"m/{i}.png", wanted[-1], "palette")
        rows.append([f"{i}.png", i % 2, i + 0.5, i % 2, i % 3 == 0, f"m/{i}.png"])
    write_table(data / "labels.csv", rows)
    fields = ["--field", "age", "--field", "flags=smiles,glasses:label", "--field", "mask:mask"]
    stoker("pack", data, tmp_path / "d.stk", *fields)
    report = stoker("inspect", tmp_path / "d.stk", "--verify", "--json").json()
    assert report["bad"] == []
    assert report["fields"]["flags"]["shape"] == [2]
    again = ["--field", "age", "--field", "flags:label", "--field", "mask:mask"]
    stoker("unpack", tmp_path / "d.stk", tmp_path / "back", *again)
    columns = ["--field", "age", "--field", "flags=flags_0,flags_1:label"]
    sources = [(data, fields[:4]), (tmp_path / "d.stk", again[:4]), (tmp_path / "back", columns)]
    for number, (source, names) in enumerate(sources):
        stoker("pack", source, tmp_path / f"{number}.npz", "--codec", "raw", *names)
        arrays = np.load(tmp_path / f"{number}.npz")
        assert arrays["labels"].tolist() == [0, 1, 0, 1, 0]
        assert arrays["age"].tolist() == [i + 0.5 for i in range(5)]
        assert arrays["flags"].tolist() == [[i % 2, int(i % 3 == 0)] for i in range(5)]
    with (tmp_path / "back/labels.csv").open(newline="") as file:
        for row, mask in zip(csv.DictReader(file), wanted):
            assert (np.asarray(Image.open(tmp_path / "back" / row["mask"])) == mask).all()
