# `stoker synth`: the files have the right format, depend on the seed only, and appear all together or not at all.
import hashlib
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import run_program
from PIL import Image
from torchvision.datasets import MNIST, ImageFolder

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import namespaces

NAMES = ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "train-images-idx3-ubyte", "train-labels-idx1-ubyte"]


def digest(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_digits_are_read_by_torchvision(stoker, tmp_path):
    stoker("synth", "digits", "MNIST/raw", "--count", 600)
    assert sorted(path.name for path in (tmp_path / "MNIST/raw").iterdir()) == NAMES
    train, test = MNIST(tmp_path, train=True), MNIST(tmp_path, train=False)
    assert (len(train), len(test)) == (600, 100)
    assert train.data.shape == (600, 28, 28) and set(train.targets.tolist()) == set(range(10))
    assert 20 < train.data.float().mean() < 60  # MNIST's mean is 33
    report = stoker("inspect", "MNIST/raw", "--json").json()
    assert report["class_counts"] == np.bincount(train.targets).tolist()


def test_digits_are_those_of_the_data_specification(stoker, tmp_path):
    stoker("synth", "digits", "d", "--count", 60, "--seed", 3)
    stoker("show", "synth:digits?count=60&seed=3", "--index", 42, "--npy", "a.npy")
    stoker("show", "d", "--index", 42, "--npy", "b.npy")
    assert (np.load(tmp_path / "a.npy") == np.load(tmp_path / "b.npy")).all()


def test_the_header_of_digits(stoker, tmp_path):
    stoker("synth", "digits", "plain", "--count", 60)
    header = struct.unpack(">IIII", (tmp_path / "plain/train-images-idx3-ubyte").read_bytes()[:16])
    assert header == (0x803, 60, 28, 28)


def test_photos(stoker, tmp_path):
    stoker("synth", "photos", "p", "--count", 80)
    data = ImageFolder(tmp_path / "p")
    assert len(data) == 80 and len(data.classes) == 8
    kinds = set()
    for path, _ in data.samples:
        image = Image.open(path)
        assert image.mode == "RGB" and all(320 <= side <= 640 for side in image.size)
        kinds.add((image.layer[0][1:3], bool(image.info.get("progressive"))))
        image.load()
    assert {((2, 2), False), ((1, 1), False), ((2, 2), True)} <= kinds  # 4:2:0, 4:4:4, progressive
    assert stoker("inspect", "p", "--verify", "--json").json()["bad"] == []


@pytest.mark.parametrize("kind", ["digits", "photos"])
def test_the_seed_decides(stoker, tmp_path, kind):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        stoker("synth", kind, name, "--count", 12, "--seed", seed)
    a, b, c = (digest(tmp_path / name) for name in "abc")
    assert a == b and a.keys() == c.keys() and a != c


def test_existing_files_are_not_touched(stoker, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    assert "with files in it" in stoker("synth", "digits", "full/", "--count", 6, status=1).err
    assert "a file" in stoker("synth", "digits", "file", "--count", 6, status=1).err
    stoker("synth", "digits", "empty/", "--count", 6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "full"]
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]


def test_what_cannot_be_replaced_is_said_before_the_work(stoker, tmp_path):
    for target in (".", "", tmp_path, "/"):
        error = stoker("synth", "digits", target, "--count", 6, status=1).err
        assert "name a new folder" in error and len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    if namespaces.why_not():
        pytest.skip("needs root to mount")
    (tmp_path / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "disk"], check=True)
    try:
        error = stoker("synth", "digits", "disk", "--count", 6, status=1).err
    finally:
        subprocess.run(["umount", tmp_path / "disk"], check=True)
    assert "an empty folder that can be replaced" in error and len(error.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["disk"]


def test_a_link_leads_to_the_folder(stoker, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    stoker("synth", "digits", "link", "--count", 6)
    assert (tmp_path / "link").is_symlink() and sorted(p.name for p in (tmp_path / "real").iterdir()) == NAMES


def test_folders_of_others_are_not_taken_for_leftovers(stoker, tmp_path):
    for name in ("d.tmp-old", "d.tmp-", "d.tmp-1x"):
        (tmp_path / name).mkdir()
    (tmp_path / "d.tmp-4711").mkdir()
    stoker("synth", "digits", "d", "--count", 6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "d.tmp-", "d.tmp-1x", "d.tmp-old"]


@pytest.mark.parametrize("options", [["cats", "d"], ["digits"], ["digits", "d", "--count", "0"], ["digits", "d", "--seed", "x"]])
def test_wrong_usage(stoker, tmp_path, options):
    stoker("synth", *options, status=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number, kept", [(signal.SIGTERM, 0), (signal.SIGKILL, 1)])
def test_ended_half_way_it_leaves_nothing_under_the_name(program, tmp_path, number, kept):
    process = subprocess.Popen(
        [program, "synth", "photos", "p", "--count", "5000"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("*.jpg")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (-number if kept else 128 + number)
    assert not (tmp_path / "p").exists()
    assert len(list(tmp_path.iterdir())) == kept  # killed, it leaves a folder named p.tmp-PID
    assert kept or b"nothing was kept" in err
    run_program("synth", "photos", "p", "--count", "8", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["p"]  # the files of a killed process are removed
