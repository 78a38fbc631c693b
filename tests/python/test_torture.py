# A case of each attack of `./dev torture` (tests/torture), and its reaction when the program does not survive.
import os
import subprocess
import sys
import warnings
from collections import Counter

import pytest
from conftest import ROOT

TORTURE = ROOT / "tests/torture"
CASES = ["no-space:2", "hostile-file:3"]
# Tests of packing, resuming, remote_train, cut_files, memory and dist also have these kinds.
LONG_CASES = ["kill-pack:0", "kill-train:0", "hostile-server:0", "kill-ranks:0", "full-disk:1", "io-error:0", "hostile-file:20",
              "cut-file:0", "cut-file:1", "cut-file:2", "cut-file:3", "memory-limit:0", "memory-limit:2", "hosts:1"]  # fmt: skip


def torture(*words, **options):
    command = [sys.executable, TORTURE / "torture.py", *words]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **options)


# In one run each: the attacks share what the undisturbed program gives.
@pytest.mark.parametrize("cases", [CASES, pytest.param(LONG_CASES, marks=pytest.mark.slow)], ids=["short", "long"])
def test_a_case_of_each_attack(program, tmp_path, cases):
    done = torture("--seed", 3, "--only", ",".join(cases), "--markdown", tmp_path / "table.md")
    assert done.returncode == 0, done.stdout + done.stderr
    table = (tmp_path / "table.md").read_text()
    counts = Counter(case.partition(":")[0] for case in cases)
    skipped = []
    for name, count in counts.items():
        if f"| `{name}` | 0 | skipped: " in table:
            skipped.append(name)
        else:
            assert f"| `{name}` | {count} | {count} | " in table, done.stdout
    reason = f"skipped of these attacks: {', '.join(skipped)}: {done.stdout}"
    if len(skipped) == len(counts):
        pytest.skip(reason)
    if skipped:
        warnings.warn(reason)


def test_a_failure_is_counted_and_says_how_to_repeat_it(tmp_path):
    """A program that dies of every damaged file."""
    fake = tmp_path / "stoker"
    fake.write_text('#!/bin/sh\ncase "$*" in *torture-hostile-file-0-*) kill -SEGV $$;; esac\n')
    fake.chmod(0o755)
    env = {**os.environ, "STOKER_BIN": str(fake)}
    done = torture("--seed", 5, "--only", "hostile-file:0", env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "hostile-file    0 of 1 survived" in done.stdout
    assert "ended by signal 11" in done.stdout
    assert "again: ./dev torture --seed 5 --only hostile-file:0" in done.stdout


def test_an_unknown_attack_is_refused():
    done = torture("--only", "rain")
    assert done.returncode == 2 and "expected one of kill-pack, kill-train, kill-ranks, full-disk" in done.stderr
