# Several processes of the program train one model: as torchrun starts them, and as anybody may who sets the
# environment. How ranks end when one of them does is here; their results are tested in tests/train/ranks_test.cpp.
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import torch
from ranks import Ranks, run_ranks

RECIPE = """
seed = 9
device = "cpu"
[data]
train = "synth:digits?count=997"
val = "synth:digits?count=333&seed=2"
batch_size = 32
workers = 1
train_ops = [{op = "normalize", preset = "mnist"}]
val_ops = [{op = "normalize", preset = "mnist"}]
[model]
hidden = [32]
[optimizer]
name = "sgd"
lr = 0.02
momentum = 0.9
[train]
epochs = 2
threads = 1
precision = "fp32"
"""


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)


@pytest.fixture
def ranks_of(tmp_path):
    """Runs the program in several processes, in the test's own folder; checks the exit statuses."""
    return lambda count, *arguments, **options: run_ranks(count, *arguments, cwd=tmp_path, **options)


def two_train(program, cwd, *arguments, **options):
    return Ranks([[program, "train", "r.toml", "--out", "run", *arguments]] * 2, cwd, **options)


def steps(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["type"] == "step"]


def test_launch_trains_what_one_process_trains(stoker, recipe, tmp_path):
    alone = stoker("train", "r.toml", "--out", "one", "--json", "--set", "train.shard=optimizer")
    assert "train.shard has no effect with one process" in alone.err
    one = alone.json()
    command = ("--", "stoker", "train", "r.toml", "--out", "two", "--json")
    two = stoker("launch", "--nproc-per-node", "2", *command).json()  # one document: rank 0 speaks
    assert (one["ranks"], two["ranks"]) == (1, 2)
    assert two["steps"] == one["steps"] == 64
    for mine, whole in zip(two["epochs"], one["epochs"]):
        for key in ("train_loss", "val_loss", "val_accuracy"):
            assert mine[key] == pytest.approx(whole[key], abs=1e-6), key
    for mine, whole in zip(steps(tmp_path / "two"), steps(tmp_path / "one"), strict=True):
        assert mine["loss"] == pytest.approx(whole["loss"], abs=1e-6)
        assert [mine[key] for key in ("step", "samples", "lr", "batch_hash")] == [
            whole[key] for key in ("step", "samples", "lr", "batch_hash")
        ]
    files = [sorted(path.name.split(".")[0] for path in (tmp_path / run).iterdir()) for run in ("one", "two")]
    assert files[0] == files[1], "rank 0 alone writes"


def test_a_divided_model_trains_what_one_process_trains(stoker, ranks_of, recipe, tmp_path):
    tp = ("--set", "train.mesh.tp=2")
    eager = ("--set", "train.compile=none")  # the fused step of one process rounds otherwise
    one = stoker("train", "r.toml", "--out", "one", "--json", *eager).json()
    four = ranks_of(4, "train", "r.toml", "--out", "four", "--json", *tp).json()
    for mine, whole in zip(steps(tmp_path / "four"), steps(tmp_path / "one"), strict=True):
        assert mine["loss"] == pytest.approx(whole["loss"], rel=1e-6)
        assert (mine["batch_hash"], mine["samples"]) == (whole["batch_hash"], whole["samples"])
    facts = [json.loads(line) for line in (tmp_path / "four/metrics.jsonl").read_text().splitlines()]
    facts = [line for line in facts if line["type"] == "facts"]
    assert len(facts) == 4 and {line["train"]["parameters"] for line in facts} == {784 * 32 + 32 + 320 + 10}
    # One process, and another mesh, take the checkpoint; so do eval and predict.
    for at in (tmp_path / "four/checkpoints").iterdir():
        if at.name != "32":
            shutil.rmtree(at)
    shutil.copytree(tmp_path / "four", tmp_path / "again")
    shutil.copytree(tmp_path / "four", tmp_path / "two")
    again = stoker("train", "r.toml", "--out", "again", "--resume", "auto", "--json").json()
    two = ranks_of(2, "train", "r.toml", "--out", "two", "--resume", "auto", "--json", *tp).json()
    for resumed in (again, two):
        assert resumed["resumed_from_step"] == 32
        assert resumed["epochs"][1]["val_loss"] == pytest.approx(one["epochs"][1]["val_loss"], rel=1e-5)
    evaluated = stoker("eval", "four", "--json").json()
    assert evaluated["val_loss"] == pytest.approx(four["epochs"][0]["val_loss"], rel=1e-6)


