# Further fields of samples in files that Python's libraries wrote (h5py, lmdb, tarfile, NumPy): inspect lists them, pack
# keeps them in every target that can hold them, Python reads them there, and each way into stk gives the same bytes.
import csv
import io
import json
import pickle
import tarfile

import h5py
import lmdb
import numpy as np
import pytest
import torch
import webdataset
from conftest import stk_contents
from PIL import Image
from torch import nn

COUNT = 30
# As --field takes them, in files of arrays.
FIELDS = ["mask:mask", "second:image", "score", "tags:label", "age", "point"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


def arrays():
    """Arrays of one shape for each field, by name."""
    random = np.random.default_rng(5)
    return {
        "images": random.integers(0, 256, (COUNT, 12, 10, 3), np.uint8),
        "labels": np.arange(COUNT) % 4,
        "mask": random.integers(0, 5, (COUNT, 12, 10), np.uint8),
        "second": random.integers(0, 256, (COUNT, 6, 8, 3), np.uint8),
        "score": random.normal(size=COUNT),
        "tags": random.integers(0, 2, (COUNT, 7)),
        "age": random.integers(-5, 90, COUNT),
        "point": random.normal(size=(COUNT, 2, 3)).astype(np.float32),
    }


def boxes(i):
    return np.arange(4 * (i % 3), dtype=np.float32).reshape(-1, 4)


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


def add(tar, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def write_h5(path, data):
    with h5py.File(path, "w") as file:
        for name, array in data.items():
            chunked = {"chunks": (4, *array.shape[1:]), "compression": "gzip"} if name in ("mask", "point") else {}
            file.create_dataset(name, data=array, **chunked)


def write_lmdb(path, data):
    with lmdb.open(str(path), subdir=False, map_size=1 << 26) as env, env.begin(write=True) as transaction:
        for i in range(COUNT):
            record = {"image": data["images"][i], "label": int(data["labels"][i])}
            record |= {name: array[i] for name, array in data.items() if name not in ("images", "labels")}
            record |= {"score": float(data["score"][i]), "age": int(data["age"][i])}
            transaction.put(b"%08d" % i, pickle.dumps(record))


def write_tar(path, data):
    with tarfile.open(path, "w") as tar:
        for i in range(COUNT):
            add(tar, f"{i}.npy", npy(data["images"][i]))
            add(tar, f"{i}.cls", b"%d" % data["labels"][i])
            for name in ("mask", "second", "score", "tags", "age", "point"):
                add(tar, f"{i}.{name}.npy", npy(data[name][i]))


WRITERS = {"x.npz": lambda path, data: np.savez(path, **data), "x.h5": write_h5, "x.lmdb": write_lmdb, "x.tar": write_tar}


def options(fields):
    return [part for field in fields for part in ("--field", field)]


@pytest.mark.parametrize("source", WRITERS)
def test_the_same_fields_from_each_format(stoker, tmp_path, source):
    data = arrays()
    WRITERS[source](tmp_path / source, data)
    report = stoker("inspect", source, "--json", "--verify", *options(FIELDS)).json()["fields"]
    assert list(report)[-6:] == [field.split(":")[0] for field in FIELDS]
    assert report["mask"] == {"kind": "mask", "guessed": False, "dtype": "uint8", "values": [0, 1, 2, 3, 4]}
    assert report["score"] == {"kind": "value", "guessed": False, "dtype": "float64", "shape": []}
    assert (report["tags"]["kind"], report["tags"]["shape"]) == ("label", [7])
    assert (report["point"]["dtype"], report["point"]["shape"]) == ("float32", [2, 3])
    stoker("pack", source, "packed.stk", *options(FIELDS))
    for number, way in enumerate((source, "packed.stk")):
        stoker("pack", way, f"{number}.npz", *options(FIELDS))
        with np.load(tmp_path / f"{number}.npz") as packed:
            for name, array in data.items():
                assert packed[name].dtype == array.dtype and (packed[name] == array).all(), name


@pytest.fixture
def shards(tmp_path):
    """Shards as people write them: encoded masks, boxes of any number, JSON, captions."""
    with tarfile.open(tmp_path / "w.tar", "w") as tar:
        for i in range(COUNT):
            pixels = arrays()["images"][i]
            add(tar, f"{i:03}.png", png(pixels))
            add(tar, f"{i:03}.seg.png", png(pixels[..., 0] % 5))
            add(tar, f"{i:03}.boxes.npy", npy(boxes(i)))
            add(tar, f"{i:03}.json", json.dumps({"score": i / 7, "tags": [i % 2, 1], "name": f"n{i}"}).encode())
            add(tar, f"{i:03}.txt", f"a caption {'x' * i}".encode())
            add(tar, f"{i:03}.cls2", b"%d" % (i * i))
    return tmp_path / "w.tar"


SHARD_FIELDS = [
    "mask=seg.png:mask",
    "boxes=boxes.npy:boxes",
    "score=json:score",
    "tags=json:tags:label",
    "caption=txt",
    "second=cls2",
]


def test_members_of_shards(stoker, shards, tmp_path):
    listed = stoker("inspect", "w.tar", "--json").json()["fields"]
    assert listed["seg.png"]["kind"] == "mask" and listed["json:tags"]["shape"] == [2]
    assert listed["boxes.npy"] == {"kind": "boxes", "guessed": True, "dtype": "float32", "shape": [None, 4]}
    assert "boxes.npy: boxes float32 (any, 4)" in stoker("inspect", "w.tar").out
    renamed = [field.split("=")[0] + (f":{field.split(':')[-1]}" if field.endswith(("mask", "boxes", "label")) else "")
               for field in SHARD_FIELDS]
    stoker("pack", "w.tar", "x.stk", *options(SHARD_FIELDS))
    for number, target in enumerate(("y.tar", "y-{000000..}.tar", "y.lmdb")):
        path = stoker("pack", "x.stk", target, "--json", *options(renamed)).json()["path"]
        stoker("pack", path, f"round{number}.stk", *options(renamed))
        assert stk_contents(tmp_path / f"round{number}.stk") == stk_contents(tmp_path / "x.stk")
    for i, sample in enumerate(webdataset.WebDataset(str(tmp_path / "y.tar"), shardshuffle=False)):
        assert (np.load(io.BytesIO(sample["boxes.npy"])) == boxes(i)).all()
        assert np.load(io.BytesIO(sample["score.npy"])) == i / 7
        assert sample["caption.bin"] == f"a caption {'x' * i}".encode()
        assert (np.asarray(Image.open(io.BytesIO(sample["mask.png"]))) == arrays()["images"][i][..., 0] % 5).all()
    assert i == COUNT - 1
    with lmdb.open(str(tmp_path / "y.lmdb"), subdir=False, readonly=True, lock=False) as env, env.begin() as transaction:
        record = pickle.loads(transaction.get(b"%08d" % 8))
        assert pickle.loads(transaction.get(b"__fields__"))["boxes"] == ["boxes", "float32", -1, 4]
    assert (record["boxes"] == boxes(8)).all() and record["boxes"].dtype == np.float32
    assert (record["score"], record["second"], record["caption"]) == (8 / 7, 64, b"a caption xxxxxxxx")
    assert (record["tags"] == [0, 1]).all() and record["mask"].startswith(b"\x89PNG")


RECIPE = """
seed = 2
device = "cpu"
task = "regression"
[data]
train = "w.tar"
batch_size = 10
workers = 1
[data.fields.target]
from = "json:score"
[data.fields.mask]
is = "mask"
from = "seg.png"
[data.fields.boxes]
is = "boxes"
from = "boxes.npy"
[model]
hidden = [4]
[train]
epochs = 2
threads = 1
precision = "fp32"
"""


def losses(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["type"] == "step"]


def test_the_recipe_of_the_source_trains_on_packed_data(stoker, shards, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    stoker("train", "r.toml", "--out", "source")
    fields = options(["target=json:score:value", "mask=seg.png:mask", "boxes=boxes.npy:boxes"])
    for target in ("x.stk", "x.lmdb"):
        stoker("pack", "w.tar", target, *fields)
        stoker("train", "r.toml", "--out", f"run-{target}", "--set", f"data.train={target}")
        assert losses(tmp_path / f"run-{target}") == losses(tmp_path / "source"), target
    assert len(losses(tmp_path / "source")) == 6


TOKENS_RECIPE = """
device = "cpu"
task = "language"
[data]
train = "train.bin"
context = 12
batch_size = 8
[data.fields.tokens]
is = "tokens"
[model]
script = "net.pt"
classes = 50
[train]
epochs = 1
threads = 1
precision = "fp32"
"""


def test_packed_tokens_train_as_the_stream_does(stoker, tmp_path):
    np.random.default_rng(3).integers(0, 50, 401).astype("<u2").tofile(tmp_path / "train.bin")
    torch.jit.script(nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50))).save(tmp_path / "net.pt")
    (tmp_path / "r.toml").write_text(TOKENS_RECIPE)
    stoker("train", "r.toml", "--out", "stream")
    assert len(losses(tmp_path / "stream")) == 5
    for target in ("x.stk", "x.tar"):
        packed = stoker("pack", "train.bin", target, "--context", 12)
        assert "left out 4 tokens at the end" in packed.err
        stoker("train", "r.toml", "--out", f"run-{target}", "--set", f"data.train={target}")
        assert losses(tmp_path / f"run-{target}") == losses(tmp_path / "stream"), target
    stoker("unpack", "x.stk", "back", "--field", "tokens:tokens")
    assert (tmp_path / "back/tokens.bin").read_bytes() == (tmp_path / "train.bin").read_bytes()[: 2 * (33 * 12 + 1)]
    assert "samples without images" in stoker("pack", "train.bin", "x.h5", "--context", 12, status=1).err


def test_tables_take_images_but_no_lengths(stoker, shards, tmp_path):
    stoker("pack", "w.tar", "x.h5", "--field", "mask=seg.png:mask", "--field", "caption=txt", "--field", "n=cls2:label")
    with h5py.File(tmp_path / "x.h5") as file:
        assert sorted(file) == ["caption", "images", "keys", "mask", "n"]
        assert file["caption"][3].tobytes() == b"a caption xxx" and list(file["n"][:4]) == [0, 1, 4, 9]
        assert Image.open(io.BytesIO(file["mask"][3].tobytes())).size == (10, 12)
    for target, field, text in (
        ("y.h5", "boxes=boxes.npy:boxes", "boxes of any length"),
        ("y.npz", "caption=txt", "caption of any length"),
        ("y.npz", "mask=seg.png:mask", "encoded bytes"),
    ):
        error = stoker("pack", "w.tar", target, "--codec", "raw", "--field", field, status=1).err
        assert text in error and len(error.splitlines()) == 1
    assert not (tmp_path / "y.npz").exists() and not (tmp_path / "y.h5").exists()


@pytest.mark.parametrize("field", ["label", "two words=x", "x:hue"])
def test_options_that_name_no_field(stoker, tmp_path, field):
    np.savez(tmp_path / "in.npz", **arrays())
    assert "--field" in stoker("pack", "in.npz", "x.stk", "--field", field, status=2).err


def test_unpack_of_images_that_differ_in_their_ending_only(stoker, tmp_path):
    for i, name in enumerate(("a.jpg", "a.png", "b.jpg")):
        for folder, value in (("images", 50 * i), ("masks", i)):
            (tmp_path / "in" / folder).mkdir(parents=True, exist_ok=True)
            mask = folder == "masks"
            Image.new("L" if mask else "RGB", (16, 16), value if mask else (value,) * 3).save(
                tmp_path / "in" / folder / (name + ".png" if mask else name)
            )
    (tmp_path / "in/labels.csv").write_text(
        "path,mask\n" + "".join(f"images/{name},masks/{name}.png\n" for name in ("a.jpg", "a.png", "b.jpg"))
    )
    stoker("unpack", "in/labels.csv", "out", "--field", "mask:mask")
    rows = list(csv.DictReader((tmp_path / "out/labels.csv").open()))
    assert [np.asarray(Image.open(tmp_path / "out" / row["mask"])).max() for row in rows] == [0, 1, 2]


def test_unpack_writes_a_table(stoker, tmp_path):
    data = arrays()
    np.savez(tmp_path / "in.npz", **data)
    stoker("unpack", "in.npz", "out", "--field", "mask:mask", "--field", "score", "--field", "tags:label")
    rows = list(csv.DictReader((tmp_path / "out/labels.csv").open()))
    assert len(rows) == COUNT
    for i, row in enumerate(rows):
        assert (np.asarray(Image.open(tmp_path / "out" / row["path"])) == data["images"][i]).all()
        assert (np.asarray(Image.open(tmp_path / "out" / row["mask"])) == data["mask"][i]).all()
        assert float(row["score"]) == data["score"][i]
        assert [int(row[f"tags_{k}"]) for k in range(7)] == list(data["tags"][i])
        assert row["label"] == str(data["labels"][i])
    # The table is a data set with the same fields.
    tags = ",".join(f"tags_{k}" for k in range(7))
    stoker("pack", "out", "back.tar", "--field", "mask:mask", "--field", "score", "--field", f"tags={tags}:label")
    for i, sample in enumerate(webdataset.WebDataset(str(tmp_path / "back.tar"), shardshuffle=False)):
        assert (np.asarray(Image.open(io.BytesIO(sample["mask.png"]))) == data["mask"][i]).all()
        assert np.load(io.BytesIO(sample["score.npy"])) == np.float32(data["score"][i])
        assert (np.load(io.BytesIO(sample["tags.npy"])) == data["tags"][i]).all()
        assert int(sample["cls"]) == data["labels"][i]
    assert i == COUNT - 1
    error = stoker("unpack", "in.npz", "other", "--field", "point", status=1).err
    assert "point float32 (2, 3)" in error and len(error.splitlines()) == 1
