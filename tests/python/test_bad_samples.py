# Bad samples in training, as a user meets them: replaced and listed within the budget, a stop with the list beyond it,
# all of them found beforehand by inspect, and an order of samples that mixing and balance keep exactly.
import json
import warnings
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


def test_damage_that_some_crops_do_not_reach(photos, tmp_path):
    """The lower part of half of the images is lost: whether a sample is bad follows from its draw, after a restart too."""
    stoker = pytest.importorskip("stoker")
    pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
    for file in photos[1::2]:
        file.write_bytes(file.read_bytes()[: file.stat().st_size * 6 // 10])

    def loader(workers, rank=0, world_size=1):
        ops = [stoker.transforms.RandomResizedCrop(32, scale=(0.05, 0.2))]
        share = 8 // world_size
        return stoker.Loader(tmp_path / "photos", share, ops=ops, bad_samples="100%", seed=2, workers=workers,
                             rank=rank, world_size=world_size)  # fmt: skip

    def epoch(loader):
        return [batch["index"].tolist() for batch in loader]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stoker.BadSampleWarning)
        whole = loader(0)
        epochs = [epoch(whole) for _ in range(3)]
        damaged = [sum(i % 2 for i in sum(each, [])) for each in epochs]
        assert 8 < len(whole.bad_samples) and min(damaged) > 0, "some crops reach the damage, and some do not"
        threads = loader(3)
        assert [epoch(threads) for _ in range(3)] == epochs
        later = loader(2)
        later.set_epoch(2)
        assert epoch(later) == epochs[2]
        ranks = [[epoch(part) for _ in range(3)] for part in (loader(0, rank, 2) for rank in (0, 1))]
        assert [[a + b for a, b in zip(*parts)] for parts in zip(*ranks)] == epochs


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
