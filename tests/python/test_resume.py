# A run that was killed at any moment resumes as if it had not been: all later figures equal those of an
# uninterrupted run, bit for bit.
import json
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import run_program

EPOCHS = 6
RECIPE = f"""
seed = 9
device = "cpu"
[data]
train = "synth:digits?count=1280"
batch_size = 32
workers = 1
cache = "ram"
train_ops = [{{op = "random_resized_crop", size = 28, scale = [0.7, 1.0]}}, {{op = "normalize", preset = "mnist"}}]
val_ops = [{{op = "normalize", preset = "mnist"}}]
[model]
hidden = [32]
[schedule]
name = "one_cycle"
[train]
epochs = {EPOCHS}
threads = 1
deterministic = true
checkpoint_every = "15 steps"
precision = "fp16"
loss_scale = 16777216.0
loss_scale_interval = 20
accumulate = 2
clip_norm = 1.0
ema = 0.99
"""


def figures(report):
    keys = ("epoch", "train_loss", "val_loss", "val_accuracy")
    return [tuple(epoch[key] for key in keys) for epoch in report["epochs"]]


def steps(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    keys = ("step", "epoch", "loss", "lr", "batch_hash")
    return [tuple(line[key] for key in keys) for line in lines if line["type"] == "step"]


def checkpoints(run):
    folder = run / "checkpoints"
    return [path for path in folder.iterdir() if path.name.isdigit()] if folder.exists() else []


def start(program, tmp_path, *arguments):
    command = [program, "train", "r.toml", "--out", "run", "--json", *arguments]
    return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_checkpoint(process, run):
    deadline = time.monotonic() + 60
    while not checkpoints(run):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture(scope="module")
def whole(program, tmp_path_factory):
    """The run left alone: its report, its folder, and the seconds from first checkpoint to end."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "r.toml").write_text(RECIPE)
    process = start(program, folder)
    wait_for_checkpoint(process, folder / "run")
    begin = time.monotonic()
    out, _ = process.communicate(timeout=120)
    return json.loads(out), folder / "run", time.monotonic() - begin


@pytest.fixture(scope="module")
def trained(program, tmp_path_factory):
    """A folder with a finished run of one epoch: checkpoints 15, 30 and 40."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "r.toml").write_text(RECIPE)
    train("--set", "train.epochs=1", cwd=folder)
    return folder


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)


def wait_for_writing(process, run):
    """Until a checkpoint is being written; that takes about a millisecond."""
    while process.poll() is None and not any(path.name.startswith(".") for path in (run / "checkpoints").iterdir()):
        pass


@pytest.mark.parametrize("moment", ["any", "writing"])
@pytest.mark.parametrize("attempt", [0, 1, *(pytest.param(later, marks=pytest.mark.slow) for later in range(2, 5))])
def test_killed_run_goes_on_bit_for_bit(program, tmp_path, recipe, whole, attempt, moment):
    report, whole_run, seconds = whole
    process = start(program, tmp_path)
    wait_for_checkpoint(process, tmp_path / "run")
    time.sleep(random.Random(attempt).uniform(0, 0.8) * seconds)
    if moment == "writing":
        wait_for_writing(process, tmp_path / "run")
    process.kill()
    process.communicate()
    resumed = run_program("train", "r.toml", "--out", "run", "--json", "--resume", "auto", cwd=tmp_path).json()
    assert resumed["resumed_from_step"] > 0 and resumed["resumed_from_step"] % 15 == 0
    assert resumed["steps"] == report["steps"]
    assert figures(resumed) == figures(report)
    assert steps(tmp_path / "run") == steps(whole_run)
    assert not [path for path in (tmp_path / "run/checkpoints").iterdir() if path.name.startswith(".")]