@pytest.mark.slow
def test_sharded_parameters_train_what_one_process_trains(stoker, ranks_of, recipe, tmp_path):
    nn = torch.nn  # a model of a file is one block, Stoker's own are several
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 20), nn.ReLU(), nn.Linear(20, 10))
    torch.jit.script(model).save(tmp_path / "n.pt")
    full = ("--set", 'train.shard="full"')
    for name, file in (("layers", ()), ("file", ("--set", "model.script=n.pt"))):
        sets = ("--json", "--set", "train.compile=none", "--set", "train.ema=0.9", *file)
        stoker("train", "r.toml", "--out", f"{name}_one", *sets)
        two = ranks_of(2, "train", "r.toml", "--out", name, *sets, *full).json()
        for mine, whole in zip(steps(tmp_path / name), steps(tmp_path / f"{name}_one"), strict=True):
            assert mine["loss"] == pytest.approx(whole["loss"], abs=1e-6)  # of losses from 2.3 down to 0.3
        evaluated = stoker("eval", name, "--json").json()
        assert evaluated["val_loss"] == pytest.approx(two["epochs"][1]["val_loss"], rel=1e-6)
        facts = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        parameters = 784 * 20 + 20 + 210 if file else 784 * 32 + 32 + 330
        assert {line["train"]["parameters"] for line in facts if line["type"] == "facts"} == {parameters}
        shutil.rmtree(tmp_path / name / "checkpoints/64")
        again = stoker("train", "r.toml", "--out", name, "--resume", "auto", *sets).json()
        assert again["resumed_from_step"] == 32
        assert again["epochs"][1]["val_loss"] == pytest.approx(two["epochs"][1]["val_loss"], rel=1e-5)


def test_a_model_cut_into_stages_trains_what_one_process_trains(stoker, ranks_of, recipe, tmp_path):
    sets = ("--set", "model.hidden=[48,32]", "--set", "train.accumulate=4")
    one = stoker("train", "r.toml", "--out", "one", "--json", *sets).json()
    staged = ("--set", "train.mesh.pp=2", "--set", "train.mesh.dp=2")
    done = ranks_of(4, "train", "r.toml", "--out", "four", "--json", *sets, *staged)
    for mine, whole in zip(steps(tmp_path / "four"), steps(tmp_path / "one"), strict=True):
        assert mine["loss"] == pytest.approx(whole["loss"], abs=1e-6)  # of losses from 2.3 down to 0.4
        assert (mine["batch_hash"], mine["samples"]) == (whole["batch_hash"], whole["samples"])
    four = done.json()
    for mine, whole in zip(four["epochs"], one["epochs"], strict=True):
        assert mine["val_loss"] == pytest.approx(whole["val_loss"], rel=1e-6)
        assert mine["bubble"]["formula"] == pytest.approx(1 / 5) and len(mine["bubble"]["stages"]) == 2
        assert "bubble" not in whole
    facts = [json.loads(line) for line in (tmp_path / "four/metrics.jsonl").read_text().splitlines()]
    facts = [line["train"] for line in facts if line["type"] == "facts"]
    parameters = 784 * 48 + 48 + 48 * 32 + 32 + 320 + 10
    assert {(line["parameters"], line["pipeline"]) for line in facts} == {(parameters, "1f1b")} and len(facts) == 4
    cut = facts[0]["stages"]
    assert re.fullmatch(r"fc1.* ms\) \| .*fc3 \(.* ms\)", cut), cut
    assert "the schedule has 20.0 %" in done.err
    evaluated = stoker("eval", "four", "--json").json()
    assert evaluated["val_loss"] == pytest.approx(four["epochs"][1]["val_loss"], rel=1e-6)


