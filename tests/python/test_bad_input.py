# Bad input of any kind ends with one line on stderr that names it and status 1 (2 for wrong usage), without a crash and
# without a run folder.
import os
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import run_program

MLP = '{op = "resize", size = [8, 8]}'


def refused(done, *words, status=1):
    assert done.status == status, (done.status, done.out, done.err)
    assert re.fullmatch(r"stoker: \[[^\n]+\] expected [^\n]+, (got|but) [^\n]+\n", done.err), done.err
    for word in words:
        assert word in done.err, done.err


@pytest.fixture
def train(stoker, recipe, tmp_path):
    """Trains on `data` with a small model and checks that it was refused."""

    def run(data, *words, ops=MLP, lines="", sets=(), status=1):
        budget = "" if "bad_samples" in lines else "bad_samples = 0\n"
        path = recipe(ops, f"batch_size = 4\n{budget}{lines}", train=data, rest="[train]\nepochs = 1")
        options = [part for text in sets for part in ("--set", text)]
        done = stoker("train", path, "--out", "run", "--json", *options, status=None)
        done.err = re.sub(r"^run: checkpoint of step \d+ written; --resume auto continues\n", "", done.err)
        refused(done, *words, status=status)
        # If nothing was trained, only the list of bad samples and the reason may stay.
        run = tmp_path / "run"
        left = {path.name for path in run.iterdir()} if run.exists() else set()
        if not left <= {"failed.json", "quarantine.jsonl"}:
            assert "failed.json" in left, left
            assert (run / "metrics.jsonl").read_text().startswith('{"type":"facts"'), left

    return run


@pytest.fixture
def folder(drawn, tmp_path):
    shutil.copytree(drawn, tmp_path / "photos")
    return tmp_path / "photos"


# Data: every command that reads it refuses it.


def test_missing_path(train, stoker):
    train("nowhere", "[nowhere]", "does not exist")
    refused(stoker("inspect", "nowhere", status=None), "[nowhere]")
    refused(stoker("show", "nowhere", status=None), "[nowhere]")


def test_empty_folder(train, stoker, tmp_path):
    (tmp_path / "empty").mkdir()
    train("empty", "an empty folder")
    refused(stoker("inspect", "empty", status=None), "an empty folder")
    refused(stoker("show", "empty", status=None), "an empty folder")


def test_class_without_images(train, stoker, folder):
    (folder / "zebra").mkdir()
    train(folder, "none in 1 of 9 subfolders: zebra")
    refused(stoker("inspect", folder, status=None), "zebra")


def test_images_without_classes(train, folder):
    train(folder / "stars", "no subfolder and 3 images", "subfolder for each class")


def test_a_file_instead_of_a_folder(train, folder):
    train(folder / "stars/00000.jpg", "got one image", "give the folder")


def test_truncated_jpeg(train, stoker, folder):
    file = folder / "checker/00000.jpg"
    file.write_bytes(file.read_bytes()[:3000])
    train(folder, "checker/00000.jpg (sample 0)", "@ byte")
    assert "checker/00000.jpg: expected a complete JPEG" in stoker("show", folder).err
    refused(stoker("show", folder, "--index", 0, "--npy", "x.npy", status=None), "checker/00000.jpg (sample 0)")
    refused(stoker("inspect", folder, "--verify", status=None), "1 bad of 24 samples")


def test_another_file_named_jpg(train, stoker, folder):
    (folder / "checker/00000.jpg").write_bytes(b"PK\3\4")
    train(folder, "checker/00000.jpg", "a zip archive")
    assert "checker/00000.jpg: expected a JPEG" in stoker("show", folder).err
    refused(stoker("inspect", folder, status=None), "1 bad of 24 samples")


@pytest.fixture
def digits(stoker, tmp_path):
    stoker("synth", "digits", "digits", "--count", 60)
    return tmp_path / "digits"


def test_an_idx_header_that_lies(train, stoker, digits):
    file = digits / "train-images-idx3-ubyte"
    file.write_bytes(struct.pack(">IIII", 0x803, 2**32 - 1, 28, 28) + file.read_bytes()[16:])
    train(digits, "train-images")
    refused(stoker("inspect", digits, status=None), "train-images")
    refused(stoker("show", digits, status=None), "train-images")


def test_idx_without_labels(train, digits):
    (digits / "train-labels-idx1-ubyte").unlink()
    train(digits, "the images only")


def test_a_batch_beyond_the_data(train):
    train("synth:digits?count=3", "[data.drop_last]", "at least one full batch", "data.batch_size", lines="drop_last = true")


def test_images_of_several_sizes(train, folder):
    train(folder, "as of sample 0", "center_crop", ops="")


def test_one_class_is_nothing_to_learn(train, stoker, folder, recipe):
    for other in list(folder.iterdir())[1:]:
        shutil.rmtree(other)
    train(folder, "at least two classes", f'one, "{next(folder.iterdir()).name}"')
    path = recipe(MLP, "batch_size = 4", train=folder, rest="[train]\nepochs = 1")
    assert "3 samples in 1 class," in stoker("train", path, "--set", "model.classes=2").err


# Recipes.


@pytest.mark.parametrize(
    "ops, words",
    [
        ('{op = "rotate", degrees = 5}', ["train_ops", "rotate", "center_crop"]),
        ('{op = "resize", size = 0}', ["train_ops", "size", "0"]),
        ('{op = "normalize"}, {op = "resize", size = 8}', ["normalize to be the last"]),
        ('"resize"', ["train_ops"]),
    ],
)
def test_bad_ops(train, ops, words):
    train("synth:digits?count=60", *words, ops=ops)


