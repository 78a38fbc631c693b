# `python -m stoker watch --fix` keeps the change that a planted bottleneck needs, and its patch does the same. It is timed,
# so that nothing else may run.
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "python")]

from test_watch import Runs
from test_watch_fix import Case


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


def test_workers_that_help_are_kept_and_written(runs):
    case = Case(runs, "plain", "--patch", "fix.patch", "--write", epochs=35)
    first = case.changes[0]
    assert first["rule"] == "no-workers" and first["kept"] and "num_workers=" in first["change"]
    assert first["measured"]["low"] > 1.1 and first["predicted"]["expected"] > 1.1
    assert "num_workers=" in case.path.read_text() and case.path.read_text().count("\n") == case.text.count("\n")
    assert (runs.folder / "fix.patch").read_text() == case.document["patch"]
    written = runs.python("train.py").stdout.split()  # with workers, torch draws in another order for two passes at once
    assert written[:2] == case.ran.stdout.split()[:2]
    case.assert_same_output()
    subprocess.run(["git", "init", "-q", runs.folder], check=True)
    subprocess.run(["git", "apply", "fix.patch"], check=True, cwd=runs.folder)


def test_random_numbers_may_change_where_that_is_allowed(runs):
    case = Case(runs, "draws", "--allow", "random")
    assert case.changes[0]["kept"]
    case.path.write_text(case.text)
    assert runs.python("train.py").stdout != case.ran.stdout
