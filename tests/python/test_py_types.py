# mypy --strict finds nothing in the package.
import subprocess
import sys

import pytest
from conftest import ROOT

pytest.importorskip("mypy")


def test_the_package_is_strictly_typed(tmp_path):
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", tmp_path]
    done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
