# The closing line of ./dev test, from reports as CTest and pytest write them.
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("sum_junit.py")

CASES = [
    ('<testcase name="ctest" status="run"/>', "1 passed, 0 failed, 0 skipped"),
    ('<testcase name="pytest"/>', "1 passed, 0 failed, 0 skipped"),
    ('<testcase status="fail"><failure message=""/></testcase>', "0 passed, 1 failed, 0 skipped"),
    ('<testcase><error message="failed on setup"/></testcase>', "0 passed, 1 failed, 0 skipped"),
    ('<testcase><skipped type="pytest.skip" message="no data"/></testcase>', "0 passed, 0 failed, 1 skipped"),
    ('<testcase status="disabled"/>', "0 passed, 0 failed, 1 skipped"),
    (
        '<testcase status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>',
        "0 passed, 0 failed, 1 skipped",
    ),
    # The program of a test is missing: CTest reports it as skipped, we count it as failed.
    (
        '<testcase status="notrun"><skipped message="Unable to find executable"/></testcase>',
        "0 passed, 1 failed, 0 skipped",
    ),
]


def total(*reports):
    done = subprocess.run([sys.executable, SCRIPT, *reports], capture_output=True, text=True)
    return done.stdout.strip(), done.returncode


@pytest.mark.parametrize("case, line", CASES)
def test_one_case(tmp_path, case, line):
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{case}</testsuite></testsuites>")
    assert total(report) == (line, 1 if "1 failed" in line else 0)


def test_reports_are_added_and_a_missing_one_counts_as_failed(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text("<testsuite>" + CASES[0][0] + CASES[4][0] + "</testsuite>")
    assert total(report, report) == ("2 passed, 0 failed, 2 skipped", 0)
    assert total(report, tmp_path / "none.xml") == ("1 passed, 1 failed, 1 skipped", 1)


def test_all_cases_of_a_crashed_program_count_as_failed(tmp_path):
    program = tmp_path / "bin/x_test"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n[ $1 = --gtest_list_tests ] && printf 'Suite.\\n  One\\n  Two\\nOther.\\n  Three\\n'\n")
    program.chmod(0o755)
    assert total(tmp_path / "results/x_test.xml") == ("0 passed, 3 failed, 0 skipped", 1)
    program.write_text("#!/bin/sh\nkill -SEGV $$\n")  # crashes before it can list them
    assert total(tmp_path / "results/x_test.xml") == ("0 passed, 1 failed, 0 skipped", 1)
