# The index of JPEGs: pixels do not depend on its content, nor on the processes that write it; `stoker index` fills it.
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import PROGRAM, PYTHON_PACKAGE, run_program
from PIL import Image

KINDS = {
    "444": {"subsampling": 0, "quality": 90},
    "422": {"subsampling": 1, "quality": 80},
    "420": {"subsampling": 2, "quality": 95},
    "optimized": {"subsampling": 2, "quality": 90, "optimize": True},
    "restarts": {"subsampling": 2, "quality": 90, "restart_marker_blocks": 7},
    "progressive": {"quality": 90, "progressive": True},
    "grey": {"mode": "L", "quality": 95},
    "cmyk": {"mode": "CMYK", "quality": 90},
}


def jpeg(seed, mode="RGB", size=(331, 257), **how):
    noise = np.random.default_rng(seed).integers(0, 256, (32, 40, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).resize(size, Image.BICUBIC).convert(mode).save(out, "JPEG", **how)
    return out.getvalue()


@pytest.fixture(scope="module")
def files():
    """One of each kind, and damaged ones."""
    images = {f"{kind}-{i}": jpeg(i, size=(331 + i, 257 + 3 * i), **how) for kind, how in KINDS.items() for i in range(3)}
    rng = np.random.default_rng(5)
    for name in [name for name in images if name.endswith("1")]:
        damaged = bytearray(images[name])
        damaged[int(rng.integers(len(damaged) // 2, len(damaged)))] ^= 0x55
        images[f"damaged-{name}"] = bytes(damaged)
        images[f"short-{name}"] = images[name][: len(images[name]) * 2 // 3]
    return images


@pytest.fixture
def folder(files, tmp_path):
    for i, (name, content) in enumerate(files.items()):
        path = tmp_path / f"data/{i % 2}/{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/jpeg_index_1"


LOAD = """
import hashlib, json, sys, stoker, warnings
from stoker.transforms import RandomResizedCrop
warnings.simplefilter("ignore")
source, epochs, index = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "index"
loader = stoker.Loader(source, 8, ops=[RandomResizedCrop(64)], workers=2, seed=3, bad_samples="50%", dtype="uint8",
                       framework="numpy", jpeg_index=index)
for _ in range(epochs):
    epoch = hashlib.sha256()
    for batch in loader:
        epoch.update(batch["index"].tobytes() + batch["image"].tobytes())
    print(epoch.hexdigest())
"""


def start(source, epochs=3, index="index"):
    environment = {**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)}
    command = [sys.executable, "-c", LOAD, str(source), str(epochs), index]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def epochs_of(process):
    """A hash of each epoch's order and pixels."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.split()


def index_file(cache):
    (found,) = cache.iterdir()
    return found


@pytest.fixture
def expected(folder, cache):
    hashes = epochs_of(start(folder, index="none"))
    assert not cache.exists() and len(set(hashes)) == 3
    return hashes


def test_pixels_are_the_same(folder, cache, expected):
    assert epochs_of(start(folder)) == expected
    learned = index_file(cache).read_bytes()
    assert epochs_of(start(folder)) == expected
    report = run_program("index", folder, "--json", cwd=folder).json()
    assert report["images"] >= 12 and report["file"] == str(index_file(cache))
    assert len(learned) <= report["bytes"] == index_file(cache).stat().st_size
    assert epochs_of(start(folder)) == expected
    assert index_file(cache).stat().st_size == report["bytes"]


def test_two_processes_fill_one_index(folder, cache, expected):
    processes = [start(folder) for _ in range(2)]
    assert all(epochs_of(process) == expected for process in processes)
    both = index_file(cache).stat().st_size
    run_program("index", folder, cwd=folder)
    assert both > 0.5 * index_file(cache).stat().st_size
    assert epochs_of(start(folder)) == expected


def test_an_index_of_other_images(folder, cache, expected, tmp_path):
    (tmp_path / "other/all").mkdir(parents=True)
    for i in range(20):
        (tmp_path / f"other/all/{i}.jpg").write_bytes(jpeg(100 + i, quality=90))
    other = Path(run_program("index", tmp_path / "other", "--json", cwd=tmp_path).json()["file"])
    mine = Path(run_program("index", folder, "--json", cwd=tmp_path).json()["file"])
    mine.write_bytes(other.read_bytes())
    assert epochs_of(start(folder)) == expected


def test_a_damaged_index(folder, cache, expected):
    run_program("index", folder, cwd=folder)
    whole = index_file(cache).read_bytes()
    rng = np.random.default_rng(7)
    for trial in range(4):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(whole), 30):
            damaged[at] ^= int(rng.integers(1, 256))
        index_file(cache).write_bytes([damaged, whole[: len(whole) // 3], b"", b"something else" * 99][trial])
        assert epochs_of(start(folder)) == expected


def test_nowhere_to_write(folder, cache, expected):
    cache.parent.mkdir()
    cache.write_text("a file in the folder's place")
    assert epochs_of(start(folder)) == expected
    assert "jpeg_index" in run_program("index", folder, cwd=folder, status=1).err


def test_killed_while_it_is_written(folder, cache, expected, tmp_path):
    (tmp_path / "many/all").mkdir(parents=True)
    for i in range(400):
        (tmp_path / f"many/all/{i}.jpg").write_bytes(jpeg(i, size=(700, 500), quality=98))
    sizes = [0]
    for _ in range(4):
        process = subprocess.Popen([PROGRAM, "index", str(tmp_path / "many")], stderr=subprocess.DEVNULL)
        while process.poll() is None and sum(file.stat().st_size for file in cache.glob("*")) <= sizes[-1]:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        sizes.append(index_file(cache).stat().st_size)
    plain = epochs_of(start(tmp_path / "many", index="none"))
    assert epochs_of(start(tmp_path / "many")) == plain
    report = run_program("index", tmp_path / "many", "--json", cwd=tmp_path).json()
    assert report["images"] == 400 and report["bad"] == 0
    assert 0 < sizes[1] < report["bytes"]
    data = sum(file.stat().st_size for file in (tmp_path / "many/all").iterdir())
    assert report["bytes"] < 0.02 * data


def test_every_format(files, tmp_path, cache):
    good = {name: content for name, content in files.items() if "-" in name and not name.startswith(("damaged", "short"))}
    with tarfile.open(tmp_path / "data.tar", "w") as tar:
        for name, content in good.items():
            for suffix, part in ((".jpg", content), (".cls", b"0")):
                entry = tarfile.TarInfo(name.replace("-", "_") + suffix)
                entry.size = len(part)
                tar.addfile(entry, io.BytesIO(part))
    for target in ("data.stk", "data.lmdb", "data.h5"):
        run_program("pack", "data.tar", target, "--codec", "keep", cwd=tmp_path)
    for source in ("data.tar", "data.stk", "data.lmdb", "data.h5"):
        plain = epochs_of(start(tmp_path / source, index="none"))
        report = run_program("index", tmp_path / source, "--json", cwd=tmp_path).json()
        assert report["images"] >= 12, source
        assert epochs_of(start(tmp_path / source)) == plain
    assert len(list(cache.iterdir())) == 4


def test_a_share_for_validation_uses_the_same(folder, cache, recipe):
    ops = '{op = "random_resized_crop", size = 32}'
    rest = '[model]\nhidden = [8]\n[train]\nepochs = 1\n'
    more = 'batch_size = 4\nbad_samples = "50%"\nval = "30%"\n'
    run_program("index", folder, cwd=folder)
    before = index_file(cache).read_bytes()
    run_program("train", recipe(ops, more, train=folder, rest=rest), "--out", "run", cwd=folder.parent)
    assert index_file(cache).read_bytes() == before
    run_program("predict", "run", folder, "-o", "out.json", cwd=folder.parent)
    assert index_file(cache).read_bytes() == before


def test_of_photographs(photos, cache, tmp_path):
    report = run_program("index", photos, "--json", cwd=tmp_path).json()
    inspected = run_program("inspect", photos, "--json", cwd=tmp_path).json()
    assert report["images"] + report["others"] == inspected["samples"] and report["bad"] == 0
    assert 0.003 < report["bytes"] / inspected["bytes"] < 0.01
    again = run_program("index", photos, "--json", cwd=tmp_path).json()
    assert again == report


def test_training_uses_it_unless_told_not_to(folder, cache, recipe):
    ops = '{op = "random_resized_crop", size = 32}'
    rest = '[model]\nhidden = [8]\n[train]\nepochs = 1\n'
    more = 'batch_size = 8\nbad_samples = "50%"\n'
    off = recipe(ops, more + "jpeg_index = false", train=folder, rest=rest)
    run_program("train", off, "--out", "off", cwd=folder.parent)
    assert not cache.exists()
    on = recipe(ops, more, train=folder, rest=rest)
    run_program("train", on, "--out", "on", cwd=folder.parent)
    assert index_file(cache).stat().st_size > 100
    losses = [
        [line.get("train_loss") for line in map(json.loads, (folder.parent / run / "metrics.jsonl").open())]
        for run in ("off", "on")
    ]
    assert losses[0] == losses[1]