def test_killed_again_and_again(program, tmp_path, recipe, whole):
    report, whole_run, seconds = whole
    reached = 0
    for attempt in range(3):
        process = start(program, tmp_path, "--resume", "auto")
        deadline = time.monotonic() + 60
        while max((int(path.name) for path in checkpoints(tmp_path / "run")), default=0) <= reached + 15:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(random.Random(100 + attempt).uniform(0, 0.1) * seconds)
        process.kill()
        process.communicate()
        reached = max(int(path.name) for path in checkpoints(tmp_path / "run"))
    resumed = run_program("train", "r.toml", "--out", "run", "--json", "--resume", "auto", cwd=tmp_path).json()
    assert resumed["resumed_from_step"] >= reached
    assert figures(resumed) == figures(report)
    assert steps(tmp_path / "run") == steps(whole_run)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_checkpoint(program, tmp_path, recipe, whole, number):
    report, whole_run, _ = whole
    # Checkpoints by epoch: the one of the signal lies between them.
    process = start(program, tmp_path, "--set", "train.checkpoint_every=1 epoch")
    wait_for_checkpoint(process, tmp_path / "run")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    stopped = json.loads(out)
    assert stopped["interrupted"]
    lines = [line for line in err.splitlines() if line.startswith("stoker: stopped")]
    assert len(lines) == 1 and f"signal {int(number)} " in lines[0] and f"step {stopped['steps']};" in lines[0]
    assert "Traceback" not in err and "terminate" not in err
    assert (tmp_path / "run/checkpoints" / str(stopped["steps"]) / "state.json").exists()
    resumed = run_program("train", "r.toml", "--out", "run", "--json", "--resume", "auto", cwd=tmp_path).json()
    assert resumed["resumed_from_step"] == stopped["steps"]
    assert figures(resumed) == figures(report)
    assert steps(tmp_path / "run") == steps(whole_run)


def test_sigusr1_leaves_a_checkpoint_and_the_run_goes_on(program, tmp_path, recipe, whole):
    report, whole_run, _ = whole
    process = start(program, tmp_path, "--set", "train.checkpoint_every=4 epochs")
    wait_for_checkpoint(process, tmp_path / "run")
    process.send_signal(signal.SIGUSR1)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    line = next(line for line in err.splitlines() if "SIGUSR1" in line)
    step = int(line.removeprefix("stoker: checkpoint of step ").split()[0])
    assert line == f"stoker: checkpoint of step {step} written on SIGUSR1; the run goes on" and step >= 160
    assert figures(json.loads(out)) == figures(report)
    assert steps(tmp_path / "run") == steps(whole_run)


