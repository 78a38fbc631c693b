# `stoker eval`: the confusion matrix, and classes of other data that are matched by name.
import csv
import json
import shutil

import numpy as np
import pytest
from conftest import draw_noise, run_program, small_recipe
from torchvision.datasets import ImageFolder

SIZE = 8
CLASSES = ["ash", "beech", "cedar", "date"]


def draw(folder, count, seed):
    for label, name in enumerate(CLASSES):
        for i in range(count):
            draw_noise(folder / name / f"{i:03}.png", [seed, label, i], (40 * label, 40 * label + 120), SIZE)


@pytest.fixture(scope="module")
def trained(program, tmp_path_factory):
    here = tmp_path_factory.mktemp("trained")
    draw(here / "train", 12, 1)
    draw(here / "val", 10, 2)
    (here / "r.toml").write_text(small_recipe("train", "val"))
    run_program("train", "r.toml", "--out", "run", cwd=here)
    return here


def matrix_of_predictions(here):
    """From `stoker predict`, which test_predict.py compares with PyTorch."""
    matrix = np.zeros((len(CLASSES), len(CLASSES)), int)
    for row in csv.DictReader(run_program("predict", "run", "val", cwd=here).out.splitlines()):
        matrix[CLASSES.index(row["key"].split("/")[0]), CLASSES.index(row["class"])] += 1
    return matrix


def evaluate(here, *options, status=0):
    return run_program("eval", "run", *options, cwd=here, status=status)


def test_the_confusion_matrix_counts_predictions(here):
    expected = matrix_of_predictions(here)
    report = evaluate(here, "--json").json()
    assert report["confusion"] == expected.tolist()
    assert report["class_accuracy"] == pytest.approx((expected.diagonal() / 10).tolist())
    assert report["val_accuracy"] == pytest.approx(expected.trace() / 40)
    rows = [f"    {json.dumps(row, separators=(',', ':'))}" for row in expected.tolist()]
    assert ",\n".join(rows) in evaluate(here, "--json").out
    lines = evaluate(here).out.splitlines()
    at = lines.index("") + 1
    assert lines[at].split() == ["class", "\\", "predicted", *CLASSES, "samples", "accuracy"]
    for name, row, line in zip(CLASSES, expected, lines[at + 1 :], strict=False):
        assert line.split() == [name, *map(str, row), "10", f"{10 * row[CLASSES.index(name)]:.1f}", "%"]


def test_wide_tables_number_their_columns(here):
    for name in CLASSES:
        (here / "train" / name).rename(here / "train" / f"{name}-with-a-long-name")
        (here / "val" / name).rename(here / "val" / f"{name}-with-a-long-name")
    run_program("train", "r.toml", "--out", "long", cwd=here)
    lines = run_program("eval", "long", cwd=here).out.splitlines()
    at = lines.index("") + 1
    assert lines[at].split() == ["class", "\\", "predicted", "0", "1", "2", "3", "samples", "accuracy"]
    assert lines[at + 2].split()[:2] == ["1", "beech-with-a-long-name"]
    assert max(map(len, lines[at : at + 5])) <= 80


def test_the_width_is_counted_in_columns(here):
    """The table of these names is 76 columns wide, and 92 bytes."""
    names = ["白蜡树木", "山毛榉树", "雪松木材", "枣椰子树"]
    for old, new in zip(CLASSES, names, strict=True):
        for folder in ("train", "val"):
            (here / folder / old).rename(here / folder / new)
    run_program("train", "r.toml", "--out", "wide", cwd=here)
    lines = run_program("eval", "wide", cwd=here).out.splitlines()
    at = lines.index("") + 1
    assert lines[at].split() == ["class", "\\", "predicted", *sorted(names), "samples", "accuracy"]
    columns = [sum(2 if ord(letter) > 0x2E80 else 1 for letter in line) for line in lines[at : at + 5]]
    assert columns[0] == 76 and max(columns) <= 80


def test_many_classes_are_listed_from_the_worst(stoker, tmp_path):
    random = np.random.default_rng(3)
    images, labels = random.integers(0, 256, (60, 4, 4), dtype=np.uint8), np.arange(60) % 30
    names = np.array([f"class-{i}" for i in range(30)])
    np.savez(tmp_path / "d.npz", images=images, labels=labels, classes=names)
    np.savez(tmp_path / "v.npz", images=images[:40], labels=labels[:40], classes=names)  # some classes once
    (tmp_path / "r.toml").write_text(small_recipe("d.npz", "v.npz"))
    stoker("train", "r.toml", "--out", "run")
    out = stoker("eval", "run").out
    worst, pairs = out.split("\n\n")[1:]
    assert worst.splitlines()[0].split() == ["least", "accurate", "samples", "accuracy"]
    assert len(worst.splitlines()) == 11 and len(pairs.splitlines()) == 11
    report = stoker("eval", "run", "--json").json()
    matrix = np.array(report["confusion"])
    assert report["class_accuracy"] == pytest.approx((matrix.diagonal() / matrix.sum(1)).tolist())
    label, predicted, count, of = pairs.splitlines()[1].split()
    at = report["classes"].index(label), report["classes"].index(predicted)
    assert matrix[at] == int(count) == (matrix - np.diag(matrix.diagonal())).max() and matrix[at[0]].sum() == int(of)


