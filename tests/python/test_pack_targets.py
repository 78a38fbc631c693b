# `stoker pack` to tar, LMDB, HDF5 and npz: its files are read by the libraries that other programs use, with the same
# bytes, order, keys and labels; and killed packings are finished. Stoker reads them in tests/pack/target_test.cpp.
import io
import pickle
import shutil
import signal
import subprocess
import tarfile
import time

import h5py
import lmdb
import numpy as np
import pytest
import webdataset
from conftest import stk_contents
from PIL import Image

# Names of JPEGs and of a PNG that a shard cannot hold unchanged.
ODD = ["a.b.jpg", "a.jpg", "a.png", "100%.jpg", "ü/ä.jpg", "x" * 120 + ".jpg", "a%2Eb.jpg", "no.tif.jpg"]


def source_samples(folder):
    """(key, label, bytes) of a folder of images, in the order of ImageFolder."""
    classes = sorted(path.name for path in folder.iterdir())
    samples = []
    for label, name in enumerate(classes):
        for file in sorted((folder / name).rglob("*"), key=lambda path: path.as_posix().encode()):
            if file.is_file():
                samples.append((file.relative_to(folder).as_posix(), label, file.read_bytes()))
    return classes, samples


def read_tar(path):
    """(key as stored, label, image bytes or pixels) through the webdataset library."""
    samples = []
    for sample in webdataset.WebDataset(str(path), shardshuffle=False):
        (extension,) = (name for name in sample if name not in ("cls",) and not name.startswith("__"))
        image = np.load(io.BytesIO(sample[extension])) if extension == "npy" else sample[extension]
        samples.append((sample["__key__"], extension, int(sample.get("cls", b"-1")), image))
    return samples


def read_lmdb(path):
    with lmdb.open(str(path), subdir=False, readonly=True, lock=False) as env, env.begin() as transaction:
        count = pickle.loads(transaction.get(b"__len__"))
        classes = pickle.loads(transaction.get(b"__classes__"))
        assert transaction.stat()["entries"] == count + 3
        return classes, [pickle.loads(transaction.get(b"%08d" % i)) for i in range(count)]


def visible(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def odd(drawn, tmp_path):
    """A folder of images with names of all kinds."""
    folder = tmp_path / "odd"
    images = sorted(drawn.glob("*/*.jpg"))
    for label in ("c0", "c1"):
        for number, name in enumerate(ODD):
            file = folder / label / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(".png"):
                Image.open(images[number]).save(file)
            else:
                shutil.copy(images[number], file)
    return folder


def test_webdataset_reads_the_shards(stoker, drawn, tmp_path):
    report = stoker("pack", drawn, "x-{000000..}.tar", "--shard-size", "500KB", "--json").json()
    classes, expected = source_samples(drawn)
    assert (report["format"], report["samples"], report["bytes_in"]) == ("tar", 24, sum(len(s[2]) for s in expected))
    assert report["path"] == f"x-{{000000..{report['shards'] - 1:06}}}.tar" and report["shards"] > 3
    assert visible(tmp_path) == sorted(
        [f"x-{i:06}.tar" for i in range(report["shards"])] + ["x-classes.txt", "x.pack.json"]
    )
    read = read_tar(tmp_path / report["path"])
    assert [(f"{key}.{extension}", label, image) for key, extension, label, image in read] == expected
    assert (tmp_path / "x-classes.txt").read_text().splitlines() == classes
    for shard in tmp_path.glob("x-*.tar"):
        with tarfile.open(shard) as tar:
            assert all((m.mtime, m.uid, m.gid, m.mode, m.isreg()) == (0, 0, 0, 0o644, True) for m in tar.getmembers())


@pytest.mark.parametrize("target", ["x.tar", "x-{000000..}.tar"])
def test_odd_names_stay_apart_and_come_back(stoker, odd, tmp_path, target):
    report = stoker("pack", odd, target, "--json").json()
    _, expected = source_samples(odd)
    read = read_tar(tmp_path / report["path"])
    assert [(label, image) for _, _, label, image in read] == [sample[1:] for sample in expected]
    assert len({key for key, *_ in read}) == len(expected)
    shown = [stoker("show", report["path"], "--index", i, "--json", "--npy", "s.npy").json() for i in range(len(expected))]
    assert [show["samples"][0]["key"] for show in shown] == [key for key, *_ in expected]


def test_tar_of_pixels_holds_npy(stoker, drawn, tmp_path):
    stoker("pack", drawn, "x.tar", "--codec", "raw")
    read = read_tar(tmp_path / "x.tar")
    _, expected = source_samples(drawn)
    for (key, extension, label, pixels), (name, wanted, data) in zip(read, expected, strict=True):
        assert (key, extension, label) == (name.replace(".", "%2E"), "npy", wanted)
        assert (pixels == np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))).all()


def test_lmdb_with_pickle(stoker, odd, tmp_path):
    stoker("pack", odd, "x.lmdb")
    expected_classes, expected = source_samples(odd)
    classes, records = read_lmdb(tmp_path / "x.lmdb")
    assert classes == expected_classes
    assert [(r["key"], r["label"], r["image"]) for r in records] == expected


