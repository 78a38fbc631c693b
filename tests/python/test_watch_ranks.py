# Processes of one job: which rank each has under several launchers, one verdict for those of a host, and files of its
# own for each host.
import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.watch.ranks import Rank
from test_watch import Runs, train


@pytest.fixture
def runs(tmp_path):
    (tmp_path / "temporary").mkdir()
    return Runs(tmp_path)


def run(runs, script):
    """With a folder for temporary files, which is empty at the end. What hangs is ended with its children."""
    within = ("timeout", "110", "env", f"TMPDIR={runs.folder}/temporary")
    done = runs.python(script, prefix=(*within, sys.executable))
    assert done.returncode == 0, done.stderr
    left = [name for name in os.listdir(runs.folder / "temporary") if name.startswith("stoker")]
    assert left == []
    return done


# The first process starts the other, as Lightning's own launcher does: without RANK and LOCAL_WORLD_SIZE.
LAUNCHES = """
import os, subprocess, sys
import stoker
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
first = "LOCAL_RANK" not in os.environ

def start_the_other():
    if first:
        os.environ.update(WORLD_SIZE="2", NODE_RANK="0", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
        return subprocess.Popen([sys.executable, __file__], env={**os.environ, "LOCAL_RANK": "1"})

def join():
    dist.init_process_group(
        "gloo", init_method="file://" + __file__ + ".group", rank=int(os.environ["LOCAL_RANK"]), world_size=2
    )

def fit():
    loader = DataLoader(TensorDataset(torch.randn(240, 16), torch.arange(240) % 4), batch_size=8)
    model = nn.parallel.DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

{body}
dist.destroy_process_group()
if first:
    sys.exit(other.wait())
"""
WITHIN = """
with stoker.watching(json="verdict.json"):
    other = start_the_other()
    join()
    fit()
"""
BEFORE = """
other = start_the_other()
join()
with stoker.watching(json="verdict.json"):
    fit()
"""


BODIES = [pytest.param(WITHIN, id="within the watch", marks=pytest.mark.slow), pytest.param(BEFORE, id="before it", marks=pytest.mark.slow)]


@pytest.mark.parametrize("body", BODIES)
def test_a_process_that_starts_the_others_gives_one_verdict_for_all(runs, body):
    done = run(runs, runs.script(LAUNCHES.replace("{body}", body)))
    ranks = json.loads((runs.folder / "verdict.json").read_text())["ranks"]
    assert [rank["steps"] for rank in ranks] == [30, 30]
    assert done.stderr.count("stoker watch ") == 1 and "has not ended" not in done.stderr


LIGHTNING = """
import torch
import pytorch_lightning as lightning
from stoker.watch.lightning import StokerWatch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def training_step(self, batch, number):
        return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.randn(240, 16), torch.arange(240) % 4), batch_size=8)

quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, max_epochs=1, callbacks=[StokerWatch(json="verdict.json", keep="kept")], **quiet
)
trainer.fit(Model())
"""


def test_lightnings_own_launcher(runs):
    pytest.importorskip("pytorch_lightning")
    done = run(runs, runs.script(LIGHTNING))
    ranks = json.loads((runs.folder / "verdict.json").read_text())["ranks"]
    assert [rank["steps"] for rank in ranks] == [15, 15]
    assert "has not ended" not in done.stderr
    (line,) = [number for number, text in enumerate(LIGHTNING.splitlines(), 1) if "return DataLoader" in text]
    for facts in runs.records("kept", "facts"):
        assert facts["data"]["place"] == f"train.py:{line}"
        assert facts["world_size"] == 2 and facts["train"]["batch_size"] == 16


LAUNCHERS = {
    "torchrun": ({"RANK": 9, "WORLD_SIZE": 16, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 8}, (9, 16, 1, 8)),
    "Lightning": ({"WORLD_SIZE": 2, "LOCAL_RANK": 1, "NODE_RANK": 0}, (1, 2, 1, 2)),
    "no local rank": ({"RANK": 1, "WORLD_SIZE": 2}, (1, 2, 1, 2)),
    "one process": ({"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0}, (0, 1, 0, 1)),
}


@pytest.fixture
def launched(monkeypatch):
    def launch(names):
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in names.items():
            monkeypatch.setenv(name, str(value))
        return Rank.of_environment()

    return launch


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_rank_is_the_launchers(launched, launcher):
    names, expected = LAUNCHERS[launcher]
    rank = launched(names)
    assert (rank.rank, rank.world_size, rank.local_rank, rank.local_world_size) == expected


def test_a_process_group_knows_better_than_the_environment(launched, monkeypatch):
    import torch.distributed as group

    monkeypatch.setattr(group, "is_initialized", lambda: True)
    monkeypatch.setattr(group, "get_rank", lambda: 5)
    monkeypatch.setattr(group, "get_world_size", lambda: 8)
    rank = launched({"WORLD_SIZE": 8, "LOCAL_RANK": 1, "NODE_RANK": 1})
    assert (rank.rank, rank.world_size, rank.local_rank) == (5, 8, 1)


def test_each_of_several_hosts_has_files_of_its_own(runs, launched):
    second = {"RANK": 1, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
    words = ("-m", "stoker", "watch", "-o", "report.html", "--json", "verdict.json", "--keep", "kept")
    settings = [f"{name}={value}" for name, value in second.items()]
    done = runs.python(*words, runs.script(train(epochs=1)), prefix=("env", *settings, sys.executable))
    assert done.returncode == 0 and "stoker watch " in done.stderr, done.stderr
    written = sorted(name for name in os.listdir(runs.folder) if name.startswith(("report", "verdict", "kept")))
    assert written == ["kept-rank1", "report-rank1.html", "verdict-rank1.json"]
    first = launched({**second, "RANK": 0})
    assert first.judges and first.named(Path("report.html")) == Path("report-rank0.html")
    alone = launched({"RANK": 1, "WORLD_SIZE": 2, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2})
    assert alone.named(Path("report.html")) == Path("report.html")
