# `stoker runs`: complete and damaged run folders are listed and compared; TensorBoard itself reads the event files.
import json
import math
import xml.etree.ElementTree as ElementTree

import pytest

RECIPE = '[data]\ntrain = "synth:digits"\n[optimizer]\nlr = {lr}\n[train]\nepochs = {epochs}\n'


def step(number, epoch, loss):
    times = {"wait": 100, "copy": 0, "forward": 400, "unmeasured": 0}
    head = {"type": "step", "schema": 1, "step": number, "epoch": epoch, "samples": 64}
    return head | {"loss": loss, "lr": 0.1 / number, "batch_hash": "00", "us": times}


def epoch(number, last_step):
    head = {"type": "epoch", "schema": 1, "step": last_step, "epoch": number}
    speed = {"seconds": 2.0, "images_per_second": 320.0}
    quality = {"train_loss": 1 / number, "val_loss": 1.5 / number, "val_accuracy": 1 - 0.5 / number}
    return head | speed | quality | {"bad_samples": 0, "val_bad_samples": 0}


def metrics(epochs, steps):
    lines = []
    for number in range(1, epochs + 1):
        lines += [step(i, number, 2.0 / i) for i in range((number - 1) * steps + 1, number * steps + 1)]
        lines.append(epoch(number, number * steps))
    return lines


