# What commands say of images that they leave out, and the ways to name images for `stoker predict`.
import csv
import os
import warnings

import numpy as np
import pytest
import stoker
from conftest import draw_noise, run_program, small_recipe
from PIL import Image


@pytest.fixture(scope="module")
def trained(program, tmp_path_factory):
    """The folder train/ with classes a and b, and a run of it."""
    here = tmp_path_factory.mktemp("trained")
    for i in range(8):
        draw_noise(here / "train" / "ab"[i % 2] / f"{i}.png", i)
    (here / "r.toml").write_text(small_recipe("train"))
    run_program("train", "r.toml", "--out", "run", cwd=here)
    return here


@pytest.fixture
def mixed(here):
    """Class folders with images below them, and outside of them files without a class or a decoder."""
    for name in ("mixed/a/1.png", "mixed/a/more/2.png", "mixed/b/3.png", "mixed/top.png", "mixed/up.png"):
        draw_noise(here / name)
    (here / "mixed/a/4.psd").write_bytes(b"8BPS")
    (here / "mixed/5.svg").write_text("<svg/>")
    (here / "mixed/notes.txt").write_text("no image")
    return here


LINE = (
    "mixed: left out: 2 loose images beside the class folders (top.png, ...); 1 .psd file (a/4.psd), 1 .svg file "
    "(5.svg): convert to .png or .jpg\n"
)


def keys(done):
    return [row["key"] for row in csv.DictReader(done.out.splitlines())]


def predict(here, *arguments, status=0):
    return run_program("predict", "run", *arguments, cwd=here, status=status)


def test_each_command_says_what_it_leaves_out(mixed):
    assert run_program("pack", "mixed", "x.stk", cwd=mixed).err == LINE
    assert run_program("unpack", "mixed", "x", cwd=mixed).err == LINE
    line = LINE.removeprefix("mixed: ")
    table = run_program("inspect", "mixed", cwd=mixed).out
    assert f"  advice    {line}" in table and "samples   3 in 2 classes" in table
    assert run_program("inspect", "mixed", "--json", cwd=mixed).json()["advice"] + "\n" == line
    for options in ([], ["--json"]):
        folders = ["--set", "data.train=mixed", "--set", "data.val=mixed", "--out", f"r{len(options)}"]
        assert run_program("train", "r.toml", *folders, *options, cwd=mixed).err.count(LINE) == 2  # train and val
    share = ["--set", "data.train=mixed", "--set", "data.val=50%", "--out", "share"]
    assert run_program("train", "r.toml", *share, cwd=mixed).err.count(LINE) == 1
    assert "left out" not in run_program("pack", "train", "y.stk", cwd=mixed).err
    for options in ([], ["--json"]):
        assert run_program("eval", "run", "mixed", *options, cwd=mixed).err.count(LINE) == 1
    assert "left out" not in run_program("eval", "run", "train", cwd=mixed).err


def test_predict_leaves_out_only_what_it_cannot_decode(mixed):
    done = predict(mixed, "mixed")
    assert keys(done) == ["top.png", "up.png", "a/1.png", "a/more/2.png", "b/3.png"]
    left_out = "mixed: left out: 1 .psd file (a/4.psd), 1 .svg file (5.svg): convert to .png or .jpg\n"
    assert left_out in done.err and "mixed: 5 images" in done.err


def test_predict_takes_files_folders_and_patterns(mixed):
    several = predict(mixed, "train/b/3.png", "mixed/b", "mixed/a")
    assert keys(several) == ["train/b/3.png", "mixed/b/3.png", "mixed/a/1.png", "mixed/a/more/2.png"]
    assert all((mixed / key).is_file() for key in keys(several))
    found = keys(predict(mixed, "train/b/*.png", "mixed/t*.png"))
    assert found == [*(f"train/b/{i}.png" for i in (1, 3, 5, 7)), "mixed/top.png"]
    assert keys(predict(mixed, "train/?")) == keys(predict(mixed, "train/a", "train/b"))
    assert keys(predict(mixed, mixed / "train/a/0.png")) == [str(mixed / "train/a/0.png")]
    given = predict(mixed, "mixed/notes.txt", "mixed/top.png", "mixed/5.svg")
    assert keys(given) == ["mixed/top.png"]
    assert "left out: 1 file of other types (mixed/notes.txt); 1 .svg file (mixed/5.svg): convert" in given.err
    by_name = {row["key"]: row for row in csv.DictReader(several.out.splitlines())}
    (alone,) = csv.DictReader(predict(mixed, "mixed/b/3.png").out.splitlines())
    for name in ("a", "b"):
        assert float(alone[name]) == pytest.approx(float(by_name["mixed/b/3.png"][name]), abs=1e-6)


def test_a_name_with_the_signs_of_a_pattern_is_a_file(here):
    draw_noise(here / "a[1].png")
    assert keys(predict(here, "a[1].png")) == ["a[1].png"]


@pytest.mark.parametrize(
    ("paths", "where"),
    [
        (["train/a/0.png", "other.jpg"], "other.jpg"),
        (["train/*.jpg"], "train/*.jpg"),
        (["r.toml"], "r.toml"),
        (["synth:digits", "train"], "synth:digits"),
    ],
)
def test_predict_refuses_what_is_not_there(trained, paths, where):
    done = predict(trained, *paths, status=1)
    assert done.out == "" and done.err.count("\n") == 1 and done.err.startswith(f"stoker: [{where}] expected "), done.err