@pytest.mark.parametrize(
    "setting, words",
    [
        ("data.batch_sise=3", ["batch_sise", "batch_size"]),
        ("data.batch_size=0", ["--set data.batch_size", "0"]),
        ("data.batch_size", ["--set"]),
        ("=3", ["--set"]),
        ('data.train_ops=[{op="normalise"}]', ["data.train_ops[0]", 'did you mean "normalize"?']),
        ("model.name=resnet9000", ["model.name", "resnet18"]),
        ("device=tpu", ["device", "tpu"]),
        ("train.checkpoint_every=often", ["checkpoint_every", "often"]),
        ("data.train=", ["data.train"]),
    ],
)
def test_bad_settings_are_wrong_usage(train, setting, words):
    train("synth:digits?count=60", *words, sets=[setting], status=2)


@pytest.mark.parametrize(
    "setting, words",
    [
        ("data.train=synth:letters", ["synth:digits"]),
        ("data.train=s3://bucket/x", ["s3://bucket/x"]),
        ("model.classes=3", ["classes"]),
    ],
)
def test_settings_that_do_not_fit_the_data(train, setting, words):
    train("synth:digits?count=60", *words, sets=[setting])


@pytest.mark.parametrize(
    "text, words",
    [
        ("[data]\ntrain = 5\n", ["recipe.toml:2", "data.train", "5"]),
        ('[data]\ntrain = "synth:digits"\nworker = 3\n', ["recipe.toml:3", "worker"]),
        ("\x00\x01\x02", ["recipe.toml"]),
    ],
)
def test_bad_recipes(stoker, tmp_path, text, words):
    (tmp_path / "recipe.toml").write_text(text)
    refused(stoker("train", "recipe.toml", "--json", status=None), *words)
    refused(stoker("show", "--recipe", "recipe.toml", status=None), *words)
    assert not (tmp_path / "runs").exists()


def test_no_recipe(stoker, tmp_path):
    refused(stoker("train", "nowhere.toml", "--json", status=None), "nowhere.toml")
    refused(stoker("train", tmp_path, "--json", status=None), "directory")


def test_places_that_cannot_be_written(stoker, drawn, tmp_path):
    refused(stoker("show", drawn, "-o", "no/such/folder/grid.png", status=None), "no/such/folder/grid.png")
    (tmp_path / "file").write_text("")
    refused(stoker("synth", "digits", "file/digits", "--count", 6, status=None), "file/digits")


@pytest.mark.parametrize(
    "options", [[], ["nonsense"], ["bench"], ["train", "x.toml", "--nonsense"], ["inspect"]]
)
def test_wrong_usage(stoker, options):
    done = stoker(*options, status=2)
    assert done.out == "" and re.fullmatch(r"stoker: [^\n]+; try `stoker[a-z ]* --help`\n", done.err), done.err
    command = " ".join(["stoker", *options[: options[:1] not in ([], ["nonsense"])]])
    assert f"`{command} --help`" in done.err


@pytest.mark.parametrize("options", [["--help"], ["inspect", "synth:digits?count=6"], ["doctor", "--json"]])
def test_output_that_cannot_be_written(program, tmp_path, options):
    with open("/dev/full", "w") as full:
        done = subprocess.run([program, *options], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and re.fullmatch(r"stoker: [^\n]*but the disk is full\n", done.stderr), done.stderr


# Most outputs are written next to their name and renamed, which needs a writable folder; predictions are written into
# an existing file.
@pytest.mark.parametrize(
    "options, name, refused_in",
    [
        (["export", "nowhere", "-o"], "x.pt", "folder"),
        (["runs", "export", "nowhere", "--svg"], "x.svg", "folder"),
        (["runs", "compare", "nowhere", "there", "-o"], "x.svg", "folder"),
        (["predict", "nowhere", "there", "-o"], "x.csv", "file"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_first(program, options, name, refused_in):
    prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    if prefix and subprocess.run([*prefix, program, "--version"], capture_output=True).returncode != 0:
        pytest.skip("another user cannot run the program")
    trouble = f"stoker: [{name}] expected a file that can be written, but permission was denied\n"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text("before")
        for closed in ("folder", "file"):
            Path(folder).chmod(0o555 if closed == "folder" else 0o777)
            file.chmod(0o444 if closed == "file" else 0o666)
            error = run_program(*options, name, cwd=folder, status=1, prefix=prefix).err
            assert (error == trouble) == (closed == refused_in) and error.count("\n") == 1, error
        Path(folder).chmod(0o755)
        assert file.read_text() == "before"


def test_validation_images_of_another_size_are_noticed_before_training(stoker, tmp_path):
    (tmp_path / "r.toml").write_text("""
[data]
train = "synth:digits?count=64"
val_ops = [{op = "resize", size = 32}]
""")
    done = stoker("train", "r.toml", "--out", "run", status=1)
    expected = "[data.val_ops] expected images that the model takes, such as those of training (1, 28, 28), got (1, 32, 32)"
    assert expected in done.err and not (tmp_path / "run").exists()
    stoker("train", "r.toml", "--set", "model.name=convnet", "--set", "train.epochs=1", "--out", "run")  # takes any
