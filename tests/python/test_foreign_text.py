# Names out of files, archives and data sets, printed by every command: no control character, no text in another order
# and no bytes that are not UTF-8 reach the terminal, and no formula a spreadsheet. The exact names stay in JSON.
import csv
import io
import json
import os
import shutil
import subprocess
import unicodedata
from xml.etree import ElementTree

import pytest
from conftest import MNIST_OPS, PROGRAM, small_recipe

CLASSES = [b"\x1b[31mred", b"a\nb\r", b"=1+2", b"bad\xff\xc2\x9b31m", "x\u202egpj.\u2066".encode(), b"plain"]
FILES = [b"\x1b]0;title\x07.png", b"new\nline.png", b"\xe9.png", "\u202e\u2028.png".encode()]
BAD = b"bad\x1b[2J\n\xff.png"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with hostile.d: classes and images with hostile names, one image in each class unreadable."""
    path = tmp_path_factory.mktemp("foreign")
    subprocess.run([PROGRAM, "synth", "digits", "digits", "--count", "12"], cwd=path, check=True, capture_output=True)
    subprocess.run([PROGRAM, "unpack", "digits", "images"], cwd=path, check=True, capture_output=True)
    image = next((path / "images").rglob("*.png"))
    for name in CLASSES:
        folder = os.fsencode(path / "hostile.d") + b"/" + name
        os.makedirs(folder)
        for file in FILES:
            shutil.copy(image, folder + b"/" + file)
        with open(folder + b"/" + BAD, "wb") as bad:
            bad.write(b"\x89PNG\r\n\x1a\n\x1b[31m")
    (path / "recipe.toml").write_text(small_recipe("hostile.d", "hostile.d", "bad_samples = 10", MNIST_OPS))
    return path


def safe(output):
    """`output` as text, which must be safe for a terminal."""
    text = output.decode("utf-8")  # strict
    for letter in text:
        kind = unicodedata.category(letter)
        assert letter == "\n" or kind not in ("Cc", "Zl", "Zp"), repr(text)
        assert unicodedata.bidirectional(letter) not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"), (
            repr(text)
        )
    return text


def run(here, *arguments, status=0):
    command = [PROGRAM, *arguments]
    done = subprocess.run(command, cwd=here, capture_output=True, timeout=120)
    assert done.returncode == status, (command, done.stderr)
    return safe(done.stdout), safe(done.stderr)


def test_data_commands(here):
    out, err = run(here, "inspect", "hostile.d", "--verify", status=1)
    assert "\\x1b[31mred" in out and "a\\x0ab\\x0d" in out and "x\\u202egpj" in out and "bad\\xff\\u009b31m" in out
    assert out.count("\n\nbad  ") == 1 and out.count("\nbad  ") == len(CLASSES)  # a line for each
    out, _ = run(here, "inspect", "hostile.d", "--verify", "--json", status=1)
    found = json.loads(out)
    assert {"\x1b[31mred", "a\nb\r", "x\u202egpj.\u2066"} < set(found["classes"])
    _, err = run(here, "pack", "hostile.d", "x.stk", status=1)
    assert err.count("\n") == 1
    out, _ = run(here, "pack", "hostile.d", "y.stk", "--skip-bad")
    assert out.count("skipped") == len(CLASSES)
    run(here, "inspect", "y.stk")
    run(here, "show", "y.stk")
    run(here, "show", "y.stk", "--json")
    run(here, "unpack", "y.stk", "y.d")
    _, err = run(here, "pack", "y.stk", "y.tar", status=1)
    assert "a\\x0ab\\x0d" in err and err.count("\n") == 1
    run(here, "bench", "pipeline", "--data", "y.stk", "--size", "8", "--batches", "1", "--rounds", "1", "--batch", "4")


def test_arguments(here):
    hostile = "no\x1b[31m\n\u202ename"
    for command in ("inspect", "show", "train"):
        _, err = run(here, command, hostile, status=1)
        assert "\\x1b[31m\\x0a\\u202ename" in err and err.count("\n") == 1
    _, err = run(here, hostile, status=2)
    _, err = run(here, "train", "recipe.toml", "--set", f"data.{hostile}=1", status=2)
    assert err.count("\n") == 1
    run(here, "runs", "compare", hostile, "other", status=1)
    run(here, "runs", "list", hostile, status=1)


@pytest.fixture(scope="module")
def trained(here):
    if not (PROGRAM.parent / "stoker-engine").is_file():
        pytest.skip("needs the engine: STOKER_ENGINE=ON")
    run(here, "train", "recipe.toml", "--out", "runs/a\x1b[31m\n\u202eb")
    run(here, "train", "recipe.toml", "--out", "runs/second", "--set", "train.epochs=2")
    return here, "runs/a\x1b[31m\n\u202eb"


def test_training_commands(trained):
    here, name = trained
    run(here, "eval", name)
    run(here, "eval", name, "--json")
    run(here, "train", "recipe.toml", "--out", name, "--resume", "auto", "--set", "train.epochs=2")
    run(here, "export", name, "-o", "x.safetensors")


def test_predictions(trained):
    here, name = trained
    out, err = run(here, "predict", name, "hostile.d")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == len(CLASSES) * (len(FILES) + 1) == out.count("\n") - 1
    names = [cell for row in rows for cell in (row["key"], row["class"])] + list(rows[0])
    assert not [cell for cell in names if cell[:1] in ("=", "+", "-", "@")]
    assert "'=1+2" in names and sum(bool(row["error"]) for row in rows) == len(CLASSES)
    run(here, "predict", name, "hostile.d", "-o", "p.json")
    rows = json.loads(safe((here / "p.json").read_bytes()))
    assert "=1+2/new\nline.png" in [row["key"] for row in rows]


def test_runs(trained):
    here, name = trained
    out, _ = run(here, "runs", "list")
    assert "a\\x1b[31m\\x0a\\u202eb" in out
    run(here, "runs", "list", "--json")
    run(here, "runs", "compare", name, "runs/second", "-o", "compare.svg")
    run(here, "runs", "export", name, "--svg", "curves.svg")
    for file in ("compare.svg", "curves.svg"):
        svg = safe((here / file).read_bytes())
        ElementTree.fromstring(svg)
