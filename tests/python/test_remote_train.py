# Training from a server that is stopped and comes back in the middle of an epoch: the same batches and the same loss as
# of a run that was left alone.
import json
import os
import shutil
import subprocess
import time

import pytest
from conftest import PROGRAM
from test_remote import NGINX, Nginx

RECIPE = """
seed = 5
device = "cpu"
[data]
train = "{train}"
batch_size = 32
workers = 2
train_ops = [{{op = "normalize", preset = "mnist"}}]
val_ops = [{{op = "normalize", preset = "mnist"}}]
val = "synth:digits?count=120"
{data}
[model]
hidden = [16]
[train]
epochs = 1
threads = 1
deterministic = true
"""


@pytest.fixture(scope="module", autouse=True)
def needed():
    if not (PROGRAM.parent / "stoker-engine").is_file():
        pytest.skip("needs the engine: STOKER_ENGINE=ON")
    if NGINX is None:
        pytest.skip("needs nginx on PATH or in /usr/sbin")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


def steps(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    keys = ("step", "epoch", "batch_hash", "loss")
    return [tuple(line.get(key) for key in keys) for line in lines if line["type"] == "step"]


def start(tmp_path, name, url, data=""):
    (tmp_path / f"{name}.toml").write_text(RECIPE.format(train=url, data=data))
    command = [PROGRAM, "train", f"{name}.toml", "--out", name, "--json"]
    return subprocess.Popen(
        [str(part) for part in command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err


def test_a_server_stopped_in_mid_epoch(stoker, tmp_path):
    packed = "x.tar"
    stoker("pack", "synth:digits?count=1600", packed)
    size = (tmp_path / packed).stat().st_size
    server = Nginx(tmp_path / "nginx")
    try:
        os.rename(tmp_path / packed, server.www / packed)
        finish(start(tmp_path, "whole", server.url(packed)))
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        # So slow that not even eight connections bring all of it before the second stop; then without a limit.
        slow = f"limit_rate {size // 40};"
        server.restart(slow)
        process = start(tmp_path, "stopped", server.url(packed))
        for location in (slow, ""):
            time.sleep(1.5)
            assert process.poll() is None, process.communicate()
            server.restart(location, seconds_down=1)
        finish(process)
    finally:
        server.stop()
    assert len(steps(tmp_path / "whole")) == 50
    assert steps(tmp_path / "stopped") == steps(tmp_path / "whole")


def test_the_second_run_reads_the_disk(stoker, tmp_path):
    stoker("pack", "synth:digits?count=1600", "x.stk")
    server = Nginx(tmp_path / "nginx")
    try:
        os.rename(tmp_path / "x.stk", server.www / "x.stk")
        kept = 'cache = "disk"\ncache_bytes = "1GiB"\ncache_dir = "kept"'
        sent = []
        for name in ("first", "second"):
            (server.folder / "access.log").write_text("")
            finish(start(tmp_path, name, server.url("x.stk"), kept))
            lines = (server.folder / "access.log").read_text().splitlines()
            sent.append(sum(int(line.split('" ')[1].split()[1]) for line in lines))
    finally:
        server.stop()
    assert sent[0] > 100_000 and sent[1] < 100  # a byte of each file: is it still the same?
    assert steps(tmp_path / "first") == steps(tmp_path / "second")
