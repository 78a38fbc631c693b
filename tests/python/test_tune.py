# `stoker tune` and its trials: it finds planted bottlenecks, keeps the user's text, and always cleans up.
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import PROGRAM

# Large photos, a small model, and one thread for everything: the loader is the bottleneck.
OPS = '{op = "resize", size = 32}, {op = "center_crop", size = 32}, {op = "normalize", preset = "imagenet"}'
SLOW = f"""# My recipe.
seed = 3
device = "cpu"
[data]
train = "PHOTOS"  # in eight classes
batch_size = 8
workers = 0  # to be tuned
train_ops = [{OPS}]
val_ops = [{OPS}]
[model]
name = "mlp"
"""


@pytest.fixture
def slow(tmp_path, drawn):
    path = tmp_path / "slow.toml"
    path.write_text(SLOW.replace("PHOTOS", str(drawn)))
    return path


def trials_of(pid):
    """The ids of the running children of a process."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(each) for each in found.split()]


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def engine():
    for path in (PROGRAM.parent / "stoker-engine", PROGRAM.parent.parent / "libexec/stoker/stoker-engine"):
        if path.exists():
            return path
    pytest.skip("needs stoker-engine")


class Trial:
    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [str(engine()), "trial", *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.facts = self.read()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self.read()

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=20)


def test_a_trial_measures_on_request_and_sleeps_between(slow, tmp_path):
    with Trial(slow, "--set", "data.workers=1") as trial:
        assert trial.facts["samples"] == 24 and trial.facts["workers"] == 1
        first = trial.ask("measure 0.3 0")
        assert first["images"] == first["steps"] * 8 and first["seconds"] >= 0.3
        # The account covers the measured time, and the workers' clocks the samples. Others may take the core in between.
        several = [first, trial.ask("measure 0.3 0"), trial.ask("measure 0.3 0")]
        assert min(abs(sum(each["host_ns"]) / 1e9 / each["seconds"] - 1) for each in several) < 0.05
        assert first["workers_samples"] > 0 and first["cpu_seconds"] > 0 and first["peak_rss_mb"] > 50
        before = trial.cpu_seconds()  # the ring was full before the answer
        time.sleep(1)
        assert trial.cpu_seconds() - before <= 0.03
        assert trial.ask("measure 0.1 0")["images"] > 0
    assert trial.process.returncode == 0
    assert not (tmp_path / "runs").exists()  # it leaves no run folder


# Its recipe may name validation data, or ask for the best epoch: a trial has neither.
@pytest.mark.parametrize("val, kind", [("25%", ()), ("PHOTOS", ("--probe",))])
def test_a_trial_goes_without_validation(slow, drawn, val, kind):
    val = val.replace("PHOTOS", str(drawn))
    with Trial(slow, *kind, "--set", f"data.val={val}", "--set", "train.keep_best=val_loss") as trial:
        assert "error" not in trial.facts and trial.facts["samples"] > 0
        assert trial.ask("step 0.1 1" if kind else "measure 0.1 0")["images"] > 0


# The workers' clocks tell the costs apart, also on a busy machine.
def test_a_probe_measures_costs_one_by_one(slow):
    with Trial(slow, "--probe", "--set", "data.workers=1") as trial:
        step, load, fetch = (trial.ask(f"{cost} 0.2 1") for cost in ("step", "load", "fetch"))
    assert step["images"] == 8 * step["steps"] > 0 and step["workers_samples"] == 0
    assert load["workers_samples"] > 0 and all(load["workers_ns"][:4]) and not any(load["host_ns"])
    assert 0 < fetch["images"] <= 24 and fetch["workers_samples"] == 0


def test_a_failing_disk_ends_a_probe_with_its_reason(slow, tmp_path, drawn):
    mine = tmp_path / "photos"
    shutil.copytree(drawn, mine)
    with Trial(slow, "--probe", "--set", f"data.train={mine}") as trial:
        shutil.rmtree(mine)  # as where a disk is gone
        answer = trial.ask("fetch 0.2 4")
    assert answer["error"] and trial.process.returncode == 1


def test_other_output_of_a_trial_is_not_taken_for_an_answer(slow, monkeypatch):
    monkeypatch.setenv("ONEDNN_VERBOSE", "1")  # prints on stdout
    with Trial(slow, "--set", "model.name=convnet") as trial:
        assert trial.ask("measure 0.1 0")["images"] > 0


def test_a_cached_trial_measures_the_warm_cache(slow):
    with Trial(slow) as plain, Trial(slow, "--set", "data.cache=ram", "--samples", 16) as cached:
        assert cached.facts["samples"] == 24 and cached.facts["trial_samples"] == 16
        slow_one, fast_one = plain.ask("measure 0.3 0"), cached.ask("measure 0.3 0")
    assert fast_one["cached_bytes"] > 0 and slow_one["cached_bytes"] == 0
    _, entropy, pixels, augment, _ = fast_one["workers_ns"]
    assert entropy == pixels == 0 < augment and all(slow_one["workers_ns"][:4])


def test_a_trial_says_why_it_failed(slow):
    with Trial(slow, "--set", "data.train=/no/such/data") as trial:
        assert "/no/such/data" in trial.facts["error"] and "\n" not in trial.facts["error"]
        assert trial.facts["memory"] is False
    large = [word for key in ("batch_size", "epoch_samples") for word in ("--set", f"data.{key}=1500000")]
    with Trial(slow, *large, "--set", "data.memory=64MiB") as trial:
        assert trial.facts["memory"] is True
    assert trial.process.returncode == 1


# Budgets that are enough on a quiet machine, and on one that other processes keep busy.
BUDGETS = ["12s", "40s"]


def test_finds_the_planted_bottleneck(stoker, slow, tmp_path):
    for budget in BUDGETS:
        done = stoker("tune", slow, "-o", "tuned.toml", "--budget", budget, "--json").json()
        if done["tuned"] > 1.5 * done["baseline"]:
            break
    assert done["tuned"] > 1.5 * done["baseline"] > 0
    kept = {key: value for change in done["kept"] for key, value in change["change"].items()}
    assert kept.get("data.cache") == "ram" or kept.get("data.workers", 0) >= 1
    assert set(kept) <= {"data.workers", "data.cache", "train.threads"}  # the learning is the same
    for change in done["kept"]:
        low, high = change["interval"]
        assert 1 < low <= change["measured"] <= high and change["predicted"] > 0.9
    for change in done["rolled_back"] + done["suggested"]:
        assert change["interval"] is None or None not in change["interval"]
        assert bool(change["change"]) != ("command" in change)  # the packed sample is gone
    text = (tmp_path / "tuned.toml").read_text()
    assert text.startswith("# My recipe.\nseed = 3\n") and "# in eight classes" in text
    assert re.search(r"^# stoker tune: [\d.]+x \[[\d.]+, [\d.]+\] with data\.", text, re.MULTILINE)
    for key, value in kept.items():
        assert re.search(rf"^{key.split('.')[1]} = {json.dumps(value)}", text, re.MULTILINE)
    assert not list(tmp_path.glob("runs*"))
    stoker("train", "tuned.toml", "--set", "train.epochs=1", "--json")


def tune_until_kept(slow, tmp_path):
    """A search that has just kept something and continues."""
    for budget in ["1min", "10min"]:
        process = subprocess.Popen(
            # More to try, so that it continues.
            [str(PROGRAM), "tune", str(slow), "--budget", budget, "--json", "--allow", "decode,batch_size"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in process.stderr:
            if line.rstrip().endswith("; kept"):
                return process
        process.communicate()  # the time was spent
    pytest.fail("nothing was kept in ten minutes")


def test_ctrl_c_keeps_what_was_found_and_ends_the_trials(slow, tmp_path):
    for _ in range(4):
        process = tune_until_kept(slow, tmp_path)
        trials = trials_of(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        if trials and process.returncode != 0:  # else the search was at its end
            break
    assert trials and process.returncode == 128 + signal.SIGINT
    done = json.loads(out)
    assert done["interrupted"] is True and done["kept"]
    text = (tmp_path / "tuned.toml").read_text()
    for key, value in done["kept"][-1]["change"].items():
        assert re.search(rf"^{key.split('.')[1]} = {json.dumps(value)}", text, re.MULTILINE)
    assert not any(is_running(trial) for trial in trials)


def test_trials_end_with_a_killed_parent(slow, tmp_path):
    process = subprocess.Popen(
        [str(PROGRAM), "tune", str(slow)], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        if "one by one" in line:
            break
    trials = trials_of(process.pid)
    assert trials
    process.kill()
    process.communicate()
    deadline = time.time() + 20
    while any(is_running(trial) for trial in trials) and time.time() < deadline:
        time.sleep(0.05)
    assert not any(is_running(trial) for trial in trials)


def test_wrong_usage(stoker, slow, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/recipe.toml").write_text("")
    assert stoker("tune", "run", status=1).err.endswith("got a directory; run/recipe.toml is in it\n")
    assert "batch_size" in stoker("tune", slow, "--allow", "ops", status=2).err
    for budget in ("soon", "0s"):
        assert "90s, 5min or 1h" in stoker("tune", slow, "--budget", budget, status=2).err
    assert "no/such/data" in stoker("tune", slow, "--set", "data.train=no/such/data", status=1).err
    assert not (tmp_path / "tuned.toml").exists()


@pytest.mark.parametrize("command", [["tune"], ["lr"], ["bench", "techniques"], ["bench", "overhead"]])
def test_several_ranks_are_refused(stoker, slow, monkeypatch, command):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    done = stoker(*command, *([] if "overhead" in command else [slow]), status=1)
    assert "2 ranks" in done.err and "without `stoker launch`" in done.err


def test_a_folder_with_other_packed_data_is_refused_before_the_search(stoker, slow, tmp_path, drawn):
    stoker("pack", "synth:digits?count=5", tmp_path / "packed/raw.stk", "--codec", "raw")
    done = stoker("tune", slow, "--pack", tmp_path / "packed", status=1)
    assert "raw.stk" in done.err and "measuring" not in done.err
    assert not (tmp_path / "tuned.toml").exists()
    # Data that were packed from the same source are used again.
    stoker("pack", drawn, tmp_path / "same/raw.stk", "--codec", "raw", "--skip-bad")
    done = stoker("tune", slow, "--pack", tmp_path / "same", "--budget", "1s")
    assert "measuring" in done.err
    assert [each.name for each in (tmp_path / "same").iterdir()] == ["raw.stk"]  # and no sample is left there


def test_techniques_refuse_their_own_keys(stoker, slow):
    done = stoker("bench", "techniques", slow, "--set", "train.threads=4", status=1)
    assert "a key that no technique changes" in done.err and "train.threads" in done.err


@pytest.mark.slow
def test_techniques(stoker, slow):
    document = stoker(
        "bench", "techniques", slow, "--seconds", "0.05", "--pairs", "6", "--samples", "24", "--json"
    ).json()
    rows = {row["name"]: row for row in document["techniques"]}
    assert document["device"] == "cpu" and document["plain"]["images_per_second"] > 0
    for name in ("pinned memory", "copy stream", "dct on the GPU"):
        assert rows[name]["alone"] is None and rows[name]["why_not"] == "needs a GPU"
    assert rows["channels_last"]["why_not"] == "needs a model with convolutions"
    assert rows["cache"]["alone"]["factor"] > 1.5
    # Its gain beyond the rest is noise in so short a measurement on a busy machine: only the form is tested.
    assert rows["cache"]["added"]["interval"][0] <= rows["cache"]["added"]["factor"] <= rows["cache"]["added"]["interval"][1]
    names = ("workers", "threads", "prefetch", "packed format", "dct", "precision", "fused optimizer", "accumulation")
    for name in names:
        low, high = rows[name]["alone"]["interval"]
        assert low <= rows[name]["alone"]["factor"] <= high and rows[name]["alone"]["peak_rss_mb"] > 50, name


@pytest.mark.slow
def test_overhead(stoker):
    # So short a measurement is longer than wanted: there are six rounds in any case.
    document = stoker("bench", "overhead", "--seconds", "0.1", "--steps", "2,8", "--device", "cpu", "--json").json()
    rows = document["rows"]
    parts = [(row["part"], row["step_ms"]) for row in rows]
    assert parts == [("account", 2), ("account", 8), ("profiler", 2), ("profiler", 8)]
    for row in rows:
        assert row["measured_step_ms"] > 0 and row["rounds"] >= 6 and row["batch_size"] >= 1
        for measured in (row["cost"], row["control"]):
            low, high = measured["interval"]
            assert low <= measured["median"] <= high and measured["median"] > -1  # a ratio less one
        assert row["below_1_percent"] == (row["cost"]["interval"][1] < 0.01)
    assert min(row["rounds"] for row in rows if row["step_ms"] == 8) == 6