@pytest.fixture
def make(tmp_path):
    """A run folder without training."""

    def write(name, epochs=2, steps=10, planned=2, lr=0.001, account=True, more=()):
        run = tmp_path / name
        run.mkdir(parents=True)
        (run / "recipe.toml").write_text(RECIPE.format(lr=lr, epochs=planned))
        lines = metrics(epochs, steps) + list(more)
        (run / "metrics.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        if account:
            figures = {"run": name, "steps": epochs * steps, "interrupted": epochs < planned, "device": "cpu"}
            (run / "account.json").write_text(json.dumps(figures))
        return run

    return write


# ---- list ----


def test_list(stoker, make):
    make("runs/first")
    make("runs/deep/second", epochs=1)
    make("runs/third", epochs=1, account=False, more=[step(11, 2, 0.5)])
    runs = {run["name"]: run for run in stoker("runs", "list", "--json").json()["runs"]}
    assert set(runs) == {"first", "deep/second", "third"}
    first = runs["first"]
    assert (first["finished"], first["interrupted"], first["step"], first["device"]) == (True, False, 20, "cpu")
    assert (first["epochs_done"], first["epochs_planned"], first["model"]) == (2, 2, "mlp")
    assert (first["train_loss"], first["val_loss"], first["val_accuracy"]) == (0.5, 0.75, 0.75)
    assert (first["seconds"], first["images_per_second"], first["problems"]) == (4.0, 320.0, [])
    assert (runs["deep/second"]["finished"], runs["deep/second"]["interrupted"]) == (False, True)
    third = runs["third"]
    assert (third["finished"], third["interrupted"], third["step"], third["device"]) == (False, False, 11, None)

    lines = stoker("runs", "list").out.splitlines()
    assert lines[0].split()[:3] == ["run", "model", "data"] and len(lines) == 4
    text = "\n".join(lines)
    assert "finished" in text and "stopped at step 10" in text and "at step 11" in text and "75.00 %" in text


def test_broken_runs_are_listed_with_what_is_wrong(stoker, make, tmp_path):
    make("runs/good")
    for name in ("bad-metrics", "bad-recipe", "bad-account", "cut"):
        make(f"runs/{name}")
    (tmp_path / "runs/bad-metrics/metrics.jsonl").write_bytes(b"\x89PNG\n")
    (tmp_path / "runs/bad-recipe/recipe.toml").write_text("= 3\n")
    (tmp_path / "runs/bad-account/account.json").write_text("{")
    whole = (tmp_path / "runs/cut/metrics.jsonl").read_bytes()
    (tmp_path / "runs/cut/metrics.jsonl").write_bytes(whole[:-40])
    (tmp_path / "runs/empty").mkdir()
    (tmp_path / "runs/begun").mkdir()
    (tmp_path / "runs/begun/recipe.toml").write_text(RECIPE.format(lr=1, epochs=3))
    runs = {run["name"]: run for run in stoker("runs", "list", "--json").json()["runs"]}
    assert set(runs) == {"good", "bad-metrics", "bad-recipe", "bad-account", "cut", "begun"}
    assert "other text" in runs["bad-metrics"]["problems"][0] and runs["bad-metrics"]["epochs_done"] == 0
    assert "TOML" in runs["bad-recipe"]["problems"][0] and runs["bad-recipe"]["val_accuracy"] == 0.75
    assert "account.json" in runs["bad-account"]["problems"][0]
    assert runs["cut"]["problems"] == [] and runs["cut"]["epochs_done"] == 1
    assert runs["begun"]["problems"] == ["no metrics.jsonl"] and runs["begun"]["epochs_planned"] == 3
    out = stoker("runs", "list").out
    assert "begun: no metrics.jsonl" in out and "no step recorded" in out


def test_a_run_of_the_engine_is_listed(stoker, recipe):
    # A run of the engine, if there is one: its files have the keys that the other tests write.
    done = stoker("train", recipe(rest="[train]\nepochs = 1\n"), "--out", "runs/real", "--json", status=None)
    if "expected the engine" in done.err:
        pytest.skip("needs the engine: STOKER_ENGINE=ON")
    run = stoker("runs", "list", "--json").json()["runs"][0]
    last = done.json()["epochs"][-1]
    assert run["finished"] and run["problems"] == [] and run["device"] == done.json()["device"]
    assert (run["train_loss"], run["val_accuracy"]) == (last["train_loss"], last["val_accuracy"])
    assert run["seconds"] == pytest.approx(last["seconds"])


def test_a_run_that_failed_says_where_and_why(stoker, make):
    run = make("runs/a", epochs=1, account=False, more=[step(11, 2, None)])
    (run / "failed.json").write_text(json.dumps({"error": "[train] expected a finite loss,\ngot nan"}))
    out = stoker("runs", "list").out
    assert "failed at step 11 " in out and "\na: failed: [train] expected a finite loss,\\x0agot nan\n" in out
    assert stoker("runs", "list", "--json").json()["runs"][0]["error"] == "[train] expected a finite loss,\ngot nan"
    make("runs/b")
    assert "failed at step 11" in stoker("runs", "compare", "runs/a", "runs/b").out


def test_pictures_are_svg_and_nothing_else(stoker, make, tmp_path):
    make("a")
    make("b")
    for words, option in ((["compare", "a", "b", "-o"], "-o"), (["export", "a", "--svg"], "--svg")):
        for name in ("c.png", "c"):
            refused = stoker("runs", *words, name, status=1)
            assert refused.err.startswith(f"stoker: [{option}] expected ") and refused.err.endswith(f" got {name}\n")
            assert refused.out == "" and not (tmp_path / name).exists()
        assert "no/c.svg" in stoker("runs", *words, "no/c.svg", status=1).err


def test_names_cannot_move_the_cursor(stoker, make):
    make("runs/a\x1b[2J\nb")
    out = stoker("runs", "list").out
    assert "\x1b" not in out and len(out.splitlines()) == 2
    assert stoker("runs", "list", "--json").json()["runs"][0]["name"] == "a\x1b[2J\nb"


@pytest.mark.parametrize(
    "words, status",
    [(["list", "nowhere"], 1), (["compare", "a", "b"], 1), (["compare", "a"], 2), (["export", "a"], 2), ([], 2)],
)
def test_wrong_usage_is_one_line(stoker, words, status):
    done = stoker("runs", *words, status=status)
    assert done.out == "" and done.err.startswith("stoker: ") and done.err.count("\n") == 1


# ---- compare ----


def test_compare(stoker, make):
    make("first")
    make("second", lr=0.01, epochs=1)
    document = stoker("runs", "compare", "first", "second", "--json").json()
    assert document["recipe"] == {"optimizer.lr": ["0.001", "0.01"]}
    assert document["ratios"] == {"images_per_second": [1.0, 1.0], "seconds": [1.0, 0.5]}
    assert [len(run["epochs"]) for run in document["runs"]] == [2, 1]
    assert document["runs"][0]["epochs"][1]["val_loss"] == 0.75
    out = stoker("runs", "compare", "first", "second").out
    assert "optimizer.lr" in out and "(0.50x)" in out and "75.00 %" in out
    assert "the recipes are the same" in stoker("runs", "compare", "first", "first").out


def test_curves(stoker, make, tmp_path):
    make("a/run", epochs=3, steps=3000)
    make("b/run <&>", lr=0.01)
    stoker("runs", "compare", "a/run", "b/run <&>", "-o", "compare.svg")
    stoker("runs", "export", "a/run", "--svg", "one.svg")
    for name in ("compare.svg", "one.svg"):
        svg = tmp_path / name
        assert svg.stat().st_size < 100_000
        tree = ElementTree.parse(svg)
        assert tree.getroot().tag == "{http://www.w3.org/2000/svg}svg"
        text = "".join(tree.getroot().itertext())
        assert "Training loss" in text and "Validation accuracy" in text
        assert "script" not in svg.read_text() and svg.read_text().count("http") == 1  # the name space
    assert "run <&>" in "".join(ElementTree.parse(tmp_path / "compare.svg").getroot().itertext())


# ---- TensorBoard ----


def scalars(folder):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder), size_guidance={accumulator.SCALARS: 0})
    events.Reload()
    return {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}


