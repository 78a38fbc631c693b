# Files of an image folder that cannot be read are bad samples in every command: links that lead nowhere, pipes,
# sockets, files that are empty.
import csv
import json
import os
import shutil
import socket

import pytest
from conftest import ROOT

OPS = '{op = "resize", size = [16, 16]}'
REASONS = {
    "circle": "a link that leads back to itself",
    "dangling": "a link to a file that does not exist",
    "empty": "no bytes",
    "pipe": "a named pipe",
    "socket": "a socket",
}


def add_unreadable(folder):
    (folder / "circle.jpg").symlink_to("circle.jpg")
    (folder / "dangling.jpg").symlink_to("absent.jpg")
    (folder / "empty.jpg").write_bytes(b"")
    os.mkfifo(folder / "pipe.jpg")
    before = os.getcwd()
    os.chdir(folder)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("socket.jpg")
    os.chdir(before)


def check(found, prefix):
    """`found`: reasons by key."""
    assert set(found) == {f"{prefix}{name}.jpg" for name in REASONS}, found
    for name, reason in REASONS.items():
        assert reason in found[f"{prefix}{name}.jpg"], found


@pytest.fixture
def folder(drawn, tmp_path):
    shutil.copytree(drawn, tmp_path / "photos")
    shutil.copytree(drawn / "stars", tmp_path / "photos/stars/more.jpg")  # a folder, whatever its name
    add_unreadable(tmp_path / "photos/stars")
    return tmp_path / "photos"


def test_inspect_lists_them(stoker, folder):
    for options in ([], ["--verify"]):
        found = stoker("inspect", folder, "--json", *options, status=1).json()
        assert found["samples"] == 24 + 3 + 5
        check({bad["key"]: bad["reason"] for bad in found["bad"]}, "stars/")


def test_pack_names_the_first_and_skips_all(stoker, folder, tmp_path):
    refused = stoker("pack", folder, "x.stk", status=1).err
    assert "stars/circle.jpg" in refused and "a link that leads back to itself" in refused and "--skip-bad" in refused
    done = stoker("pack", folder, "y.stk", "--skip-bad", "--json").json()
    check({bad["key"]: bad["reason"] for bad in done["skipped"]}, "stars/")
    assert done["samples"] == 27


def test_training_replaces_them_and_predict_gives_rows(stoker, folder, recipe, tmp_path):
    if not any(ROOT.glob("build/release/bin/stoker-engine")):
        pytest.skip("needs the engine: ./dev build")
    rest = "[model]\nhidden = [8]\n[train]\nepochs = 1\nthreads = 1"
    path = recipe(OPS, "bad_samples = 4\nbatch_size = 8", "photos", rest=rest)
    assert "at most 4 bad samples" in stoker("train", path, "--out", "failed", status=1).err
    done = stoker("train", path, "--out", "run", "--set", "data.bad_samples=5", "--json").json()
    assert done["epochs"][0]["bad_samples"] == 5
    lines = [json.loads(line) for line in (tmp_path / "run/quarantine.jsonl").read_text().splitlines()]
    check({line["key"]: line["reason"] for line in lines}, "stars/")
    assert all(line["replaced_by"] and line["replaced_by"] not in REASONS for line in lines)
    shutil.rmtree(folder / "stars/more.jpg")
    for data, prefix, count in [("photos/stars", "", 8), ("photos", "stars/", 29)]:
        rows = list(csv.DictReader(stoker("predict", "run", data).out.splitlines()))
        assert len(rows) == count
        check({row["key"]: row["error"] for row in rows if row["error"]}, prefix)