@pytest.fixture
def other(recipe, tmp_path):
    """The folder of the second rank."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other/r.toml").write_text(RECIPE.replace("threads = 1", "threads = 2"))
    return tmp_path / "other"


def test_ranks_of_a_copy_use_as_many_threads(program, other, tmp_path):
    ends = two_train(program, tmp_path, "--set", "train.mesh.tp=2", "--set", "train.epochs=1", other=other).ends()
    assert [status for status, _, _ in ends] == [0, 0], ends
    facts = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["train"]["threads"] for line in facts if line["type"] == "facts"] == [1, 1]


def test_the_rank_that_fails_says_why(stoker, program, other, tmp_path):
    stoker("train", "r.toml", "--out", "first", "--set", "train.epochs=1")
    stoker("export", "first", "-o", "w.safetensors")
    sets = ("--set", "train.mesh.tp=2", "--set", "model.weights=w.safetensors")  # the other folder lacks this file
    first, second = two_train(program, tmp_path, *sets, other=other).ends()
    assert (first[0], second[0]) == (1, 1)
    assert "w.safetensors" in second[2][-1] and "rank 1 left" in first[2][-1], (first, second)


FIELDS_RECIPE = """
seed = 4
device = "cpu"
task = "regression"
[data]
train = "six.npz"
batch_size = 12
workers = 2
train_ops = [{op = "random_crop", size = 10, padding = 2}, {op = "horizontal_flip"}]
[data.fields.value]
[data.fields.mask]
is = "mask"
[data.fields.second]
is = "image"
[data.fields.boxes]
is = "boxes"
[data.fields.flags]
is = "label"
[data.fields.tokens]
is = "tokens"
[model]
hidden = [8]
[optimizer]
name = "sgd"
lr = 0.05
[train]
epochs = 2
threads = 1
precision = "fp32"
"""


def test_two_processes_read_the_samples_of_one_with_six_fields(stoker, ranks_of, tmp_path):
    (tmp_path / "r.toml").write_text(FIELDS_RECIPE)
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (61, 12, 12, 1), np.uint8)
    np.savez(
        tmp_path / "six.npz",
        images=images,
        value=np.stack([images.mean((1, 2, 3)) / 255, images[:, 0, 0, 0] / 255], 1).astype(np.float32),
        mask=images[..., 0] // 64,
        second=255 - images,
        boxes=np.tile(np.float32([1, 2, 8, 9]), (61, 2, 1)),
        flags=random.integers(0, 2, (61, 3)),
        tokens=random.integers(0, 50, (61, 6)),
    )
    stoker("train", "r.toml", "--out", "one")
    ranks_of(2, "train", "r.toml", "--out", "two")
    one, two = (steps(tmp_path / run) for run in ("one", "two"))
    assert len(one) == 12
    for mine, whole in zip(two, one, strict=True):
        assert mine["batch_hash"] == whole["batch_hash"] and mine["samples"] == whole["samples"]
        assert mine["loss"] == pytest.approx(whole["loss"], abs=1e-6)


def test_evaluation_and_prediction_are_shared(stoker, ranks_of, recipe, tmp_path):
    stoker("train", "r.toml", "--out", "run", "--set", "train.epochs=1")
    one = stoker("eval", "run", "--json").json()
    several = ranks_of(3, "eval", "run", "--json").json()
    assert several["val_loss"] == pytest.approx(one["val_loss"], rel=1e-6)
    assert {**several, "val_loss": 0} == {**one, "val_loss": 0}, "including the confusion matrix"
    data = "synth:digits?count=606&seed=5"  # 101 in the test split
    stoker("predict", "run", data, "-o", "one.csv")
    done = ranks_of(3, "predict", "run", data, "-o", "several.csv")
    assert done.err.count("101 images") == 1
    rows = [list(csv.reader((tmp_path / name).read_text().splitlines())) for name in ("one.csv", "several.csv")]
    assert len(rows[0]) == len(rows[1]) == 102
    for one_row, row in zip(*rows):
        assert [cell for cell in row if not is_share(cell)] == [cell for cell in one_row if not is_share(cell)]
        assert [float(cell) for cell in row if is_share(cell)] == pytest.approx(
            [float(cell) for cell in one_row if is_share(cell)], abs=1e-5
        )


def is_share(cell):
    return re.fullmatch(r"\d\.\d+(e-\d+)?", cell) is not None


def test_ranks_that_evaluate_need_the_same_weights(program, stoker, recipe, tmp_path):
    for seed in (1, 2):
        stoker("train", "r.toml", "--out", f"run{seed}", "--set", f"seed={seed}", "--set", "train.epochs=1")
    done = Ranks([[program, "eval", f"run{seed}"] for seed in (1, 2)], tmp_path).done(status=1)
    assert "[weights] expected hash" in done.err and "on rank 1" in done.err, done.err


def test_launch_needs_a_command_and_python(stoker):
    assert "command is required" in stoker("launch", "--nproc-per-node", "2", status=2).err
    assert "expected at least 1" in stoker("launch", "--nproc-per-node", "0", "--", "true", status=2).err
    assert "--nproc-per-node is required" in stoker("launch", "--", "true", status=2).err


def test_an_error_of_all_ranks_is_said_once(stoker, program, recipe, tmp_path):
    done = stoker("launch", "--nproc-per-node", "2", "--", "stoker", "train", "missing.toml", status=None)
    assert done.status == 1
    assert done.err == "stoker: [missing.toml] expected a readable file, but it does not exist\n"


# The first prints its arguments and sleeps until it is ended, in the process that the launcher knows.
KILLED = """
if [ $RANK = 1 ]; then
    until [ -e said ]; do sleep 0.05; done
    kill -9 $BASHPID
