# `stoker bench ladder`: Stoker's rungs alone, and in turn with plain PyTorch on the same files.
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT

SCRIPT = ROOT / "bench/peers/mnist_pytorch.py"
DATA = "synth:digits?count=640"
PEERS = ["python workers=0", "python workers=2", "python workers=8", "python in-memory"]
RUNG = r"(stoker|python) .+ +[\d.]+ +[\d.]+ +[\d.]+x +[\d.]+ %"

# Records its arguments and sleeps for FAKE_SLEEP seconds.
FAKE = """
import json, os, sys, time
from pathlib import Path
words = sys.argv[1:]
given = dict(zip(words[::2], words[1::2]))
files = sorted(path.name for path in Path(given["--data"]).iterdir())
with open("calls.jsonl", "a") as calls:
    calls.write(json.dumps({**given, "files": files, "spin": os.environ.get("GOMP_SPINCOUNT")}) + "\\n")
time.sleep(float(os.environ.get("FAKE_SLEEP", 0)))
print(json.dumps({"rungs": [{"name": given["--rung"], "seconds": 2.0, "accuracy": 0.5}]}))
"""


@pytest.fixture
def ladder(stoker, tmp_path):
    """Runs the ladder with a peer that only records its calls; temporary files are made in tmp."""
    (tmp_path / "fake.py").write_text(FAKE)
    (tmp_path / "tmp").mkdir()

    def run(*options, data=DATA, env=None, **more):
        peer = ["--peer", "--python", sys.executable, "--peer-script", "fake.py"]
        words = ["bench", "ladder", "--data", data, "--epochs", 1, "--device", "cpu", *peer, *options]
        return stoker(*words, env={"TMPDIR": str(tmp_path / "tmp"), **(env or {})}, **more)

    return run


def calls(tmp_path):
    return [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]


def test_alone(stoker):
    document = stoker("bench", "ladder", "--data", DATA, "--epochs", 1, "--device", "cpu", "--json").json()
    assert document["data"] == DATA and "peer" not in document
    names = [rung["name"] for rung in document["rungs"]]
    assert names[0] == "one thread" and not any("pinned" in name for name in names)
    assert document["rungs"][0]["speedup"] == 1


def test_one_table_with_the_peer(ladder):
    lines = ladder().out.splitlines()
    assert lines[0].split() == ["rung", "seconds", "s/epoch", "speed-up", "accuracy"]
    rows = lines[1 : lines.index("")]
    assert all(re.fullmatch(RUNG, row) for row in rows), rows
    assert [row.split("  ")[0] for row in rows[-4:]] == PEERS and all(row.startswith("stoker ") for row in rows[:-4])
    assert re.fullmatch(r"speed-up of Stoker's last rung: [\d.]+x over Python's first, [\d.]+x over Python in memory", lines[-1])


def test_both_read_the_same_files(ladder, tmp_path):
    document = ladder("--json", "--rounds", 2).json()
    assert document["data"] == DATA and [rung["name"] for rung in document["peer"]] == PEERS
    assert all(rung["rounds"] == [2.0, 2.0] and rung["speedup"] == 1 for rung in document["peer"])
    given = calls(tmp_path)
    assert [(call["--rung"], call["--seed"]) for call in given] == [(name, seed) for seed in "01" for name in PEERS]
    assert all(call["--device"] == "cpu" and len(call["files"]) == 4 for call in given)
    assert not list((tmp_path / "tmp").iterdir())


def test_an_idx_directory_is_read_in_place(ladder, stoker, tmp_path):
    stoker("synth", "digits", "d", "--count", 120)
    ladder(data="d")
    assert {call["--data"] for call in calls(tmp_path)} == {"d"} and (tmp_path / "d").is_dir()


@pytest.mark.parametrize("own", [None, "77"])
def test_the_peer_has_the_users_environment(ladder, tmp_path, monkeypatch, own):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    ladder(env={"GOMP_SPINCOUNT": own} if own else {})
    assert {call["spin"] for call in calls(tmp_path)} == {own}


@pytest.mark.parametrize(
    "options, words",
    [
        (["--python", "no/python"], ["[no/python]", "--python"]),
        (["--peer-script", "no.py"], ["[no.py]", "--peer-script"]),
    ],
)
def test_missing_programs_are_reported_before_the_first_round(stoker, tmp_path, options, words):
    given = dict(zip(["--python", "--peer-script"], [sys.executable, SCRIPT], strict=True)) | dict([options])
    peer = [part for pair in given.items() for part in pair]
    done = stoker("bench", "ladder", "--data", DATA, "--peer", *peer, status=1)
    assert done.out == "" and done.err.count("\n") == 1 and done.err.startswith("stoker: ")
    assert all(word in done.err for word in words), done.err


def test_other_data_is_refused(ladder, drawn):
    done = ladder(data=drawn, status=1)
    assert done.err.count("\n") == 1 and "IDX files or synth:digits" in done.err


def test_a_signal_leaves_no_files(program, tmp_path, ladder):
    peer = ["--peer", "--python", sys.executable, "--peer-script", "fake.py"]
    process = subprocess.Popen(
        [program, "bench", "ladder", "--data", DATA, "--epochs", "1", "--device", "cpu", *peer],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "FAKE_SLEEP": "100"},
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "calls.jsonl").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (128 + signal.SIGTERM, "")
    assert "stopped by signal 15" in err.splitlines()[-1]
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
def test_plain_pytorch_itself(stoker):
    pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    peer = ["--peer", "--python", sys.executable, "--peer-script", SCRIPT]
    document = stoker("bench", "ladder", "--data", DATA, "--epochs", 1, "--device", "cpu", *peer, "--json").json()
    assert [rung["name"] for rung in document["peer"]] == PEERS
    assert all(rung["seconds"] > 0 and 0 <= rung["accuracy"] <= 1 for rung in document["peer"])
