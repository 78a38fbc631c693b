# Sums JUnit reports of GoogleTest, CTest and pytest into one line: N passed, N failed, N skipped. Fails on a failed test
# and on a missing report: its program crashed before it could write one. Every case of a crashed GoogleTest program
# counts as failed. GoogleTest programs are in ../bin as seen from their reports.
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed"
    if case.get("status") == "disabled" or case.get("result") in ("skipped", "suppressed"):  # the second: GoogleTest's
        return "skipped"
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    # CTest also writes <skipped> for a test that could not be started; only real skips have a message with SKIP_.
    by_ctest = case.get("status") is not None
    return "failed" if by_ctest and not skipped.get("message", "").startswith("SKIP_") else "skipped"


def cases_of(program):
    """The number of cases that a GoogleTest program lists; 0 if it is missing or cannot list them."""
    try:
        listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith("  ") for line in listed.stdout.splitlines())  # names of suites are not indented


def main(reports):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for report in reports:
        if not Path(report).is_file():
            program = Path(report).parent.parent / "bin" / Path(report).stem
            cases = max(cases_of(program), 1)
            print(f"no report: {report}; counted as {cases} failed", file=sys.stderr)
            counts["failed"] += cases
            continue
        for case in ElementTree.parse(report).iter("testcase"):
            counts[outcome(case)] += 1
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
