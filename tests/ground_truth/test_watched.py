# `python -m stoker watch` names what is planted in some of the scripts; all of them: watched.py.
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

from watched import expected, judge_in_peace


@pytest.mark.parametrize("name", ["slow_transform", "item_each_step", "python_loop", "evaluation_each_step", "healthy_mlp"])
def test_the_planted_cause_is_named(name):
    case = judge_in_peace(name)
    assert case.same, f"{case.plain.stdout}\n{case.watched.stdout}"
    assert case.named == expected(name), case.watched.stderr
