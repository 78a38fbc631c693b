# Bad samples in training, as a user meets them: replaced and listed within the budget, a stop with the list beyond it,
# all of them found beforehand by inspect, and an order of samples that mixing and balance keep exactly.
import json
from collections import Counter

import pytest
from conftest import ROOT

OPS = '{op = "resize", size = [16, 16]}, {op = "normalize", mean = [0.5, 0.5, 0.5], std = [0.25, 0.25, 0.25]}'
REST = "[model]\nhidden = [8]\n[train]\nepochs = 2\nthreads = 1"


@pytest.fixture
def engine():
    if not any(ROOT.glob("build/release/bin/stoker-engine")):
        pytest.skip("needs the engine: ./dev build")


@pytest.fixture
def photos(stoker, tmp_path):
    stoker("synth", "photos", "photos", "--count", "64", "--seed", "3")
    return sorted((tmp_path / "photos").rglob("*.jpg"))


def damage(files):
    for file in files:
        file.write_bytes(b"\xff\xd8\xff" + b"not an image any more" * 9)


def keys(lines):
    return {json.loads(line)["key"] for line in lines.splitlines()}


def test_replaced_and_listed(engine, stoker, recipe, photos, tmp_path):
    damage([photos[5], photos[40]])
    path = recipe(OPS, "bad_samples = 2\nbatch_size = 16\nworkers = 2", "photos", rest=REST)
    done = stoker("train", path, "--out", "run", "--json").json()
    assert [epoch["bad_samples"] for epoch in done["epochs"]] == [2, 2]
    expected = {str(photos[i].relative_to(tmp_path / "photos")) for i in (5, 40)}
    lines = (tmp_path / "run/quarantine.jsonl").read_text()
    assert keys(lines) == expected and len(lines.splitlines()) == 2
    found = stoker("inspect", "photos", "--verify", "--json", status=1).json()
    assert {bad["key"] for bad in found["bad"]} == expected


def test_past_the_budget(engine, stoker, recipe, photos, tmp_path):
    damage(photos[3:6])
    path = recipe(OPS, "bad_samples = 2\nbatch_size = 64\nworkers = 2", "photos", rest=REST)
    done = stoker("train", path, "--out", "run", status=1)
    assert "at most 2 bad samples in an epoch" in done.err and len(done.err.splitlines()) <= 4
    assert len(keys((tmp_path / "run/quarantine.jsonl").read_text())) == 3
    again = stoker("train", path, "--out", "run", "--set", "data.bad_samples=3", "--json").json()
    assert again["bad_samples"] == 3
    assert again["epochs"][0]["bad_samples"] == 3, "the folder of a stopped run takes the next one"


def test_eval_says_so(engine, stoker, recipe, photos):
    path = recipe(OPS, 'bad_samples = "5%"\nval = "photos"\nbatch_size = 16', "photos", rest=REST)
    stoker("train", path, "--out", "run")
    damage([photos[7]])
    done = stoker("eval", path, "--checkpoint", "run", "--json").json()
    assert done["samples"] == 64 and done["bad_samples"] == 1


def test_mix_and_balance_in_show(stoker, recipe, tmp_path):
    stoker("synth", "digits", "a", "--count", "300", "--seed", "1")
    stoker("synth", "digits", "b", "--count", "300", "--seed", "2")
    path = recipe("", 'mix = ["b"]\nweights = [3, 1]\nbatch_size = 64\nepoch_samples = 64', "a")
    drawn = stoker("show", "--recipe", path, "--json").json()["samples"]
    assert Counter(sample["key"][0] for sample in drawn) == {"0": 48, "1": 16}
    path = recipe("", "balance = true\nbatch_size = 60\nepoch_samples = 60", "a")
    drawn = stoker("show", "--recipe", path, "--json").json()["samples"]
    assert set(Counter(sample["label"] for sample in drawn).values()) == {6}
