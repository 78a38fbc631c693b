# LMDB data sets as Python programs write them, with the packages lmdb and pickle: Stoker reads what was written.
import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import lmdb
import numpy as np
import pytest
from PIL import Image

from conftest import PROGRAM
from stoker import open as open_dataset


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


def write(path, entries, *, size=1 << 28, **options):
    with lmdb.open(str(path), map_size=size, sync=False, **options) as env, env.begin(write=True) as txn:
        for key, value in entries:
            txn.put(key, value)
    return path


def pictures(count, seed=0, shape=(12, 10, 3)):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


def shown(stoker, data, index, tmp_path):
    stoker("show", data, "--index", str(index), "--npy", tmp_path / "shown.npy")
    return np.load(tmp_path / "shown.npy")


def numbered(values):
    return ((f"{i:08d}".encode(), value) for i, value in enumerate(values))


def test_encoded_images(stoker, tmp_path):
    images = pictures(20)
    data = write(tmp_path / "db", numbered(png(image) for image in images))
    report = stoker("inspect", data, "--json", "--verify").json()
    assert (report["format"], report["samples"], report["codecs"]) == ("lmdb", 20, {"png": 20})
    assert report["bad"] == []
    assert report["bytes"] == (data / "data.mdb").stat().st_size
    assert np.array_equal(shown(stoker, data, 7, tmp_path), images[7])


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pickled_dicts(stoker, tmp_path, protocol):
    images = pictures(12, protocol)
    records = [
        {"image": images[i] if i % 3 else png(images[i]), "label": [i % 4, np.int64(i % 4), bool(i % 2)][i % 3]}
        for i in range(12)
    ]
    data = write(tmp_path / "db", numbered(pickle.dumps(record, protocol=protocol) for record in records))
    report = stoker("inspect", data, "--json", "--verify").json()
    assert (report["samples"], report["bad"]) == (12, [])
    labels = [int(record["label"]) for record in records]
    assert report["class_counts"] == [labels.count(label) for label in range(max(labels) + 1)]
    for i in (0, 1):  # encoded, and as an array
        assert np.array_equal(shown(stoker, data, i, tmp_path), images[i])


@pytest.mark.parametrize("axes", [(2, 0, 1), (1, 0, 2), (2, 1, 0)])
def test_pickled_arrays_with_permuted_axes(stoker, tmp_path, axes):
    """NumPy writes them in protocol 5, since 2.3 with the order of the axes."""
    images = pictures(6)
    records = [{"image": image.transpose(np.argsort(axes)).copy().transpose(axes), "label": 0} for image in images]
    assert not records[0]["image"].flags.c_contiguous and np.array_equal(records[0]["image"], images[0])
    data = write(tmp_path / "db", numbered(pickle.dumps(record, protocol=5) for record in records))
    assert stoker("inspect", data, "--json", "--verify").json()["bad"] == []
    assert np.array_equal(shown(stoker, data, 1, tmp_path), images[1])


@pytest.mark.parametrize(
    "record",
    [
        lambda image, label: {"img": image, "y": label},
        lambda image, label: {"data": png(image), "targets": np.array([label])},
        lambda image, label: {"x": np.asfortranarray(image), "label": np.uint8(label)},
        lambda image, label: (image, label),
        lambda image, label: [label, png(image)],
        lambda image, label: (np.frombuffer(png(image), dtype=np.uint8), label),
        lambda image, label: {"image": np.ascontiguousarray(image.transpose(2, 0, 1)), "label": label},
    ],
)
def test_other_records(stoker, tmp_path, record):
    images = pictures(3, 5)
    values = [pickle.dumps(record(image, label)) for label, image in enumerate(images)]
    data = write(tmp_path / "one.lmdb", numbered(values), subdir=False)
    report = stoker("inspect", data, "--json", "--verify").json()
    assert (report["samples"], report["class_counts"], report["bad"]) == (3, [1, 1, 1], [])
    for i in range(3):
        assert np.array_equal(shown(stoker, data, i, tmp_path), images[i])


def test_keys_in_no_row(stoker, tmp_path):
    images = pictures(40, 9)
    keys = [hashlib.sha1(bytes([i])).digest() if i % 2 else f"猫/{i * 37}".encode() for i in range(40)]
    entries = dict(zip(keys, (png(image) for image in images), strict=True))
    entries[b"__keys__"] = pickle.dumps(keys)
    entries[b"__len__"] = pickle.dumps(40)
    entries[b"__classes__"] = pickle.dumps(["cat", "dog"])
    data = write(tmp_path / "db", entries.items())
    report = stoker("inspect", data, "--json", "--verify").json()
    assert (report["samples"], report["classes"], report["bad"]) == (40, ["cat", "dog"], [])
    order = sorted(range(40), key=lambda i: keys[i])
    for position in (0, 1, 20, 39):
        assert np.array_equal(shown(stoker, data, position, tmp_path), images[order[position]])


