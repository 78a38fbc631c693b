# The run folder: its files, their records, and what remains of a run that failed early or late.
import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import run_program
from PIL import Image
from terminal import on_terminal

PHASES = ["wait", "copy", "forward", "backward", "optimizer", "step"]
PHASES += ["communication", "sync", "evaluate", "checkpoint", "unmeasured"]
RECIPE = """
seed = 3
[data]
train = "synth:digits?count=640"
batch_size = 64
train_ops = [{op = "normalize", preset = "mnist"}]
val_ops = [{op = "normalize", preset = "mnist"}]
[model]
hidden = [16]
[train]
epochs = 3
threads = 1
deterministic = true
checkpoint_every = "4 steps"
"""


@pytest.fixture(scope="module")
def finished(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    (folder / "r.toml").write_text(RECIPE)
    return folder, run_program("train", "r.toml", "--out", "run", "--json", cwd=folder)


@pytest.fixture
def trained(finished, tmp_path):
    """A finished run, copied into the test's own folder."""
    folder, done = finished
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return done


def records(run, kind):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["type"] == kind]


def test_files(trained, tmp_path):
    run = tmp_path / "run"
    names = sorted(path.name for path in run.iterdir())
    events = [name for name in names if name.startswith("events.out.tfevents.")]
    assert len(events) == 1
    names.remove(events[0])
    assert names == ["account.json", "checkpoints", "curves.svg", "metrics.jsonl", "recipe.toml"]
    assert sorted(int(path.name) for path in (run / "checkpoints").iterdir()) == [24, 28, 30]
    for checkpoint in (run / "checkpoints").iterdir():
        names = sorted(path.name for path in checkpoint.iterdir())
        assert names == ["model.safetensors", "optimizer.safetensors", "state.json"]


def test_document(trained, tmp_path):
    document = trained.json()
    assert trained.out.lstrip().startswith("{")
    assert document["run"] == "run" and document["resumed_from_step"] is None and document["steps"] == 30
    assert [epoch["epoch"] for epoch in document["epochs"]] == [1, 2, 3]
    for epoch in document["epochs"]:
        assert set(epoch) >= {"seconds", "images_per_second", "train_loss", "val_loss", "val_accuracy"}
        assert epoch["images_per_second"] == pytest.approx(640 / epoch["seconds"])
        assert 0 <= epoch["val_accuracy"] <= 1
    assert document["epochs"][2]["train_loss"] < document["epochs"][0]["train_loss"]
    assert sum(document["account"][phase] for phase in PHASES) == pytest.approx(1, abs=1e-9)
    assert document["workers"]["samples"] >= 3 * 640
    assert document["peak_rss_mb"] > 10 and document["device"]
    on_cpu = document["device"] == "cpu"
    assert document["compiled"] == ("fused" if on_cpu else "graph") and (document["memory"] is None) == on_cpu
    assert json.loads((tmp_path / "run/account.json").read_text()) == document


def test_a_run_on_the_cpu_opens_nothing_of_cuda(stoker, tmp_path):
    (tmp_path / "r.toml").write_text('device = "cpu"\n' + RECIPE)
    opened = stoker("train", "r.toml", "--out", "run", env={"LD_DEBUG": "files"}).err
    assert "libtorch_cpu.so" in opened
    assert "libtorch_cuda.so" not in opened and "libstoker_torch_cuda.so" not in opened


