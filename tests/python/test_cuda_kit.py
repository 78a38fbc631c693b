# The kit for a machine with a GPU also runs on a machine without one: checks that need a GPU are skipped by name.
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def has_gpu():
    import torch

    return torch.cuda.is_available()


@pytest.mark.slow
def test_the_kit_runs_without_a_gpu(tmp_path):
    if has_gpu():
        pytest.skip("with a GPU the kit runs for minutes: ./dev cuda-kit, then build/cuda-kit/run.sh")
    build = Path(os.environ.get("STOKER_BIN", ROOT / "build/release/bin/stoker")).resolve().parents[1]
    if not (build / "bin/libstoker_torch_cuda.so").exists():
        pytest.skip("built without LibTorch's CUDA headers")
    kit = tmp_path / "kit"
    subprocess.run([ROOT / "cuda_kit/make.sh", build, kit], check=True, capture_output=True)
    assert not list(kit.glob("lib/libtorch*")), "LibTorch comes with the machine's Python"
    command = [kit / "run.sh", "--python", sys.executable, "--out", tmp_path / "out"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert lines[-1].split()[0] != "0" and ", 0 failed, " in lines[-1], run.stdout
    for stage in ["compile", "train", "bench", "sanitizer-memcheck"]:
        assert f"skipped {stage}: no GPU" in lines


def test_a_python_without_torch_is_refused_in_one_line(tmp_path):
    kit = tmp_path / "kit"
    (kit / "bin").mkdir(parents=True)
    (kit / "run.sh").write_bytes((ROOT / "cuda_kit/run.sh").read_bytes())
    command = ["bash", kit / "run.sh", "--python", "/bin/false", "--out", tmp_path / "out"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == "[/bin/false] expected a Python with torch, got none; pass --python"