def test_a_million_keys(stoker, tmp_path):
    value = png(np.full((1, 1), 200, np.uint8))
    keys = sorted(str(i).encode() for i in range(1_000_000))
    with lmdb.open(str(tmp_path / "db"), map_size=1 << 30, sync=False) as env, env.begin(write=True) as txn:
        txn.cursor().putmulti(((k, value) for k in keys), append=True)
    report = stoker("inspect", tmp_path / "db", "--json").json()
    assert (report["samples"], report["bad"]) == (1_000_000, [])
    assert shown(stoker, tmp_path / "db", 999_999, tmp_path).tolist() == [[[200, 200, 200]]]


READ_ALL = """
import sys, lmdb
env = lmdb.open(sys.argv[1], readonly=True)
with env.begin() as txn:
    print(sum(1 for _ in txn.cursor()), flush=True)
    sys.stdin.read()
"""


def test_several_processes_at_once(stoker, tmp_path):
    images = pictures(300, 10)
    data = write(tmp_path / "db", numbered(png(image) for image in images))
    reader = subprocess.Popen(
        [sys.executable, "-c", READ_ALL, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout.readline() == "300\n"
    both = [
        subprocess.Popen([PROGRAM, "inspect", data, "--verify", "--json"], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        report = json.loads(process.communicate(timeout=60)[0])
        assert (process.returncode, report["samples"], report["bad"]) == (0, 300, [])
    reader.communicate(input="")
    assert reader.returncode == 0


def test_a_folder_that_is_not_ours(stoker):
    # Neither a lock file nor a cache can be made. Root may write whatever the mode says, so another user reads.
    prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    with tempfile.TemporaryDirectory() as folder:
        data = write(Path(folder) / "db", ((f"k{i}".encode(), png(image)) for i, image in enumerate(pictures(4, 11))))
        for lock in (True, False):
            if not lock:
                (data / "lock.mdb").unlink()
            Path(folder).chmod(0o755)
            data.chmod(0o555)
            if prefix and subprocess.run([*prefix, PROGRAM, "--version"], capture_output=True).returncode != 0:
                pytest.skip("another user cannot run the program")
            report = stoker("inspect", data, "--verify", "--json", prefix=prefix).json()
            data.chmod(0o755)
            assert (report["samples"], report["bad"], (data / "lock.mdb").exists()) == (4, [], lock)


def test_training_asks_for_the_classes(stoker, tmp_path, recipe):
    data = write(tmp_path / "db", numbered(pickle.dumps((image, 0)) for image in pictures(8)))
    done = stoker("train", recipe(train=str(data)), status=None)
    assert done.status != 0
    if "stoker-engine" in done.err:
        pytest.skip("needs the engine")
    assert "model.classes" in done.err


@pytest.mark.parametrize("keys", ["sequence", "words"])
def test_the_format_of_lmdb_1(stoker, tmp_path, keys):
    """Small values in leaves of several levels, some of odd lengths, and large ones on overflow pages."""
    images = [*pictures(600), *pictures(3, shape=(90, 80, 3))]
    names = [f"{i:08d}" if keys == "sequence" else hashlib.sha256(b"%d" % i).hexdigest()[: 5 + i % 7] for i in range(603)]
    values = [pickle.dumps({"image": image, "label": i % 5}) for i, image in enumerate(images)]
    entries = sorted(zip(map(str.encode, names), values, strict=True))
    old, new = (write(tmp_path / f"db{version}", entries, lib_version=version) for version in (0, 1))
    assert [stoker("inspect", data, "--json", "--verify").json()["bad"] for data in (old, new)] == [[], []]
    read, expected = (open_dataset(data) for data in (new, old))
    assert len(read) == len(expected) == 603
    for one, other in zip(read, expected, strict=True):
        assert one["key"] == other["key"] and one["label"] == other["label"] and (one["image"] == other["image"]).all()


def test_a_cut_or_encrypted_file_of_lmdb_1_is_refused(stoker, tmp_path):
    data = write(tmp_path / "db", numbered(pickle.dumps((image, 1)) for image in pictures(400)), lib_version=1)
    file = data / "data.mdb"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    cut = stoker("inspect", data, "--verify", status=1)
    assert (cut.out + cut.err).count("damage") >= 1 or "cut short" in cut.err, cut.err
    flags = 24 + 24 + 4  # of the free pages, in the first meta page
    encrypted = bytearray(whole)
    for page in (0, 4096):
        encrypted[page + flags + 1] |= 0x20
    file.write_bytes(encrypted)
    assert "an encrypted one" in stoker("inspect", data, status=1).err