fi
echo "$0 is '$1'"
touch said
exec sleep 60
"""


def test_launch_says_which_process_was_killed(stoker):
    command = ("bash", "-c", KILLED, "--tag", "")  # an option of another program may be empty
    done = stoker("launch", "--nproc-per-node", "2", "--", *command, status=137)
    assert done.out == "--tag is ''\n"
    assert re.fullmatch(r"stoker: \[launch\] process \d+, rank 1, was killed by SIGKILL\n", done.err), done.err


def test_an_interrupt_of_the_launcher_ends_the_run_with_a_checkpoint(program, recipe, tmp_path):
    command = [program, "launch", "--nproc-per-node", "2", "--", "stoker", "train", "r.toml", "--out", "run"]
    launch = subprocess.Popen(
        [*command, "--set", "train.epochs=100000"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "run/checkpoints").exists():
        assert launch.poll() is None and time.monotonic() < deadline, launch.communicate()
        time.sleep(0.05)
    launch.send_signal(signal.SIGUSR1)
    line = ""
    while "written on SIGUSR1; the run goes on" not in line:
        line = launch.stderr.readline()
        assert line, launch.communicate()
    launch.send_signal(signal.SIGINT)
    _, err = launch.communicate(timeout=60)
    assert launch.returncode == 128 + signal.SIGINT
    assert re.search(r"(^|\n)stoker: stopped by signal 2 after step \d+; checkpoint written, --resume auto continues\n$", err), err


def test_nothing_is_cut_before_all_have_read_the_checkpoint(stoker, program, recipe, tmp_path):
    stoker("train", "r.toml", "--out", "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/r.toml").write_text(RECIPE)
    before = (tmp_path / "run/metrics.jsonl").read_text()
    ends = two_train(program, tmp_path, "--resume", "run/checkpoints/32", other=tmp_path / "other").ends()
    assert [status for status, _, _ in ends] == [1, 1]
    assert "run/checkpoints/32" in ends[1][2][-1], ends
    assert (tmp_path / "run/metrics.jsonl").read_text() == before
    assert sorted(path.name for path in (tmp_path / "run/checkpoints").iterdir()) == ["32", "64"]


def test_ranks_with_different_model_files_are_refused(program, recipe, tmp_path):
    nn = torch.nn
    for folder, function in ((tmp_path, nn.ReLU), (tmp_path / "other", nn.Tanh)):
        folder.mkdir(exist_ok=True)
        (folder / "r.toml").write_text(RECIPE)
        model = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 8), function(), nn.Linear(8, 10))
        torch.jit.script(model).save(folder / "net.pt")
    ends = two_train(program, tmp_path, "--set", "model.script=net.pt", other=tmp_path / "other").ends()
    lines = sum((err for _, _, err in ends), [])
    assert [status for status, _, _ in ends] == [1, 1]
    assert len(lines) == 1 and "[model.script] expected a file of hash " in lines[0], lines


def test_a_killed_rank_ends_all(program, recipe, tmp_path):
    ranks = two_train(program, tmp_path, "--set", "train.epochs=100000")
    ranks.wait_for(tmp_path / "run/checkpoints")
    begin = time.monotonic()
    ranks.processes[1].kill()
    (status, _, err), (killed, _, _) = ranks.ends()
    assert killed == -signal.SIGKILL
    assert status == 1 and time.monotonic() - begin < 10
    assert err[-1] == "stoker: [rank 0] expected all 2 ranks to continue, got a connection that another rank closed"


@pytest.mark.parametrize("every", [1, 1_000_000])  # between two steps the ranks wait at a checkpoint, or never
@pytest.mark.parametrize("frozen", [0, 1])  # the first keeps the store, which does not answer then
def test_a_rank_that_hangs_is_left_after_the_timeout(program, recipe, tmp_path, frozen, every):
    sets = ("--set", "train.epochs=100000", "--set", f"train.checkpoint_every={every} steps")
    ranks = two_train(program, tmp_path, *sets, timeout=2)
    ranks.wait_for(tmp_path / "run/recipe.toml")
    time.sleep(1)  # into the steps
    os.kill(ranks.processes[frozen].pid, signal.SIGSTOP)
    begin = time.monotonic()
    _, err = ranks.processes[1 - frozen].communicate(timeout=30)
    ranks.processes[frozen].kill()
    ranks.processes[frozen].communicate()
    assert time.monotonic() - begin < 15, err
    assert re.search("no (answer from another rank|sign of life from rank [01]('s store)?) for 2 s", err.splitlines()[-1]), err


def test_a_rank_that_waits_says_for_whom(program, recipe, tmp_path):
    """The other never comes; the time-out of a start is ten times that of a step."""
    command = [program, "train", "r.toml", "--out", "run"]
    ranks = Ranks([command], tmp_path, timeout=2, world=3)
    ((status, _, err),) = ranks.ends()
    assert status == 1 and len(err) == 2, err
    assert "waits up to 20 s for rank 1, 2 at 127.0.0.1" in err[0]
    assert "expected all 3 ranks to connect" in err[1]


def test_a_host_without_a_name_is_said_at_once(program, recipe, tmp_path):
    environment = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "no-such-host.invalid", "MASTER_PORT": "29555",
                   "STOKER_DIST_TIMEOUT": "1"}  # fmt: skip
    done = subprocess.run([program, "train", "r.toml"], cwd=tmp_path, env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 1
    assert "MASTER_ADDR=no-such-host.invalid is not known to the name service" in done.stderr.splitlines()[0]


def test_a_signal_to_one_rank_stops_all_and_the_run_goes_on(stoker, program, recipe, tmp_path):
    long = ("--set", "train.epochs=100000", "--json")
    ranks = two_train(program, tmp_path, *long)
    ranks.wait_for(tmp_path / "run/checkpoints")
    ranks.processes[1].send_signal(signal.SIGTERM)
    ends = ranks.ends()
    assert [status for status, _, _ in ends] == [128 + signal.SIGTERM] * 2, ends
    assert ends[1][1:] == ("", []), "rank 0 speaks"
    stopped = json.loads(ends[0][1])
    epochs = len(stopped["epochs"]) + 1
    again = stoker("train", "r.toml", "--out", "run", "--resume", "auto", "--set", f"train.epochs={epochs}", "--json")
    whole = stoker("train", "r.toml", "--out", "whole", "--set", f"train.epochs={epochs}", "--json").json()
    assert again.json()["resumed_from_step"] == stopped["steps"]
    for mine, other in zip(again.json()["epochs"], whole["epochs"], strict=True):
        assert mine["train_loss"] == pytest.approx(other["train_loss"], rel=1e-4)


@pytest.mark.parametrize(
    "env, where",
    [
        ({"RANK": "0"}, "WORLD_SIZE"),
        ({"WORLD_SIZE": "2"}, "RANK"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK"),
    ],
)
def test_half_an_environment_is_refused(stoker, recipe, env, where):
    assert stoker("train", "r.toml", status=1, env=env).err.startswith(f"stoker: [{where}] expected ")
