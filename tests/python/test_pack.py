# `stoker pack`, `unpack` and `inspect` on stk: the packed data set equals the source sample by sample, killed packings
# are resumed, damage is found and located. A reader written from formats/stk/FORMAT.md alone reads the same.
import json
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import run_program

def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def keys_of(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*"))


class StkReader:
    """Follows formats/stk/FORMAT.md, for data sets with an image and a label."""

    def __init__(self, folder):
        manifest = json.loads((folder / "stk.json").read_text())
        assert (manifest["format"], manifest["version"]) == ("stk", 1)
        self.samples = []  # (key, label, codec, height, width, channels, flags, bytes)
        for number, shard in enumerate(manifest["shards"]):
            data = (folder / f"shard-{number:06}.stk").read_bytes()
            assert len(data) == shard["bytes"]
            self.read_shard(data, number, shard)
        assert len(self.samples) == manifest["samples"]

    def read_shard(self, data, number, shard):
        magic, version, own_number, first = struct.unpack_from("<8sIIQ", data)
        assert (magic, version, own_number, first) == (b"\x89stk\r\n\x1a\n", 1, number, len(self.samples))
        footer = struct.unpack("<9QII32xQ8s", data[-128:])
        count, index, index_size, _, schema, schema_size, _, size, first_again, _, _, hash_, magic_again = footer
        assert (size, first_again, magic_again, f"{hash_:016x}") == (len(data), first, magic, shard["hash"])
        assert (count, index % 64, index + index_size) == (shard["samples"], 0, schema)
        self.read_schema(data[schema : schema + schema_size])

        align = lambda at: (at + 63) // 64 * 64
        ends = struct.unpack_from(f"<{count}Q", data, index)
        images = index + align(8 * count)
        labels = images + align(40 * count)
        text = labels + align(8 * count)
        expected = 64
        for i in range(count):
            key = data[text + (ends[i - 1] if i else 0) : text + ends[i]].decode()
            offset, size, _, codec, flags, height, width, channels = struct.unpack_from("<3QHH3I", data, images + 40 * i)
            assert offset == expected
            expected = align(offset + size)
            (label,) = struct.unpack_from("<q", data, labels + 8 * i)
            self.samples.append((key, label, codec, height, width, channels, flags, data[offset : offset + size]))
        assert expected == index

    def read_schema(self, data):
        assert struct.unpack_from("<I4B2I", data) == (2, 1, 0, 0, 0, 5, 0) and data[16:21] == b"image"
        assert data[21] == 2 and data[33:38] == b"label"
        (count,) = struct.unpack_from("<I", data, 29)
        at, self.classes = 38, []
        for _ in range(count):
            (size,) = struct.unpack_from("<I", data, at)
            self.classes.append(data[at + 4 : at + 4 + size].decode())
            at += 4 + size
        assert at == len(data)


def test_a_reader_written_from_the_page_alone(stoker, drawn, tmp_path):
    stoker("pack", drawn, "x.stk", "--shard-size", "300KB")
    reader = StkReader(tmp_path / "x.stk")
    assert len(list((tmp_path / "x.stk").glob("shard-*"))) > 2
    assert reader.classes == sorted(path.name for path in drawn.iterdir())
    for sample, key in zip(reader.samples, keys_of(drawn), strict=True):
        label = reader.classes.index(key.split("/")[0])
        assert sample == (key, label, 1, 0, 0, 0, 1, (drawn / key).read_bytes())


def test_the_packed_set_shows_what_the_folder_shows(stoker, drawn, tmp_path):
    report = stoker("pack", drawn, "x.stk", "--codec", "dct-zstd", "--shard-size", "1MiB", "--json").json()
    assert (report["samples"], report["codecs"], report["kept"], report["skipped"]) == (24, {"dct-zstd": 24}, {}, [])
    assert report["bytes_in"] == sum(len(data) for data in contents(drawn).values())
    assert report["bytes_out"] == sum(len(data) for data in contents(tmp_path / "x.stk").values())
    for index in (0, 20):
        shown = []
        for data in (drawn, "x.stk"):
            sample = stoker("show", data, "--index", index, "--npy", "s.npy", "--json").json()["samples"]
            shown.append((sample, np.load(tmp_path / "s.npy")))
        assert shown[0][0] == shown[1][0]
        assert (shown[0][1] == shown[1][1]).all()


def test_a_recipe_draws_the_same_batch(stoker, drawn, recipe, tmp_path):
    ops = '{op = "random_resized_crop", size = 64}, {op = "horizontal_flip"}, {op = "normalize", preset = "imagenet"}'
    stoker("pack", drawn, "x.stk", "--codec", "dct")
    path = recipe(ops=ops, train=str(drawn))
    shown = []
    for data in (drawn, "x.stk"):
        stoker("show", data, "--recipe", path, "--epoch", 3, "--index", 7, "--npy", "s.npy")
        shown.append(np.load(tmp_path / "s.npy"))
    assert shown[0].dtype == np.float32 and (shown[0] == shown[1]).all()


def test_digits_with_their_splits(stoker, tmp_path):
    stoker("synth", "digits", "d", "--count", 120)
    stoker("pack", "d", "train.stk")
    stoker("pack", "d", "-o", "test.stk", "--test")  # as the commands that have no second argument
    for split, name, count in (([], "train.stk", 120), (["--test"], "test.stk", 20)):
        folder, packed = (stoker("inspect", data, "--json").json() for data in ("d", name))
        if split:
            folder = stoker("inspect", "d", "--test", "--json").json()
        assert packed["format"] == "stk" and packed["samples"] == count
        assert packed["codecs"] == {"raw": count}
        for key in ("classes", "class_counts", "fields"):
            assert packed[key] == folder[key]
    stoker("show", "d", "--index", 5, "--npy", "a.npy")
    stoker("show", "train.stk", "--index", 5, "--npy", "b.npy")
    assert (np.load(tmp_path / "a.npy") == np.load(tmp_path / "b.npy")).all()
    assert "--test" in stoker("pack", "train.stk", "y.stk", "--test", status=1).err


def test_inspect_counts_the_codecs_of_all_samples(stoker, drawn, tmp_path):
    folder = tmp_path / "many"
    for label, file in enumerate(sorted(drawn.glob("*/00000.jpg"))):
        (folder / f"c{label}").mkdir(parents=True)
        for number in range(150):
            (folder / f"c{label}/{number:03}.jpg").symlink_to(file)
    stoker("pack", folder, "x.stk")
    report = stoker("inspect", "x.stk", "--json").json()
    assert (report["samples"], report["codecs"], report["codecs_sampled"]) == (1200, {"jpeg": 1200}, 1200)
    assert report["class_counts"] == [150] * 8 and report["bad"] == []
    assert report["bytes"] == sum(len(data) for data in contents(tmp_path / "x.stk").values())
    assert "  format    stk\n" in stoker("inspect", "x.stk").out


def test_verify_names_the_damaged_sample(stoker, drawn, tmp_path):
    stoker("pack", drawn, "x.stk", "--codec", "raw", "--shard-size", "2MB")
    reader = StkReader(tmp_path / "x.stk")
    shard = tmp_path / "x.stk/shard-000000.stk"
    data = bytearray(shard.read_bytes())
    data[64 + len(reader.samples[0][-1]) // 2] ^= 16  # one pixel
    shard.write_bytes(data)
    assert stoker("inspect", "x.stk", "--json").json()["bad"] == []
    done = stoker("inspect", "x.stk", "--verify", "--json", status=1)
    (bad,) = done.json()["bad"]
    assert (bad["key"], bad["offset"], bad["index"]) == (reader.samples[0][0], 64, 0)
    assert "hash" in bad["reason"] and "1 bad of 24 samples" in done.err


def test_damage_of_the_index_is_found_at_once(stoker, drawn, tmp_path):
    stoker("pack", drawn, "x.stk")
    shard = tmp_path / "x.stk/shard-000000.stk"
    good = shard.read_bytes()
    for bad in (good[:-1], good[:-500] + b"x" + good[-499:]):
        shard.write_bytes(bad)
        for command in (["inspect", "x.stk"], ["show", "x.stk"], ["unpack", "x.stk", "y"], ["pack", "x.stk", "y.stk"]):
            error = stoker(*command, status=1).err
            assert len(error.splitlines()) == 1 and "shard-000000.stk" in error
    assert not (tmp_path / "y").exists()


def test_nothing_to_do(stoker, drawn, tmp_path):
    first = stoker("pack", drawn, "x.stk", "--codec", "dct", "--json").json()
    before = contents(tmp_path / "x.stk")
    done = stoker("pack", drawn, "x.stk/", "--codec", "dct")
    assert "nothing to do" in done.out and contents(tmp_path / "x.stk") == before
    again = stoker("pack", drawn, "x.stk", "--codec", "dct", "--json").json()
    assert again["nothing_to_do"] and not first["nothing_to_do"]
    for key in ("samples", "bytes_in", "bytes_out", "codecs", "kept", "skipped"):
        assert again[key] == first[key]
    error = stoker("pack", drawn, "x.stk", status=1).err
    assert "--codec dct" in error and "got --codec keep" in error and len(error.splitlines()) == 1
    assert contents(tmp_path / "x.stk") == before


STOPPED = ["--codec", "dct", "--shard-size", "500KB"]


@pytest.fixture(scope="module")
def whole(many_drawn, tmp_path_factory):
    """All photos of `many_drawn`, packed."""
    folder = tmp_path_factory.mktemp("whole")
    run_program("pack", many_drawn, "whole.stk", *STOPPED, cwd=folder)
    return folder / "whole.stk"


@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGINT])
def test_a_stopped_packing_is_finished(program, stoker, many_drawn, whole, tmp_path, number):
    words = [program, "pack", many_drawn, "x.stk", *STOPPED, "--workers", "1"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (tmp_path / "x.stk/shard-000003.stk").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.005)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    killed = number == signal.SIGKILL
    assert process.returncode == (-number if killed else 128 + number)
    assert killed or b" of 240 samples are kept: " in err and b"; run the same command again to resume" in err
    assert not (tmp_path / "x.stk/stk.json").exists()
    assert "an unfinished packing" in stoker("inspect", "x.stk", status=1).err
    error = stoker("pack", many_drawn, "x.stk", "--shard-size", "500KB", status=1).err
    assert "expected --codec dct" in error and "got --codec keep" in error
    report = stoker("pack", many_drawn, "x.stk", *STOPPED, "--json").json()
    assert 0 < report["resumed_samples"] < 240 and report["samples"] == 240
    assert contents(tmp_path / "x.stk") == contents(whole)