def test_a_run_killed_before_its_first_checkpoint_does_not_block_the_next(program, tmp_path, recipe):
    process = start(program, tmp_path, "--set", "train.checkpoint_every=100 epochs")
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("run/events.*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.communicate()
    done = train("--set", "train.epochs=1", cwd=tmp_path)
    assert "run: replacing a killed run that left no checkpoint\n" in done.err
    assert "already holds a run" in train("--set", "train.epochs=1", cwd=tmp_path, status=1).err


def test_a_signal_that_is_ignored_stays_ignored(program, tmp_path, recipe, whole):
    command = ["nohup", program, "train", "r.toml", "--out", "run", "--json"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_checkpoint(process, tmp_path / "run")
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert figures(json.loads(out)) == figures(whole[0])


def test_finished_run_prints_its_document_again(tmp_path, recipe, whole):
    first, whole_run, _ = whole
    shutil.copytree(whole_run, tmp_path / "run")
    again = train("--resume", "auto", "--json", cwd=tmp_path).json()
    assert first["resumed_from_step"] is None and again["resumed_from_step"] == first["steps"] == 240
    assert again["epochs"] == first["epochs"]
    assert steps(tmp_path / "run") == steps(whole_run)
    done = train("--resume", "auto", cwd=tmp_path)
    assert "nothing was trained; where the time went is in run/account.json" in done.out
    assert "loader worker" not in done.out


def test_resume_into_another_folder(program, tmp_path, recipe, whole):
    report, whole_run, _ = whole
    older = sorted(checkpoints(whole_run), key=lambda path: int(path.name))[0]
    resumed = run_program("train", "r.toml", "--out", "run", "--json", "--resume", older, cwd=tmp_path).json()
    assert resumed["resumed_from_step"] == int(older.name)
    assert figures(resumed) == figures(report)
    assert steps(tmp_path / "run") == [step for step in steps(whole_run) if step[0] > int(older.name)]


def test_the_folder_of_checkpoints_is_as_good_as_the_run(here):
    for name in ("run/checkpoints/", "run"):
        more = train("--resume", name, "--set", "train.epochs=2", "--json", cwd=here)
        assert more.json()["resumed_from_step"] in (40, 80)
    assert "this run finished after" in train("--resume", "run/checkpoints", "--set", "train.epochs=2", cwd=here).err


def test_a_folder_in_the_way_is_refused_before_the_data_is_read(here):
    refused = train("--set", "data.train=missing", cwd=here, status=1).err
    assert "already holds a run" in refused and "missing" not in refused and refused.count("\n") == 1


def test_a_finished_run_does_not_continue_in_another_folder(here):
    more = ["train", "r.toml", "--out", "more", "--resume", "run", "--set"]
    refused = run_program(*more, "train.epochs=1", cwd=here, status=1).err.splitlines()[-1]
    assert refused.startswith("stoker: [run/checkpoints/40] expected ") and "train.epochs" in refused
    assert not (here / "more").exists()
    assert run_program(*more, "train.epochs=2", "--json", cwd=here).json()["resumed_from_step"] == 40


@pytest.mark.parametrize("file", ["model.safetensors", "state.json"])
def test_a_damaged_checkpoint_names_the_one_before(here, file):
    more = ["--set", "train.epochs=2", "--resume"]
    for damaged, good in ((40, "run/checkpoints/30"), (30, "run/checkpoints/15"), (15, None)):
        path = here / "run/checkpoints" / str(damaged) / file
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        newest = "run/checkpoints/" if damaged == 40 else f"run/checkpoints/{damaged}/"
        error = train(*more, newest, cwd=here, status=1).err.splitlines()[-1]
        advice = f"; {good}, the one before it, is whole"
        assert error.startswith("stoker: [") and file in error, error
        assert error.endswith(advice) if good else "is whole" not in error, error
    assert file in train(*more, "auto", cwd=here, status=1).err  # none is whole
    before = here / "run/checkpoints/15" / file
    assert before.exists() and not (here / "run/failed.json").exists()  # nothing was begun


@pytest.mark.parametrize("file", ["model", "optimizer", "ema"])
def test_a_changed_byte_is_found(here, file):
    path = here / f"run/checkpoints/40/{file}.safetensors"
    data = bytearray(path.read_bytes())
    data[-2] ^= 0x40  # of the last float's exponent
    path.write_bytes(data)
    more = ["--set", "train.epochs=2", "--resume"]
    error = train(*more, "run/checkpoints/40", cwd=here, status=1).err
    assert f"{file}.safetensors" in error and "expected the file as it was written" in error, error
    assert error.endswith("; run/checkpoints/30, the one before it, is whole\n"), error
    status = {"model": 0, "optimizer": 0, "ema": 1}[file]  # the average is evaluated
    error = run_program("eval", "run", cwd=here, status=status).err
    assert ("run/checkpoints/30, the one before it, is whole" in error) == (status == 1), error
    assert "run/checkpoints/40.damaged" in train(*more, "auto", cwd=here).err  # as a restart by torchrun does
    assert (here / f"run/checkpoints/40.damaged/{file}.safetensors").read_bytes() == data


@pytest.mark.parametrize(("then", "now"), [(0, 0.99), (0.99, 0)])
def test_averaged_weights_that_come_or_go_are_refused_by_name(tmp_path, recipe, then, now):
    train("--set", "train.epochs=1", "--set", f"train.ema={then}", cwd=tmp_path)
    more = ["--resume", "auto", "--set", "train.epochs=2", "--set"]
    error = train(*more, f"train.ema={now}", cwd=tmp_path, status=1).err.splitlines()[-1]
    assert error.startswith("stoker: [train.ema] expected "), error
    assert f"{then}, as when the run began, got {now};" in error.replace(".0", "")
    assert f"train.ema = {then}" in error.replace(".0", "")
    train(*more, f"train.ema={then / 2}", cwd=tmp_path)  # another decay is fine


CHANGES = [
    "data.shuffle=false",
    "data.train=synth:digits?count=1290",
    "model.hidden=[33]",
    "model.activation=tanh",
    "optimizer.name=sgd",
]


@pytest.mark.parametrize("change", CHANGES)
def test_another_recipe_is_refused_in_one_line(here, change):
    toml = (here / "run/recipe.toml").read_bytes()
    done = train("--set", "train.epochs=1", "--resume", "auto", "--set", change, cwd=here, status=1)
    assert done.err.splitlines()[-1].startswith("stoker: ")
    assert (here / "run/recipe.toml").read_bytes() == toml


def train(*arguments, cwd, status=0):
    return run_program("train", "r.toml", "--out", "run", *arguments, cwd=cwd, status=status)


def test_a_run_that_goes_on_says_so(tmp_path, recipe):
    assert "going on" not in train("--set", "train.epochs=1", cwd=tmp_path).err
    again = train("--resume", "auto", "--set", "train.epochs=1", cwd=tmp_path).err
    assert "this run finished after 1 epoch; raise train.epochs to continue it" in again
    toml = (tmp_path / "run/recipe.toml").read_text()
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    kept = train("--resume", "auto", "--set", "train.epochs=1", "--set", "optimizer.lr=0.7", cwd=tmp_path).err
    assert " changed from " not in kept and (tmp_path / "run/recipe.toml").read_text() == toml
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == names
    more = train("--resume", "auto", "--set", "train.epochs=2", "--set", "optimizer.lr=0.5", cwd=tmp_path).err
    assert "resuming after step 40 from run/checkpoints/40" in more
    assert "  optimizer.lr changed from 0.001 to 0.5" in more
    assert "  train.epochs changed from 1 to 2" in more
    assert more.count(" changed from ") == 2
    fewer = train("--resume", "auto", "--set", "train.epochs=1", cwd=tmp_path).err
    assert "2 epochs are done, and train.epochs is 1: raise it to continue the run" in fewer


def test_other_data_of_the_same_size_is_refused(tmp_path):
    run_program("synth", "photos", "a", "--count", "20", cwd=tmp_path)
    (tmp_path / "r.toml").write_text("""
[data]
train = "a"
train_ops = [{op = "resize", size = [8, 8]}]
[train]
epochs = 1
""")
    train(cwd=tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    moved = train("--resume", "auto", "--set", "data.train=b", "--set", "train.epochs=2", cwd=tmp_path)
    assert "resuming after step 1" in moved.err
    photo = next((tmp_path / "b").rglob("*.jpg"))
    photo.rename(photo.with_name("other.jpg"))
    refused = train("--resume", "auto", "--set", "data.train=b", "--set", "train.epochs=3", cwd=tmp_path, status=1)
    assert "[data.train] expected the samples that the run began with, got other samples of the same number" in refused.err


def test_other_labels_of_the_same_images_are_refused(tmp_path):
    generator = np.random.default_rng(1)
    images = generator.integers(0, 256, (2000, 8, 8), dtype=np.uint8)
    labels = generator.integers(0, 2, 2000)
    np.savez(tmp_path / "d.npz", images=images, labels=labels)
    (tmp_path / "r.toml").write_text('[data]\ntrain = "d.npz"\n[train]\nepochs = 1\n')
    train(cwd=tmp_path)
    np.savez(tmp_path / "d.npz", images=images, labels=1 - labels)
    refused = train("--resume", "auto", "--set", "train.epochs=2", cwd=tmp_path, status=1)
    assert "got as many samples, some with other keys or labels" in refused.err
    np.savez_compressed(tmp_path / "d.npz", images=images, labels=labels)
    other_bytes = train("--resume", "auto", "--set", "train.epochs=2", cwd=tmp_path)
    assert " when the run began; keys and labels are the same\n" in other_bytes.err


def test_validation_on_the_training_data_is_named(tmp_path, recipe):
    np.savez(tmp_path / "d.npz", images=np.zeros((64, 8, 8), np.uint8), labels=np.arange(64) % 2)
    (tmp_path / "r.toml").write_text("""
[data]
train = "d.npz"
val = "d.npz"
val_ops = [{op = "normalize", preset = "mnist"}]
[train]
epochs = 1
""")
    err = train(cwd=tmp_path).err
    assert "data.val has the samples of data.train: " in err
    assert "normalize is in data.val_ops only: " in err
    assert "data.val has the samples" not in run_program(
        "train", "r.toml", "--out", "other", "--set", "data.val=10%", cwd=tmp_path
    ).err