def test_classes_of_validation_data_are_matched_by_name(here):
    """A folder that lacks a class, and arrays with the classes in another order."""
    whole = evaluate(here, "--json").json()
    matrix = np.array(whole["confusion"])
    for name in ("ash", "cedar"):
        shutil.rmtree(here / "val" / name)
    fewer = evaluate(here, "--json").json()
    matrix[[0, 2]] = 0
    assert fewer["confusion"] == matrix.tolist() and fewer["classes"] == CLASSES
    assert fewer["class_accuracy"][0] is None and fewer["class_accuracy"][1] == matrix[1, 1] / 10
    assert "-" in evaluate(here).out.splitlines()[3].split()
    photos = ImageFolder(here / "val")
    images = np.stack([np.asarray(image) for image, _ in photos])
    labels = np.array([{"beech": 2, "date": 0}[photos.classes[label]] for _, label in photos])
    np.savez(here / "other.npz", images=images, labels=labels, classes=np.array(["date", "ash", "beech"]))
    run_program("pack", "other.npz", "other.stk", cwd=here)
    for data in ("other.npz", "other.stk"):
        other = evaluate(here, "--set", f"data.val={data}", "--json").json()
        assert other["confusion"] == fewer["confusion"]
        assert other["val_loss"] == pytest.approx(fewer["val_loss"], abs=1e-6)
        train = ("train", "r.toml", "--set", "train.epochs=1", "--json", "--out")
        known = run_program(*train, f"{data}-known", cwd=here)
        matched = run_program(*train, f"{data}-run", "--set", f"data.val={data}", cwd=here)
        last, expected = (done.json()["epochs"][-1] for done in (matched, known))
        assert last["val_accuracy"] == expected["val_accuracy"]
        assert last["val_loss"] == pytest.approx(expected["val_loss"], abs=1e-6)


def test_other_tasks_have_no_classes_to_match(stoker, tmp_path):
    for split, name in (("train", "ash"), ("val", "oak")):
        lines = ["path,label,age"]
        for i in range(8):
            draw_noise(tmp_path / f"{split}-{i}.png", i, size=SIZE)
            lines.append(f"{split}-{i}.png,{'elm' if i % 2 else name},{i}")
        (tmp_path / f"{split}.csv").write_text("\n".join(lines) + "\n")
    recipe = small_recipe("train.csv", "val.csv", 'fields.age.is = "value"')
    (tmp_path / "r.toml").write_text(f'task = "regression"\n{recipe}')
    last = stoker("train", "r.toml", "--out", "run", "--json").json()["epochs"][-1]
    assert stoker("eval", "run", "--json").json()["val_metrics"] == pytest.approx(last["val_metrics"], abs=1e-9)


def test_a_class_that_was_not_trained_is_named(here):
    (here / "val/date").rename(here / "val/elm")
    for command in (["eval", "run"], ["train", "r.toml", "--out", "no"]):
        error = run_program(*command, cwd=here, status=1).err
        assert error.startswith("stoker: [val] expected no other classes than the 4 of "), error
        assert error.count("\n") == 1
        assert 'got 1 other: "elm"' in error


def test_the_best_checkpoint_is_named_and_taken_on_request(here):
    run_program("train", "r.toml", "--out", "run", "--resume", "auto", "--set", "train.epochs=2", cwd=here)
    oldest, newest = sorted((here / "run/checkpoints").iterdir(), key=lambda path: int(path.name))
    assert evaluate(here).err == ""  # without a best one
    assert "train.keep_best" in evaluate(here, "--best", status=1).err
    shutil.copytree(oldest, here / "run/best")
    usual, best, early = (evaluate(here, "--json", *more) for more in ((), ("--best",), ("--set", "train.early_stop=3")))
    assert usual.json()["run"] == f"run/checkpoints/{newest.name}" and "--best" in usual.err
    assert best.json()["run"] == early.json()["run"] == "run/best" and best.err == ""
    assert f"--checkpoint run/checkpoints/{newest.name}" in early.err
    run_program("export", "run", "--best", "-o", "best.safetensors", cwd=here)
    assert (here / "best.safetensors").read_bytes() == (oldest / "model.safetensors").read_bytes()
