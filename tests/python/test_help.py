# The --help of every command, and reports on data that never change, word for word.
import re

import pytest
from conftest import PROGRAM, ROOT, run_program
from golden import check_golden


def subcommands(*words):
    listed = run_program(*words, "--help", cwd=ROOT).out
    return [[*words, name] for name in re.findall(r"^  ([a-z]+) +\S", listed.partition("ommands:\n")[2], re.MULTILINE)]


def commands():
    if not PROGRAM.is_file():
        return []
    found = [[], *subcommands()]
    return found + subcommands("bench") + subcommands("runs")


@pytest.mark.parametrize("words", commands(), ids=lambda words: "-".join(["stoker", *words]))
def test_help(words):
    check_golden(f"help/{'-'.join(['stoker', *words])}.txt", run_program(*words, "--help", cwd=ROOT).out)


REPORTS = {
    "inspect": ["inspect", "synth:digits?count=60"],
    "inspect-json": ["inspect", "synth:digits?count=60", "--json"],
    "diagnose-trace": ["diagnose", "tests/diagnose/data/two_streams.json"],
    "diagnose-trace-json": ["diagnose", "tests/diagnose/data/two_streams.json", "--json"],
    "diagnose-rules": ["diagnose", "--rules"],
}


@pytest.mark.parametrize("name", REPORTS)
def test_report(name):
    done = run_program(*REPORTS[name], cwd=ROOT)
    check_golden(f"reports/{name}.txt", done.out + done.err)
