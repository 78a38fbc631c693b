# mypy --strict finds nothing in the package, and finds a wrong name in a program that uses it.
import re
import subprocess
import sys

import pytest
from conftest import ROOT

pytest.importorskip("mypy")


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """Runs mypy with the settings of the repository. Its cache for torch is kept from run to run."""
    cache = tmp_path_factory.mktemp("mypy")
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", cache]

    def run(*words):
        words = [str(word) for word in (*command, *words)]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True)

    return run


def test_the_package_is_strictly_typed(check):
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr


PROGRAM = """
import stoker
from stoker.watch.lightning import StokerWatch

def train(folder: str) -> None:
    loader: stoker.Loader = stoker.Loader(folder, 8, ops=[stoker.transforms.RandomHorizontalFlip()])
    with stoker.watch(report="report.html"), stoker.watching(keep="kept"):
        for batch in loader:
            print(batch)
    print(stoker.__version__, StokerWatch(json="verdict.json"), stoker.torch.DevicePrefetcher(loader, "cpu"))

try:
    train("data")
except (stoker.DataError, stoker.errors.IoError):
    stoker.Loadr("data")  # wrong
    stoker.watch(raport="report.html")  # wrong
    stoker.Loader("data", worker=2)  # wrong
"""


def test_a_programs_wrong_names_are_found_and_its_right_ones_are_not(check, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = check(path)
    wrong = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")]
    found = [int(number) for number in re.findall(r"^\S*program\.py:(\d+): error", done.stdout, re.MULTILINE)]
    assert found == wrong, done.stdout + done.stderr
