# The --help of every command, and reports on data that never change, word for word.
import re

import pytest
from conftest import PROGRAM, ROOT, run_program
from golden import check_golden


def subcommands(*words):
    """Those that --help lists; its examples begin with the program's name."""
    listed = run_program(*words, "--help", cwd=ROOT).out.partition("ommands:\n")[2]
    names = re.findall(r"^  ([a-z]+) +\S", listed, re.MULTILINE)
    return [[*words, name] for name in names if name != "stoker"]


def commands():
    if not PROGRAM.is_file():
        return []
    return [[], *subcommands(), *subcommands("bench"), *subcommands("runs")]


@pytest.mark.parametrize("words", commands(), ids=lambda words: "-".join(["stoker", *words]))
def test_help(words):
    done = run_program(*words, "--help", cwd=ROOT, status=None)
    if done.status == 1 and "STOKER_ENGINE=ON" in done.err:
        pytest.skip("needs the engine: STOKER_ENGINE=ON")
    check_golden(f"help/{'-'.join(['stoker', *words])}.txt", done.out)


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
