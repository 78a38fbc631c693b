# A short soak: descriptors do not grow over epochs, and a growth is reported. bench/soak.py in full takes
# minutes and looks at memory too.
import os
import subprocess
import sys

import pytest

from conftest import PROGRAM, PYTHON_PACKAGE, ROOT


@pytest.mark.skipif(not (PROGRAM.parent / "soak").is_file(), reason="needs the program soak beside stoker")
def test_descriptors_do_not_grow(tmp_path):
    words = ["--build", PROGRAM.parent, "--count", "16", "--epochs", "20"]
    command = [sys.executable, ROOT / "bench/soak.py", *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("descriptors +0") + done.stdout.count("descriptors -") == 4
    assert done.stdout.endswith("steady\n")


@pytest.mark.skipif(not list(PYTHON_PACKAGE.glob("stoker/_stoker*")), reason="needs the extension module: STOKER_PYTHON=ON")
@pytest.mark.parametrize(
    "leak, end",
    [
        pytest.param("", "steady\n", id="as it is"),
        pytest.param("leaks", "FAILED\n", id="with a leak", marks=pytest.mark.slow),
    ],
)
def test_loaders_of_python_leave_nothing(tmp_path, leak, end):
    """Threads, processes, descriptors and shared memory; and a leak is seen."""
    command = [sys.executable, ROOT / "bench/soak.py", "--python", "--build", PROGRAM.parent]
    command += ["--count", "16", "--epochs", "30", "--workers", "2"]
    if leak:
        command[1:2] = ["-c", LEAK, ROOT / "bench"]
    environment = {**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)}
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    assert done.stdout.endswith(end) and done.returncode == bool(leak), done.stdout + done.stderr


# Every batch of forked workers is kept, with its memory.
LEAK = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import soak, stoker
from stoker.loader import Loader
kept, deliver = [], Loader._named
Loader._named = lambda loader, batch: kept.append(batch) or deliver(loader, batch)


def soak_one(photos, epochs, workers):
    steady = soak.soak_loader("leaks", soak.Rows(), epochs, workers, "fork")
    print("steady" if steady else "FAILED")
    return steady


soak.soak_python = soak_one
sys.exit(soak.main())
"""