def test_records(trained, tmp_path):
    steps = records(tmp_path / "run", "step")
    assert [step["step"] for step in steps] == list(range(1, 31))
    assert [step["epoch"] for step in steps] == [1 + i // 10 for i in range(30)]
    assert all(step["samples"] == 64 and step["schema"] == 1 for step in steps)
    assert all(set(step["us"]) <= set(PHASES) and all(step["us"].values()) for step in steps)
    hashes = [step["batch_hash"] for step in steps]
    assert len(set(hashes)) == 30  # another order every epoch
    epochs = records(tmp_path / "run", "epoch")
    assert [epoch["step"] for epoch in epochs] == [10, 20, 30]
    for record, epoch in zip(epochs, trained.json()["epochs"], strict=True):
        assert {key: record[key] for key in epoch} == epoch


def test_recipe_of_a_run_makes_the_same_run(trained, stoker, tmp_path):
    again = stoker("train", "run/recipe.toml", "--out", "again", "--json")
    keys = ["train_loss", "val_loss", "val_accuracy"]
    assert [[epoch[key] for key in keys] for epoch in again.json()["epochs"]] == [
        [epoch[key] for key in keys] for epoch in trained.json()["epochs"]
    ]
    assert (tmp_path / "again/recipe.toml").read_text() == (tmp_path / "run/recipe.toml").read_text()


def test_eval_of_a_run_and_of_a_checkpoint(trained, stoker):
    last = trained.json()["epochs"][-1]
    for where in ("run", "run/checkpoints/30", "run/checkpoints/30/"):
        figures = stoker("eval", "r.toml", "--checkpoint", where, "--json").json()
        assert figures["val_loss"] == pytest.approx(last["val_loss"], abs=1e-9)
        assert figures["val_accuracy"] == last["val_accuracy"]
    done = stoker("eval", "r.toml", "--checkpoint", "nowhere", status=1)
    assert done.err.startswith("stoker: ") and done.err.count("\n") == 1


def test_a_name_that_is_not_utf8(program, trained, tmp_path):
    # Bytes of a path mean nothing to JSON: they are replaced there and kept on disk.
    for command in (["train", "r.toml", "--out"], ["eval", "r.toml", "--checkpoint"]):
        done = subprocess.run([program, *command, b"x\xff", "--json"], cwd=tmp_path, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.decode())["run"].startswith("x\ufffd")
    assert os.path.isdir(os.fsencode(tmp_path) + b"/x\xff/checkpoints")


def test_train_says_how_to_resume_a_run_folder(trained, stoker):
    done = stoker("train", "run/", status=1)
    assert done.err.startswith("stoker: [run/] expected a recipe")
    assert "; run/recipe.toml --out run --resume auto" in done.err
    error = stoker("train", "run/recipe.toml", "--resume", "auto", status=1).err
    assert error.startswith("stoker: [run/recipe.toml] expected --out DIR") and "; --out run --resume auto" in error
    more = stoker("train", "run/recipe.toml", "-o", "run", "--resume", "auto", "--set", "train.epochs=4", "--json")
    assert more.json()["resumed_from_step"] == 30
    assert "; run/recipe.toml is in it" in stoker("lr", "run", status=1).err


def test_existing_run_is_refused(trained, stoker, tmp_path):
    metrics = (tmp_path / "run/metrics.jsonl").read_bytes()
    done = stoker("train", "r.toml", "--out", "run", "--json", status=1)
    assert done.out == "" and done.err.count("\n") == 1 and "--resume auto" in done.err
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == metrics


def make_photos(folder, bad):
    for label in ("a", "b"):
        (folder / label).mkdir(parents=True)
        for i in range(30):
            colour = (i * 8, 0, 0) if label == "a" else (0, i * 8, 0)
            Image.new("RGB", (16, 16), colour).save(folder / label / f"{i}.png")
    path = folder / "b" / bad
    path.write_bytes(path.read_bytes()[:40])


def test_bad_sample_in_the_middle_of_an_epoch(stoker, tmp_path):
    make_photos(tmp_path / "photos", "29.png")
    (tmp_path / "r.toml").write_text("""
[data]
train = "photos"
batch_size = 4
shuffle = false
bad_samples = 0
[train]
epochs = 2
threads = 1
""")
    done = stoker("train", "r.toml", "--out", "runs/new", "--json", status=1)
    assert done.out == ""
    assert "runs/new: checkpoint of step 13 written; --resume auto continues\n" in done.err
    assert done.err.splitlines()[-1].startswith("stoker: ") and "29.png" in done.err
    left = {path.name for path in (tmp_path / "runs/new").iterdir()}
    assert "quarantine.jsonl" in left
    assert "failed.json" in left and "curves.svg" in left
    assert [path.name for path in (tmp_path / "runs/new/checkpoints").iterdir()] == ["13"]
    assert "--resume auto" in stoker("train", "r.toml", "--out", "runs/new", status=1).err
    # Once the sample is repaired, the run continues.
    Image.new("RGB", (16, 16)).save(tmp_path / "photos/b/29.png")
    again = stoker("train", "r.toml", "--out", "runs/new", "--resume", "auto").err
    assert "resuming after step 13" in again and not (tmp_path / "runs/new/failed.json").exists()


def test_one_bad_sample_does_not_end_a_small_run(stoker, tmp_path):
    make_photos(tmp_path / "photos", "29.png")
    (tmp_path / "r.toml").write_text('[data]\ntrain = "photos"\nbatch_size = 4\n[train]\nepochs = 2\n')
    done = stoker("train", "r.toml", "--out", "run", "--json")
    assert done.err.splitlines()[-1] == "replaced 1 sample that could not be read: run/quarantine.jsonl"
    assert done.json()["bad_samples"] == 1


def test_a_run_that_diverges_leaves_its_records(stoker, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    diverges = ["--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e30", "--set", "train.checkpoint_every=1 epoch"]
    done = stoker("train", "r.toml", "--out", "runs/a", *diverges, status=1)
    note, checkpoint, error = done.err.splitlines()[-3:]
    assert note == "runs/a: metrics.jsonl and curves.svg cover the run up to the failure"
    assert checkpoint.startswith("runs/a: no checkpoint of step ") and checkpoint.endswith(": its loss is not finite")
    assert error.startswith("stoker: [train] expected a finite loss, got nan in step ")
    last = records(tmp_path / "runs/a", "step")[-1]
    assert last["loss"] is None and f"in step {last['step']}, of" in error
    assert "<svg" in (tmp_path / "runs/a/curves.svg").read_text()
    listed = stoker("runs", "list").out
    assert f"failed at step {last['step']} " in listed and "\na: failed: [train] expected a finite loss, got" in listed
    run = stoker("runs", "list", "--json").json()["runs"][0]
    assert not run["finished"] and "stoker: " + run["error"] == error


PLANS = {
    ("schedule.name=multi_step", "schedule.milestones=[2, 3, 40]"): "schedule.milestones: 3, 40 have no effect in a run of 3 epochs",
    ("schedule.name=step", "schedule.step_size=3"): "schedule.step_size: 3 has no effect in a run of 3 epochs",
    ("schedule.name=plateau", "schedule.patience=1"): "schedule.patience: 1 has no effect in a run of 3 epochs",
    ("schedule.warmup=30 steps",): "schedule.warmup: 30 steps in a run of 30 steps: optimizer.lr is never reached",
    ("schedule.name=one_cycle", "schedule.warmup=1 epoch"): "schedule.warmup: no effect with the schedule one_cycle",
    ("schedule.milestones=[2]",): "schedule.milestones: no effect with the schedule constant",
    ("train.checkpoint_every=4 epochs",): "train.checkpoint_every: 4 epochs in a run of 3 epochs: the only checkpoint is",
    ("schedule.name=multi_step", "schedule.milestones=[2]", "schedule.warmup=29 steps", "train.checkpoint_every=3 epochs"): "",
}


@pytest.mark.parametrize("settings", PLANS)
def test_settings_without_effect_are_printed(stoker, tmp_path, settings):
    (tmp_path / "r.toml").write_text(RECIPE)
    printed = stoker("train", "r.toml", "--out", "run", *[part for text in settings for part in ("--set", text)]).err
    lines = [line for line in printed.splitlines() if line.startswith(("schedule.", "train."))]
    assert len(lines) == bool(PLANS[settings])
    assert not lines or lines[0].startswith(PLANS[settings])


def test_a_run_folder_that_cannot_be_is_refused_before_data_are_opened(stoker, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE.replace("synth:digits?count=640", "nowhere"))
    (tmp_path / "file").write_text("")
    done = stoker("train", "r.toml", "--out", "file/runs/a", status=1)
    assert done.err.startswith("stoker: [file/runs/a] expected ") and done.err.count("\n") == 1


def test_a_run_folder_that_cannot_be_opened_is_one_line(stoker, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    (tmp_path / "run").mkdir(mode=0o300)  # files can be created in it, but not listed
    prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    done = stoker("train", "r.toml", "--out", "run", status=1, prefix=prefix)
    assert done.err.splitlines()[-1].startswith("stoker: [run] expected ")
    (tmp_path / "run").chmod(0o700)
    assert not list((tmp_path / "run").iterdir())


def test_run_without_validation_has_none(stoker, tmp_path):
    make_photos(tmp_path / "photos", "1.png")
    Image.new("RGB", (16, 16)).save(tmp_path / "photos/b/1.png")
    (tmp_path / "r.toml").write_text('[data]\ntrain = "photos"\n[train]\nepochs = 1\nthreads = 1\n')
    document = stoker("train", "r.toml", "--out", "run", "--json").json()
    assert document["epochs"][0]["val_loss"] is None and document["epochs"][0]["val_accuracy"] is None
    assert document["account"]["evaluate"] == 0
    assert stoker("eval", "r.toml", "--checkpoint", "run", status=1).err.count("\n") == 1


def test_the_summary_has_the_classes(stoker, drawn, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE.replace("synth:digits?count=640", str(drawn)))
    ops = '[{op="resize",size=[8,8]}]'
    sets = [f"data.train_ops={ops}", f"data.val_ops={ops}", "train.epochs=1"]
    done = stoker("train", "r.toml", *[word for text in sets for word in ("--set", text)])
    assert "24 samples in 8 classes, batch 64, 1 step per epoch" in done.err


def test_the_summary_has_both_sides_of_the_split(stoker, drawn, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE.replace("synth:digits?count=640", str(drawn)))
    ops = '[{op="resize",size=[8,8]}]'
    sets = [f"data.train_ops={ops}", f"data.val_ops={ops}", "train.epochs=1", "data.val=34%"]
    done = stoker("train", "r.toml", *[word for text in sets for word in ("--set", text)])
    trained, kept = re.search(r"(\d+) samples in 8 classes and (\d+) for validation", done.err).groups()
    assert int(trained) + int(kept) == 24
    assert 8 <= int(kept) <= 16  # of each class of three samples one, or two


def test_training_continues_when_a_pipe_is_closed(program, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    for out, status in ((subprocess.DEVNULL, 0), (subprocess.STDOUT, 1)):
        command = [program, "train", "r.toml", "--out", f"run{status}"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if status else {"stdout": out, "stderr": -1}
        with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
            pipe = process.stdout or process.stderr
            assert b"samples in 10 classes" in pipe.readline()
            pipe.close()
            assert process.wait(60) == status  # the report that could not be written is an error, after all
        run = tmp_path / f"run{status}"
        assert (run / "account.json").exists() and (run / "checkpoints/30/state.json").exists()


def test_the_progress_bar_shows_the_rate_of_the_table(program, tmp_path):
    # Most of the time goes into checkpoints, which neither rate includes.
    (tmp_path / "r.toml").write_text(RECIPE.replace("count=640", "count=320"))
    sets = ["train.epochs=1", "train.checkpoint_every=1 steps", "model.hidden=[2048]", "data.batch_size=8"]
    command = [program, "train", "r.toml", "--out", "run", *[word for text in sets for word in ("--set", text)]]
    shown = "\n".join(on_terminal(80, command, tmp_path, "stderr"))
    bars = re.findall(r"epoch 1/1 .*?%  ([\d,]+) images/s", shown)
    (table,) = re.findall(r"\b1/1 +[\d.]+ +([\d,]+) ", shown)
    assert bars, shown
    bar, table = (float(text.replace(",", "")) for text in (bars[-1], table))
    assert 0.5 < bar / table < 2, (bars, table)


def test_a_loss_that_is_nan_has_no_accuracy(stoker, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    sets = ["optimizer.lr=1e30", "train.stop_at_nan=false", "train.epochs=2"]
    done = stoker("train", "r.toml", "--out", "run", *[word for text in sets for word in ("--set", text)])
    (line,) = [line for line in done.err.splitlines() if line.lstrip().startswith("2/2")]
    assert line.split()[-3:] == ["nan", "nan", "-"], line
    assert "no accuracy: the loss is not finite after 2 epochs; run folder run" in done.out
    assert "%" not in stoker("runs", "list", "run").out