def test_a_packing_stopped_before_its_first_shard_says_what_is_kept(program, many_drawn, tmp_path):
    words = [program, "pack", many_drawn, "x.stk", "--codec", "dct", "--workers", "1"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("x.stk/*")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "; 0 of 240 samples are kept: " in err and "resume" not in err


def test_bad_samples_are_never_lost_silently(stoker, drawn, tmp_path):
    folder = tmp_path / "spoilt"
    shutil.copytree(drawn, folder)
    cut = folder / "stars/00001.jpg"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    (folder / "dots/00000.jpg").write_text("not an image at all\n")
    error = stoker("pack", folder, "x.stk", status=1).err
    assert "dots/00000.jpg" in error and "--skip-bad" in error and len(error.splitlines()) == 1
    report = stoker("pack", folder, "x.stk", "--skip-bad", "--json").json()
    assert report["samples"] == 22
    assert [sample["key"] for sample in report["skipped"]] == ["dots/00000.jpg", "stars/00001.jpg"]
    assert stoker("inspect", "x.stk", "--verify", "--json").json()["bad"] == []
    out = stoker("pack", folder, "y.stk", "--skip-bad").out
    (line,) = (line for line in out.splitlines() if line.startswith("  skipped  dots/00000.jpg: "))
    assert line.count("dots/00000.jpg") == 1


def test_masks_and_boxes_do_not_fit_resized_images(stoker, tmp_path):
    images = np.zeros((4, 32, 32, 3), np.uint8)
    np.savez(tmp_path / "in.npz", images=images, labels=np.arange(4), mask=images[..., 0], score=np.ones(4, np.float32))
    small = ["pack", "in.npz", "x.stk", "--resize-shorter", 8, "--field", "score"]
    error = stoker(*small, "--field", "mask:mask", status=1).err
    assert "resize in data.train_ops instead" in error and len(error.splitlines()) == 1
    assert not (tmp_path / "x.stk").exists()
    stoker(*small)


def test_resize_and_quality(stoker, drawn):
    small = stoker("pack", drawn, "s.stk", "--resize-shorter", 100, "--quality", 50, "--codec", "dct", "--json").json()
    assert small["codecs"] == {"dct": 24} and small["bytes_out"] < small["bytes_in"] / 4
    image = stoker("inspect", "s.stk", "--json").json()["fields"]["image"]
    assert min(image["height"][0], image["width"][0]) == 100
    untouched = stoker("pack", drawn, "u.stk", "--resize-shorter", 5000, "--json").json()
    assert untouched["codecs"] == {"jpeg": 24}


def test_unpack_gives_the_files_back(stoker, drawn, tmp_path):
    stoker("pack", drawn, "x.stk", "--codec", "dct")
    report = stoker("unpack", "x.stk", "back", "--json").json()
    assert (report["samples"], report["original_files"] + report["same_pixels"]) == (24, 24)
    before, after = contents(drawn), contents(tmp_path / "back")
    assert before.keys() == after.keys()
    assert sum(before[key] == after[key] for key in before) == report["original_files"]
    for name, data in (("a.npy", drawn), ("b.npy", "back")):
        stoker("show", data, "--index", 9, "--npy", name)
    assert (np.load(tmp_path / "a.npy") == np.load(tmp_path / "b.npy")).all()
    assert f"  {report['original_files']} byte for byte as before packing" in stoker("unpack", "x.stk", "again").out
    assert "with files in it" in stoker("unpack", "x.stk", "back", status=1).err


def test_unpack_finds_damage(stoker, drawn, tmp_path):
    stoker("pack", drawn, "x.stk")
    shard = tmp_path / "x.stk/shard-000000.stk"
    data = bytearray(shard.read_bytes())
    key, *_, payload = StkReader(tmp_path / "x.stk").samples[0]
    data[64 + len(payload) // 2] ^= 1
    shard.write_bytes(data)
    error = stoker("unpack", "x.stk", "back", status=1).err
    assert len(error.splitlines()) == 1 and f"shard-000000.stk: {key} (sample 0) @ byte 64]" in error
    assert "the shard is damaged: copy it again, or pack again" in error
    assert not (tmp_path / "back").exists()
    assert "hash" in stoker("pack", "x.stk", "y.stk", status=1).err


@pytest.mark.parametrize(
    "options, status, said",
    [
        (["x.zip"], 1, "named like data.stk, data.tar, data-{000000..}.tar, data.lmdb, data.h5 or data.npz"),
        ([".stk"], 1, "named like data.stk"),
        (["x.stk", "--codec", "webp"], 2, "--codec"),
        (["x.stk", "--shard-size", "0"], 1, "an amount of bytes"),
        (["x.stk", "--workers", "0"], 2, "--workers"),
        (["x.stk", "--quality", "101"], 2, "--quality"),
        (["x.stk", "--quality", "50", "--codec", "raw"], 2, "--quality"),
        (["x.stk", "--resize-shorter", "0"], 2, "--resize-shorter"),
        ([], 2, "target"),
    ],
)
def test_wrong_usage(stoker, tmp_path, options, status, said):
    error = stoker("pack", "synth:digits?count=6", *options, status=status).err
    assert said in error and len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_touched(stoker, tmp_path):
    (tmp_path / "full.stk").mkdir()
    (tmp_path / "full.stk/mine.txt").write_text("mine")
    (tmp_path / "file.stk").write_text("mine")
    assert "with files in it" in stoker("pack", "synth:digits?count=6", "full.stk", status=1).err
    stoker("pack", "synth:digits?count=6", "file.stk", status=1)
    assert contents(tmp_path) == {"full.stk/mine.txt": b"mine", "file.stk": b"mine"}
    (tmp_path / "empty.stk").mkdir()
    stoker("pack", "synth:digits?count=6", "empty.stk")


def test_needs_no_libtorch(program):
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libtorch" not in libraries


def test_parts_that_are_killed_and_repeated_are_merged_to_the_same_bytes(program, many_drawn, whole, tmp_path):
    target = tmp_path / "x.stk"
    random = np.random.default_rng(5)
    for part in random.permutation(4):
        command = [program, "pack", many_drawn, target, *STOPPED, "--part", f"{part}/4"]
        for _ in range(2):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            time.sleep(random.uniform(0, 0.15))
            process.kill()
            process.wait()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    merge = [program, "pack", "--merge", target]
    process = subprocess.Popen(merge, stdout=subprocess.DEVNULL)
    time.sleep(0.01)
    process.kill()
    process.wait()
    subprocess.run(merge, check=True, stdout=subprocess.DEVNULL)
    assert contents(target) == contents(whole)


@pytest.mark.parametrize(
    "options, said",
    [
        (["--merge", "x.stk", "source", "x.stk"], "takes the target alone"),
        (["source"], "target is required"),
        (["synth:digits", "x.stk", "--part", "3of8"], "INDEX/COUNT, such as 0/8"),
        (["synth:digits", "x.tar", "--part", "0/8"], "a target x.stk"),
        (["--merge", "x.stk"], "its parts beside it"),
        (["--merge", "x.stk", "--codec", "dct"], "--merge: takes no --codec"),
    ],
)
def test_parts_that_cannot_be(program, tmp_path, options, said):
    done = subprocess.run([program, "pack", *options], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (1, 2) and said in done.stderr


CLUSTERS = Path(__file__).resolve().parents[2] / "docs/clusters"


@pytest.mark.parametrize("path", sorted(CLUSTERS.glob("*.*")), ids=lambda path: path.name)
def test_the_jobs_for_clusters_are_well_formed(program, path):
    if path.suffix == ".sh":
        subprocess.run(["bash", "-n", path], check=True)
    elif path.suffix == ".py":
        compile(path.read_text(), str(path), "exec")
    elif path.suffix == ".yaml":
        documents = list(pytest.importorskip("yaml").safe_load_all(path.read_text()))
        job = documents[-1]
        if job["kind"] == "PyTorchJob":
            assert list(job["spec"]["pytorchReplicaSpecs"]) == ["Master", "Worker"]
        else:
            assert job["kind"] == "Job" and job["spec"]["completionMode"] == "Indexed"
            assert job["spec"]["completions"] == job["spec"]["parallelism"]
    used = [word for word in ("--part", "--merge", "--codec") if word in path.read_text()]
    known = subprocess.run([program, "pack", "--help"], capture_output=True, text=True).stdout
    assert all(word in known for word in used)
