# The memory that the process may use: in a real cgroup where this test may make one, otherwise by --memory and
# data.memory. A run ends by a message or continues without its cache; the kernel never kills it.
import gzip
import json
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import PROGRAM
from PIL import Image

MIB = 1 << 20


class Cgroup:
    """A new memory cgroup, v2 or v1."""

    def __init__(self, limit):
        v2 = Path("/sys/fs/cgroup/cgroup.controllers")
        parent = Path("/sys/fs/cgroup") if v2.exists() else Path("/sys/fs/cgroup/memory")
        if v2.exists() and "memory" not in (parent / "cgroup.subtree_control").read_text().split():
            raise OSError("memory is not delegated")
        self.folder = parent / f"stoker-test-{os.getpid()}"
        self.folder.mkdir()
        try:
            name = "memory.max" if v2.exists() else "memory.limit_in_bytes"
            (self.folder / name).write_text(str(limit))
        except OSError:
            self.folder.rmdir()
            raise

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))


@pytest.fixture
def limited(tmp_path):
    """Runs the program in a cgroup with a limit in MiB."""
    groups = []

    def run(limit, *arguments):
        try:
            group = Cgroup(limit * MIB)
        except OSError as error:
            pytest.skip(f"needs to make a cgroup: {error}")
        groups.append(group)
        command = [str(PROGRAM), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, preexec_fn=group.enter)
        group.folder.rmdir()
        groups.remove(group)
        return done

    yield run
    for group in groups:
        group.folder.rmdir()


def deflated_npz(path, mib):
    """A file of less than a hundredth of the images' size."""
    shape = (mib, 1024, 1024)
    deflated = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with deflated as file, file.open("images.npy", "w") as out:
        np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for _ in range(mib):
            out.write(bytes(MIB))


def gzipped_idx(folder, mib):
    folder.mkdir()
    with gzip.open(folder / "train-images-idx3-ubyte.gz", "wb", compresslevel=1) as out:
        out.write(struct.pack(">IIII", 0x803, mib, 1024, 1024))
        for _ in range(mib):
            out.write(bytes(MIB))
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, mib) + bytes(mib))


def is_one_line(text, *words):
    assert text.startswith("stoker: [") and text.count("\n") == 1, text
    for word in words:
        assert word in text, text


def test_compressed_data_beyond_the_cgroups_limit_is_refused(limited, tmp_path):
    deflated_npz(tmp_path / "bomb.npz", 240)
    gzipped_idx(tmp_path / "idx", 240)
    for name in ["bomb.npz", "idx"]:
        done = limited(200, "inspect", name)
        assert done.returncode == 1, (done.returncode, done.stderr)
        is_one_line(done.stderr, f"[{name}", "240 MiB", "of the 200 MiB that the cgroup allows", "--memory")


def test_the_limit_can_be_given(stoker, tmp_path):
    deflated_npz(tmp_path / "x.npz", 100)
    is_one_line(stoker("inspect", "x.npz", "--memory", "64MiB", status=1).err, "[x.npz", "100 MiB", "64.0 MiB")
    is_one_line(stoker("pack", "x.npz", "x.stk", "--memory", "64MiB", status=1).err, "[x.npz", "100 MiB")
    assert stoker("inspect", "x.npz", "--memory", "1GiB", "--json").json()["samples"] == 100
    assert "expected an amount of bytes" in stoker("inspect", "x.npz", "--memory", "much", status=2).err


def test_a_limit_without_its_unit_is_refused(stoker, recipe):
    words = ["expected", "at least 64MiB", "8GiB"]
    given = stoker("inspect", "synth:digits", "--memory", "8", status=2).err
    assert all(word in given for word in words), given
    for value in ("8", '"1MiB"'):
        is_one_line(stoker("show", "--recipe", recipe(), "--set", f"data.memory={value}", status=2).err, *words)