def test_tensorboard_reads_what_was_exported(stoker, make, tmp_path):
    run = make("run", more=[step(21, 3, None)])
    stoker("runs", "export", "run", "--tensorboard", "logs/run")
    found = scalars(tmp_path / "logs/run")
    assert set(found) == {
        *("train/loss", "train/lr", "train/images_per_second", "train/wait"),
        *("epoch/train_loss", "epoch/val_loss", "epoch/val_accuracy", "epoch/images_per_second", "epoch/seconds"),
    }
    loss = found["train/loss"]
    assert [event.step for event in loss] == list(range(1, 22))
    assert [event.value for event in loss[:20]] == pytest.approx([2 / i for i in range(1, 21)])
    assert math.isnan(loss[20].value)
    assert found["train/lr"][3].value == pytest.approx(0.1 / 4)
    assert found["train/images_per_second"][0].value == pytest.approx(64 / 500e-6)
    assert found["train/wait"][0].value == pytest.approx(0.2)
    assert [(event.step, event.value) for event in found["epoch/val_accuracy"]] == [(10, 0.5), (20, 0.75)]
    times = [event.wall_time for event in loss]
    assert times == sorted(times) and times[-1] == pytest.approx((run / "metrics.jsonl").stat().st_mtime, abs=0.01)
    assert times[-1] - times[0] == pytest.approx(20 * 500e-6, abs=1e-4)


def test_a_resume_keeps_what_its_checkpoint_saw(stoker, make, tmp_path):
    make("before", epochs=2)
    make("resumed", epochs=1, more=[step(i, 2, 9.0) for i in range(11, 16)])
    stoker("runs", "export", "before", "--tensorboard", "logs")
    later = stoker("runs", "export", "resumed", "--tensorboard", "logs", "--after", "10", "--svg", "all.svg").out
    assert [line.split(": ")[1] for line in later.splitlines()] == ["5 steps, 0 epochs", "curves of 15 steps, 1 epoch"]
    alone = stoker("runs", "export", "resumed", "--svg", "all.svg", "--after", "10", status=2).err
    assert "--tensorboard" in alone and alone.count("\n") == 1
    found = scalars(tmp_path / "logs")
    assert [event.step for event in found["train/loss"]] == list(range(1, 16))
    assert [event.value for event in found["train/loss"][9:12]] == pytest.approx([0.2, 9.0, 9.0])
    assert [event.step for event in found["epoch/val_loss"]] == [10]


def test_the_server_drops_what_a_restart_made_void(stoker, make, tmp_path):
    # TensorBoard's web page uses another reader, which does not take a folder's first START for a restart.
    plugin = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_accumulator")
    make("long", epochs=2)
    make("short", epochs=1)
    for name in ("long", "short"):
        stoker("runs", "export", name, "--tensorboard", "logs")
    events = plugin.EventAccumulator(str(tmp_path / "logs"), tensor_size_guidance={"scalars": 0})
    events.Reload()
    assert [event.step for event in events.Tensors("train/lr")] == list(range(1, 11))