def test_hdf5_with_h5py(stoker, odd, tmp_path):
    stoker("pack", odd, "x.h5")
    classes, expected = source_samples(odd)
    with h5py.File(tmp_path / "x.h5") as file:
        assert sorted(file) == ["images", "keys", "labels"]
        assert list(file["labels"].attrs["classes"]) == classes
        assert file["labels"].dtype == np.int64
        read = zip(file["keys"].asstr()[:], file["labels"][:], file["images"][:], strict=True)
        assert [(key, label, image.tobytes()) for key, label, image in read] == expected


@pytest.mark.parametrize("target", ["x.h5", "x.npz", "x.lmdb", "x.tar"])
def test_pixels_of_one_size(stoker, tmp_path, target):
    stoker("synth", "digits", "d", "--count", 150)
    stoker("pack", "d", target, "--shard-size", "20KB")
    images = np.frombuffer((tmp_path / "d/train-images-idx3-ubyte").read_bytes()[16:], np.uint8).reshape(-1, 28, 28)
    labels = np.frombuffer((tmp_path / "d/train-labels-idx1-ubyte").read_bytes()[8:], np.uint8)
    names = [str(i) for i in range(10)]
    path = tmp_path / target
    if target == "x.h5":
        with h5py.File(path) as file:
            assert file["images"].chunks is None and file["images"].dtype == np.uint8
            got, got_labels, classes = file["images"][:], file["labels"][:], list(file["labels"].attrs["classes"])
            keys = list(file["keys"].asstr()[:])
    elif target == "x.npz":
        with np.load(path) as file:
            assert file["labels"].dtype == np.int64 and file["keys"].dtype.kind == "U"
            got, got_labels, classes, keys = (file[name] for name in ("images", "labels", "classes", "keys"))
    elif target == "x.lmdb":
        classes, records = read_lmdb(path)
        got, got_labels, keys = (np.array([r[name] for r in records]) for name in ("image", "label", "key"))
    else:
        read = read_tar(path)
        got, got_labels, keys = np.stack([r[3] for r in read]), [r[2] for r in read], [r[0] for r in read]
        classes = (tmp_path / "x-classes.txt").read_text().splitlines()
    assert got.dtype == np.uint8 and (got == images).all() and (np.array(got_labels) == labels).all()
    shown = stoker("show", "d", "--index", 77, "--json", "--npy", "s.npy").json()["samples"][0]["key"]
    assert list(classes) == names and len(set(keys)) == 150 and keys[77] == shown


# In one process, each target is stopped and resumed in tests/pack/target_test.cpp.
@pytest.mark.parametrize("target", ["x-{000000..}.tar", "x.lmdb"])
def test_killed_it_goes_on(program, stoker, many_drawn, tmp_path, target):
    data, options = many_drawn, ["--shard-size", "500KB"]
    for folder in ("killed", "whole"):
        (tmp_path / folder).mkdir()
    whole = stoker("pack", data, f"whole/{target}", *options, "--json").json()
    folder = tmp_path / "killed" / ("x.part" if "{" in target else f"{target}.part")
    process = subprocess.Popen([program, "pack", data, f"killed/{target}", *options, "--workers", "1"], cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not ((folder / "journal.jsonl").exists() and (folder / "journal.jsonl").read_text().count("\n") > 3):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    assert visible(tmp_path / "killed") == [folder.name]
    report = stoker("pack", data, f"killed/{target}", *options, "--json").json()
    assert 0 < report["resumed_samples"] < report["samples"] == whole["samples"]
    assert visible(tmp_path / "killed") == visible(tmp_path / "whole")
    if target == "x.lmdb":  # the places of pages depend on when they were written
        stoker("pack", report["path"], "a.stk")
        stoker("pack", whole["path"], "b.stk")
        assert stk_contents(tmp_path / "a.stk") == stk_contents(tmp_path / "b.stk")
    else:
        for name in visible(tmp_path / "whole"):
            assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_options_work_as_they_do_for_stk(stoker, drawn, tmp_path):
    report = stoker("pack", drawn, "x.tar", "--resize-shorter", 64, "--quality", 60, "--json").json()
    assert report["codecs"] == {"jpeg": 24}
    for _, _, _, data in read_tar(tmp_path / "x.tar"):
        assert min(Image.open(io.BytesIO(data)).size) == 64
    report = stoker("pack", drawn, "x.lmdb", "--codec", "dct", "--json").json()
    assert report["codecs"] == {"dct": 24}
    stoker("pack", drawn, "dct.stk", "--codec", "dct")
    stoker("pack", "x.lmdb", "back.stk")
    for index in (0, 13):
        for name, data in (("a.npy", "dct.stk"), ("b.npy", "back.stk")):
            stoker("show", data, "--index", index, "--npy", name)
        assert (np.load(tmp_path / "a.npy") == np.load(tmp_path / "b.npy")).all()
