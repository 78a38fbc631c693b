# The lines of the program that a watch names: those that make loaders and optimizers, run evaluations, and save
# checkpoints.
import functools
import io
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
import torch
from stoker.watch.places import find_frames, find_line, is_own, place_of
from test_watch_program import DATA, records, train, watched
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TEST = TensorDataset(*DATA[:24])


def line(mark):
    """The line of this file that ends with the comment."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, text in enumerate(lines, 1) if text.endswith(f"# {mark}")]
    return f"test_watch_places.py:{number}"


def names(place, mark):
    return place.split("/")[-1] == line(mark)


def facts_of(folder):
    facts = records(folder, "facts")[-1]
    return facts["data"], facts["train"]


def evaluate(model, loader):
    with torch.no_grad():
        for x, _ in loader:
            model.eval()(x)  # evaluates
    model.train()


def test_lines_of_the_program_are_facts(tmp_path):
    with watched(tmp_path):
        model = nn.Linear(8, 4)
        torch.save(DATA.tensors, io.BytesIO())
        test = DataLoader(TEST, batch_size=24)  # makes the test loader
        loader = DataLoader(  # makes the loader
            DATA,
            batch_size=8,
        )
        other = torch.optim.Adam(model.parameters())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # makes the optimizer
        assert len(DataLoader(DATA)) == 48 and other.param_groups
        for _ in range(2):
            train(model, loader, optimizer)
            evaluate(model, test)
            torch.save(model.state_dict(), io.BytesIO())  # saves
    data, settings = facts_of(tmp_path)
    assert names(data["place"], "makes the loader")
    assert names(settings["optimizer_place"], "makes the optimizer")
    assert names(settings["evaluation_place"], "evaluates") and settings["val_samples"] == 24
    assert names(settings["val_loader_place"], "makes the test loader") and settings["val_workers"] == 0
    assert names(settings["checkpoint_place"], "saves")


class OwnLoader(DataLoader):
    def __init__(self, data):
        super().__init__(data, batch_size=8)


class OwnOptimizer(torch.optim.SGD):
    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1)


def test_lines_within_the_constructors_of_a_class_are_not_where_its_objects_are_made(tmp_path, monkeypatch):
    below = OwnLoader.__init__

    @functools.wraps(below)
    def wrapped(made, *args):  # as Lightning does for a while
        below(made, *args)

    with watched(tmp_path):
        monkeypatch.setattr(OwnLoader, "__init__", wrapped)
        model = nn.Linear(8, 4)
        loader = OwnLoader(DATA)  # makes its own loader
        optimizer = OwnOptimizer(model.parameters())  # makes its own optimizer
        train(model, loader, optimizer)
    data, settings = facts_of(tmp_path)
    assert names(data["place"], "makes its own loader")
    assert names(settings["optimizer_place"], "makes its own optimizer")


def test_what_is_made_before_a_watch_has_no_line(tmp_path):
    model, loader = nn.Linear(8, 4), DataLoader(DATA, batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        train(model, loader, optimizer)
    data, settings = facts_of(tmp_path)
    assert "place" not in data and not [key for key in settings if key.endswith("_place")]
    assert not any(key.startswith("_stoker") for of in (loader, optimizer) for key in vars(of))


def test_a_teachers_pass_over_the_first_batch_is_no_evaluation(tmp_path):
    teacher, model = nn.Linear(8, 4), nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for x, _ in DataLoader(DATA, batch_size=8):
            with torch.no_grad():
                soft = teacher(x)
            nn.functional.mse_loss(model(x), soft).backward()
            optimizer.step()
        evaluate(model, DataLoader(TEST, batch_size=8))
    settings = facts_of(tmp_path)[1]
    assert names(settings["evaluation_place"], "evaluates") and settings["val_samples"] == 24


def in_file(path, text):
    """What code of a file defines."""
    names = {}
    exec(compile(text, path, "exec"), names)
    return names


STDLIB = sysconfig.get_path("stdlib")
INSTALLED = [
    "/home/me/.local/lib/python3.12/site-packages/lib/deep/a.py",
    "/usr/lib/python3/dist-packages/lib/deep/a.py",
    f"{STDLIB}/site-packages/lib/deep/a.py",  # of the environment below that of `venv --system-site-packages`
]


@pytest.mark.parametrize("path", INSTALLED)
def test_packages_of_all_environments_are_installed(path):
    text = "import sys\ndef call():\n    return sys._getframe()\n"
    frame = in_file(path, text)["call"]()
    assert find_frames(frame) == (sys._getframe(), frame)
    assert names(place_of(*find_frames(frame)).split(", ")[0], "has called a package")  # has called a package
    assert place_of(None, frame) == "lib/deep/a.py:3" and place_of(None, None) == ""
    assert find_line(frame)[0] == __file__ and not is_own(path)


LIBRARY = """
import torch
from torch.utils.data import DataLoader

def prepare(loader):
    return DataLoader(loader.dataset, batch_size=loader.batch_size, num_workers=loader.num_workers)

def loader_of(data):
    return DataLoader(data, batch_size=8)

def fit(model, loader, step):
    for batch in loader:
        step(model, *batch)
        torch.cuda.synchronize()
"""


@pytest.fixture
def library():
    return in_file("/opt/env/lib/python3.11/site-packages/trainer/loops.py", LIBRARY)


def fitted(folder, library, make, optimizer_of=None):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(model, x, y):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    with watched(folder):
        library["fit"](model, make(), step)  # fits
    syncs = [sync for interval in records(folder, "interval") for sync in interval.get("syncs", [])]
    return facts_of(folder)[0]["place"], {sync["place"] for sync in syncs}


def test_a_wait_within_a_package_names_both_lines(tmp_path, library, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    place, syncs = fitted(tmp_path, library, lambda: library["loader_of"](DATA))  # asks for a loader
    (sync,) = syncs
    assert names(sync.split(", ")[0], "fits") and sync.endswith(", within trainer/loops.py:14")
    assert names(place.split(", ")[0], "asks for a loader") and place.endswith(", within trainer/loops.py:9")


def test_a_loader_that_a_package_makes_anew_is_the_programs(tmp_path, library, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def make():
        loader = DataLoader(DATA, batch_size=8)  # makes the first
        return library["prepare"](loader)

    place, _ = fitted(tmp_path, library, make)
    assert names(place, "makes the first")


def test_a_loader_that_a_package_makes_anew_is_not_taken_for_another_over_the_same_data(tmp_path, library, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def make():
        loader = DataLoader(DATA, batch_size=8)
        kept.append(DataLoader(DATA, batch_size=24))  # for an evaluation
        return library["prepare"](loader)  # prepares it

    kept = []
    place, _ = fitted(tmp_path, library, make)
    assert names(place.split(", ")[0], "prepares it") and place.endswith(", within trainer/loops.py:6")
