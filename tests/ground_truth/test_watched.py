# `python -m stoker watch` names what is planted in some of the scripts; all of them: watched.py.
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

from watched import PLANTED, expected, judge_in_peace, line_of, named_in


@pytest.mark.parametrize("name", ["slow_transform", "item_each_step", "python_loop", "evaluation_each_step", "healthy_mlp"])
def test_the_planted_cause_is_named(name):
    case = judge_in_peace(name)
    assert case.same, f"{case.plain.stdout}\n{case.watched.stdout}"
    assert case.named == expected(name), case.watched.stderr


def test_a_finding_that_names_another_line_is_wrong():
    assert line_of("python_loop").startswith("python_loop.py:") and line_of("healthy_mlp") == ""
    finding = {"rule": PLANTED["python_loop"], "severity": "critical", "text": f"at {line_of('python_loop')}"}
    assert named_in({"findings": [finding]}, "python_loop") == "python-loop"
    assert named_in({"findings": [finding | {"text": "at python_loop.py:1"}]}, "python_loop") == "another line"
