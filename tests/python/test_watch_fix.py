# `python -m stoker watch --fix` of programs with a planted bottleneck: changes that harm are taken back, and the program's
# batches and random numbers stay those of a run without a watch. Samples sleep, so that workers also help on a busy
# machine. Gains: tests/ground_truth/test_watched_fix.py.
import json

import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from test_watch import WITHOUT_DYNAMO, Runs

SCRIPT = """
import hashlib, random, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

KIND = {kind!r}

class Slow(Dataset):
    calls = epoch = 0

    def __len__(self):
        return 200

    def __getitem__(self, index):
        self.calls += 1
        in_worker = get_worker_info() is not None
        if KIND == "fails" and in_worker:
            raise RuntimeError("a handle that cannot be shared")
        time.sleep(0.004 if KIND == "slower" and in_worker else 0.001)
        more = random.random() if KIND == "draws" else self.calls if KIND == "counts" else 0
        return torch.tensor([index / 200, more, self.epoch % 7]), index % 4

torch.manual_seed(0)
random.seed(0)
torch.set_num_threads(1)

def make(data):
    return DataLoader(data, batch_size=20, shuffle=True)

loader, others = make(Slow()), make([(torch.full((3,), float(i)), -i) for i in range(60)])
model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
digest = hashlib.sha256()
for epoch in range({epochs}):
    loader.dataset.epoch = epoch  # workers must see it
    for values, labels in loader:
        digest.update(values.numpy().tobytes() + labels.numpy().tobytes())
        loss = nn.functional.cross_entropy(model(values), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for values, labels in others:  # made on the same line, and not trained on
        with torch.no_grad():
            model(values)
        digest.update(values.numpy().tobytes() + labels.numpy().tobytes())
    for first, second in zip(loader, loader):  # two passes at once, left early
        digest.update(first[1].numpy().tobytes() + second[1].numpy().tobytes())
        if random.random() < 0.3:
            break
print(loss.item(), torch.rand(1).item(), digest.hexdigest())
"""


class Case:
    """A program, and what --fix made of it."""

    def __init__(self, runs, kind, *options, epochs=30):
        self.runs = runs
        self.text = WITHOUT_DYNAMO + SCRIPT.format(kind=kind, epochs=epochs)
        self.path = runs.folder / "train.py"
        self.path.write_text(self.text)
        self.ran = runs.watch("--fix", "--json", "v.json", *options, "train.py")
        assert self.ran.returncode == 0, self.ran.stderr
        assert "no verdict" not in self.ran.stderr, self.ran.stderr
        self.document = json.loads((runs.folder / "v.json").read_text())["fix"]
        self.changes = self.document["changes"]

    def assert_same_output(self):
        self.path.write_text(self.text)
        assert self.runs.python("train.py").stdout == self.ran.stdout


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


@pytest.mark.parametrize("kind", ["counts", "fails", "slower"])
def test_workers_that_harm_are_taken_back(runs, kind):
    case = Case(runs, kind)
    assert case.changes and not any(change["kept"] for change in case.changes)
    reason = case.changes[0]["reason"]
    assert {"counts": "other samples", "fails": "cannot be shared", "slower": "slower"}[kind] in reason
    assert case.document["patch"] == ""
    case.assert_same_output()


def test_random_numbers_change_only_where_that_is_allowed(runs):
    case = Case(runs, "draws", epochs=25)
    assert "--allow random" in case.changes[0]["reason"] and case.changes[0]["measured"] is None
    case.assert_same_output()


def test_options_that_need_fix(runs):
    runs.script("print(1)")
    for options in (["--write"], ["--patch", "x.patch"], ["--allow", "random"], ["--fix", "--allow", "everything"]):
        ran = runs.watch(*options, "train.py")
        assert ran.returncode == 2 and ran.stdout == "" and ran.stderr