def test_what_tools_leave_behind_is_no_class(here):
    junk = ("__MACOSX/a/._0.png", "__MACOSX/._a", ".git/x/y.png", ".ipynb_checkpoints/.z.png", ".DS_Store", "Thumbs.db")
    for name in junk:
        path = here / "train" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"junk")
        if path.suffix != ".png" or path.name.startswith("."):
            (here / "train/a" / path.name).write_bytes(b"junk")
    report = run_program("inspect", "train", "--verify", "--json", cwd=here).json()
    assert (report["classes"], report["samples"], report["bad"], report["advice"]) == (["a", "b"], 8, [], "")
    assert len(keys(predict(here, "train"))) == 8
    assert "left out" not in run_program("train", "r.toml", "--out", "again", cwd=here).err


@pytest.mark.parametrize(
    "command",
    [
        ["train", "r.toml", "--out", "OUT"],
        ["train", "r.toml", "--set", "data.val=train", "--set", "data.train=other", "--out", "OUT"],
        ["pack", "train", "OUT.stk"],
        ["unpack", "train", "OUT"],
        ["export", "run", "-o", "OUT.safetensors"],
        ["show", "train", "-o", "OUT.png"],
        ["show", "train", "--index", "0", "--npy", "OUT.npy"],
    ],
)
def test_nothing_is_written_among_the_data(here, command):
    os.symlink("train/b", here / "link")
    before = sorted(here.rglob("*"))
    for place in ("train/new", "./train/../link/new"):
        done = run_program(*(word.replace("OUT", place) for word in command), cwd=here, status=1)
        assert done.out == "" and done.err.count("\n") == 1, done.err
        assert "expected a place outside the data in train, got one among the data" in done.err
        assert sorted(here.rglob("*")) == before


def test_tables_may_lie_among_images(here):
    """No folder of images takes them for a part of itself."""
    before = run_program("inspect", "train", "--json", cwd=here).json()
    for name in ("train/new.csv", "train/a/new.json"):
        run_program("predict", "run", "train", "-o", name, cwd=here)
    after = run_program("inspect", "train", "--json", cwd=here).json()
    assert (before["samples"], before["classes"]) == (after["samples"], after["classes"])


def test_labels_csv_would_make_a_table_of_the_folder(here):
    done = run_program("predict", "run", "train", "-o", "train/labels.csv", cwd=here, status=1)
    assert "expected a place outside the data in train" in done.err and not (here / "train/labels.csv").exists()
    (here / "shards").mkdir()
    (here / "shards/a.tar").write_bytes(b"")
    done = run_program("predict", "run", "train", "shards", "-o", "shards/labels.csv", cwd=here, status=1)
    assert "expected a place outside the data in shards" in done.err


def test_the_data_folder_is_no_run_folder(here):
    assert "outside the data in train" in run_program("train", "r.toml", "--out", "train", cwd=here, status=1).err
    os.symlink("train", here / "data")
    for name in ("data/", "train/a/b/c"):
        assert "outside the data" in run_program("train", "r.toml", "--out", name, cwd=here, status=1).err
    run_program("train", "r.toml", "--out", "train-run", cwd=here)  # a name that only begins alike
    run_program("show", "train", "-o", "train.png", cwd=here)


def test_images_of_16_bits_are_announced(here):
    for i in range(4):
        pixels = np.full((32, 32), 4095 - i, np.uint16)
        for ending in ("png", "pgm"):
            (here / ending / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(here / "png" / "ab"[i % 2] / f"{i}.png")
        (here / "pgm" / "ab"[i % 2] / f"{i}.pgm").write_bytes(b"P5 32 32 65535\n" + pixels.astype(">u2").tobytes())
    for ending, reduced in [("png", 0), ("pgm", 1)]:
        table = run_program("inspect", ending, cwd=here)
        assert table.out.count("depth     4 of more than 8 bits, which are reduced to 8") == reduced
        assert table.out.count("values    uint16, 4092 to 4095 in 4 samples: 12 bits in 16") == 1 - reduced
        assert run_program("inspect", ending, "--json", cwd=here).json()["deep"] == 4
        options = ["--set", f"data.train={ending}", "--set", "data.val=50%", "--out", f"{ending}-run"]
        err = run_program("train", "r.toml", *options, cwd=here).err
        assert (err.count("more than 8 bits"), err.count("12 bits in 16")) == (reduced, 1 - reduced)
        assert "8 bits" not in run_program("pack", ending, f"{ending}.stk", cwd=here).err  # which keeps their bytes
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            stoker.open(here / ending)
        assert sum("more than 8 bits" in str(warning.message) for warning in seen) == reduced
    assert run_program("inspect", "train", "--json", cwd=here).json()["deep"] == 0
    options = ["--set", "data.train=png", "--set", "data.val=50%", "--set", 'data.train_ops=[{op="random_solarize", threshold=128}]', "--out", "bytes"]
    assert "reduced to 8" not in run_program("train", "r.toml", *options, cwd=here).err


# A folder may hold a table of labels and the folders of the table's images: these are not classes.
def test_a_table_beside_class_folders_is_named(here):
    for name in ("kaggle/train_images/1.png", "kaggle/test_images/2.png"):
        draw_noise(here / name)
    (here / "kaggle/train.csv").write_text("id,label\n1,cat\n")
    assert "train.csv" in run_program("inspect", "kaggle", "--json", cwd=here).json()["advice"]
    with pytest.warns(UserWarning, match=r"train\.csv"):
        stoker.open(here / "kaggle")


def test_predictions_do_not_replace_their_data(trained):
    table = trained / "own.csv"
    table.write_text("path\n" + "\n".join(f"train/{path.parent.name}/{path.name}" for path in (trained / "train").glob("*/*")))
    before = table.read_bytes()
    assert "[own.csv]" in predict(trained, "own.csv", "-o", "own.csv", status=1).err
    assert table.read_bytes() == before
    predict(trained, "own.csv", "-o", "found.csv")