def test_huge_images_are_refused(limited, tmp_path):
    (tmp_path / "photos" / "a").mkdir(parents=True)
    for number in range(2):
        Image.new("RGB", (9000, 9000)).save(tmp_path / "photos" / "a" / f"{number}.png", compress_level=1)
    done = limited(150, "bench", "pipeline", "--data", "photos", "--rounds", "1", "--batches", "1", "--batch", "2")
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    if done.returncode == 1:
        is_one_line(done.stderr, "photos: a/", "MiB that the cgroup allows", "data.workers")


RECIPE = """
seed = 1
[data]
train = "images"
batch_size = 16
workers = 2
cache = "ram"
train_ops = [{op = "normalize", mean = [0.5, 0.5, 0.5], std = [0.5, 0.5, 0.5]}]
[model]
hidden = [4]
[train]
epochs = 2
threads = 1
"""


@pytest.fixture
def images(tmp_path):
    """600 MB of decoded pixels in small files: links to one of each class."""
    for label, name in enumerate("ab"):
        folder = tmp_path / "images" / name
        folder.mkdir(parents=True)
        Image.new("RGB", (500, 500), (100 * label, 80, 7)).save(folder / "0.png")
        for number in range(1, 400):
            os.link(folder / "0.png", folder / f"{number}.png")
    (tmp_path / "r.toml").write_text(RECIPE)


def test_a_cache_in_memory_stops_before_the_cgroups_limit(limited, images, tmp_path):
    done = limited(500, "train", "r.toml", "--out", "run")
    assert done.returncode == 0, (done.returncode, done.stderr)
    lines = [line for line in done.stderr.splitlines() if "the cache stopped growing" in line]
    assert len(lines) == 1 and "of the 500 MiB that the cgroup allows are free" in lines[0], done.stderr


def test_low_memory_is_said_in_words(recipe, tmp_path):
    path = recipe("", "batch_size = 60", rest="[model]\nhidden = [1000000]\n")  # 784 x 1,000,000 floats are 2.9 GiB
    command = ["prlimit", f"--as={3000 * MIB}", str(PROGRAM), "train", path, "--out", "run"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1, (done.returncode, done.stderr)
    is_one_line(done.stderr, "[memory]", "2.9 GiB asked for at once", "of the 2.9 GiB that ulimit -v allows", "model")


PARENT = """
import json, subprocess, sys
large = bytearray(b"x") * (800 << 20)
print(json.loads(subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True).stdout)["peak_rss_mb"])
"""


def test_the_peak_is_the_programs_own(recipe, tmp_path):
    """Not that of the process that started it, which a new program inherits in ru_maxrss."""
    path = recipe('{op = "resize", size = [8, 8]}', "batch_size = 20", rest="[train]\nepochs = 1")
    words = ["train", path, "--out", "run", "--json"]
    command = [sys.executable, "-c", PARENT, str(PROGRAM), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert 1 < float(done.stdout) < 700


LARGE_STEP = """
device = "cpu"
[data]
train = "synth:digits?count=64"
batch_size = 64
workers = 1
prefetch = 1
train_ops = [{op = "resize", size = [64, 64]}]
[model]
name = "resnet18"
stem = "cifar"
[train]
epochs = 1
threads = 2
"""


# The whole step takes 2.6 GiB. With 1350 MiB, memory runs out in an operator's own buffers if nothing is kept for them.
@pytest.mark.slow
@pytest.mark.parametrize("limit", [1350])
def test_a_step_beyond_the_cgroups_limit_is_split(limit, limited, tmp_path):
    (tmp_path / "r.toml").write_text(LARGE_STEP)
    done = limited(limit, "train", "r.toml", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "[memory] a batch does not fit: steps are split into" in done.stderr
    lines = map(json.loads, (tmp_path / "run/metrics.jsonl").read_text().splitlines())
    assert max(line["train"]["accumulate"] for line in lines if line["type"] == "facts") > 1
