# `python -m stoker watch` and `bottleneck` name what is planted in some of the scripts; all of them: watched.py.
import os
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

from watched import PLANTED, expected, judge_in_peace, line_of, named_in


slow = pytest.mark.skipif(bool(os.environ.get("STOKER_SKIP_SLOW")), reason="slow, and STOKER_SKIP_SLOW is set")
SLOW = [pytest.param(name, marks=slow) for name in ("evaluation_each_step", "emulated_fp16")]


@pytest.mark.parametrize("name", ["slow_transform", "item_each_step", *SLOW])
def test_the_planted_cause_is_named(name):
    case = judge_in_peace(name)
    assert case.same, f"{case.plain.stdout}\n{case.watched.stdout}"
    assert case.named == expected(name), case.watched.stderr


def test_a_finding_that_names_another_line_is_wrong():
    assert line_of("python_loop").startswith("python_loop.py:") and line_of("healthy_mlp") == ""
    finding = {"rule": PLANTED["python_loop"], "severity": "critical", "text": f"at {line_of('python_loop')}"}
    assert named_in({"findings": [finding]}, "python_loop") == "python-loop"
    assert named_in({"findings": [finding | {"text": "at python_loop.py:1"}]}, "python_loop") == "another line"


# The profilers slow the steps that they see; the verdict must not rest on these.
@pytest.mark.parametrize("name, function", [("python_loop", "smoothness"), pytest.param("healthy_mlp", None, marks=slow)])
def test_the_cause_is_named_with_the_function_that_takes_the_time(name, function):
    case = judge_in_peace(name, "bottleneck")
    assert case.same, f"{case.plain.stdout}\n{case.watched.stdout}"
    assert case.named == expected(name), case.watched.stderr
    rank = case.document["ranks"][0]
    assert rank["function_steps"] > 0 and rank["operators"]
    if function is not None:
        slowest = max(rank["functions"], key=lambda each: each["total_us"] if each["place"] else 0)
        assert slowest["name"] == function and slowest["place"].startswith("tests/python/watch_scripts/")
