# A file that another process cuts short while a run reads it ends the run with an error that names it, not with a
# signal.
import json
import subprocess
import time

import pytest
from conftest import ROOT


@pytest.mark.parametrize("name", ["x.stk", "digits"])
def test_training_ends_with_an_error(program, stoker, recipe, tmp_path, name):
    if not any(ROOT.glob("build/release/bin/stoker-engine")):
        pytest.skip("needs the engine: ./dev build")
    stoker("synth", "digits", "digits", "--count", 3000)
    if name != "digits":
        stoker("pack", "digits", name)
    rest = "[model]\nhidden = [8]\nclasses = 10\n[train]\nepochs = 100000\nthreads = 1"
    path = recipe('{op = "normalize", mean = [0.5], std = [0.25]}', "batch_size = 100\nbad_samples = 3000", name, rest=rest)
    command = [str(program), "train", str(path), "--out", "run"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        metrics = tmp_path / "run/metrics.jsonl"
        while run.poll() is None and not (metrics.exists() and '"step"' in metrics.read_text()):
            time.sleep(0.01)
        data = tmp_path / name
        file = max(data.iterdir(), key=lambda file: file.stat().st_size) if data.is_dir() else data
        with file.open("r+b") as opened:
            opened.truncate(file.stat().st_size // 3)
        err = run.communicate(timeout=60)[1]
    assert run.returncode == 1, (run.returncode, err)
    line = err.splitlines()[-1]
    assert line.startswith("stoker: [") and file.name in line and "another process has cut it short" in line, err
    failed = json.loads((tmp_path / "run/failed.json").read_text())
    assert file.name in failed["error"] and not (tmp_path / "run/quarantine.jsonl").exists()
