# `stoker lr`: the plot, the suggestion and the file, and that nothing else is left; a rate that it suggests trains.
import json
import xml.etree.ElementTree as ElementTree

import pytest

RECIPE = """
seed = 1
device = "cpu"
[data]
train = "synth:digits?count=400"
val = "synth:digits?count=200"
batch_size = 32
workers = 1
train_ops = [{op = "normalize", preset = "mnist"}]
val_ops = [{op = "normalize", preset = "mnist"}]
[optimizer]
name = "sgd"
lr = 1e-6
[train]
epochs = 3
threads = 1
keep_best = "val_loss"
"""


@pytest.fixture
def written(tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    return tmp_path


def test_the_suggested_rate_trains(stoker, written):
    found = stoker("lr", "r.toml", "--json", "--to", 1000).json()
    rates = [point["lr"] for point in found["points"]]
    assert found["diverged"] and len(rates) < 150 and rates == sorted(rates) and rates[0] == pytest.approx(1e-7)
    assert 1e-3 < found["suggestion"] <= rates[-1] / 10 + 1e-9
    assert [path.name for path in written.iterdir()] == ["r.toml"]
    stoker("train", "r.toml", "--out", "slow")
    stoker("train", "r.toml", "--out", "good", "--set", f"optimizer.lr={found['suggestion']}")
    slow, good = (json.loads((written / run / "account.json").read_text())["epochs"][-1] for run in ("slow", "good"))
    assert good["val_loss"] < 0.8 * slow["val_loss"]


def test_the_plot_is_text_and_svg(stoker, written):
    done = stoker("lr", "r.toml", "--steps", 60, "-o", "lr.svg")
    assert "suggestion: --set optimizer.lr=" in done.out and done.out.count("*") + done.out.count("^") >= 30
    assert "\n      rate  1e-07 " in done.out
    text = "".join(ElementTree.parse(written / "lr.svg").getroot().itertext())
    assert "learning-rate range test, suggestion" in text and "smoothed loss" in text
    assert "--from" in stoker("lr", "r.toml", "--from", 1, "--to", 0.1, status=2).err
    assert ".svg" in stoker("lr", "r.toml", "-o", "lr.png", status=1).err


def test_a_run_that_stops_early_has_finished(stoker, written):
    done = stoker(
        "train", "r.toml", "--out", "run", "--set", "train.epochs=30", "--set", "train.early_stop=2",
        "--set", "optimizer.lr=1e-30",
    )  # fmt: skip
    assert "stopped early: 2 evaluations without a better val_loss" in done.err
    assert "best by val_loss: epoch 1, kept as run/best" in done.err
    (run,) = stoker("runs", "list", ".", "--json").json()["runs"]
    assert run["finished"] and run["epochs_done"] == 3
    assert "finished after 3 epochs" in stoker("train", "r.toml", "--out", "run", "--resume", "auto", "--set",
                                               "train.epochs=30", "--set", "train.early_stop=2").err  # fmt: skip
