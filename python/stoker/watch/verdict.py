"""Asks the program `stoker` for the verdict on a folder of records, and prints it for a terminal."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

_INDENT = 13  # of what follows "   evidence  " and its like
_LABELS = ("   evidence  ", "   gain      ")


class Verdict:
    """`text` is for people, `document` that of `stoker diagnose --json`."""

    def __init__(self, program: Path, folder: Path, trace: Path | None = None) -> None:
        self._command = [str(program), "diagnose", str(folder), *([] if trace is None else [str(trace)])]
        done = self._run()
        self.text: str = done.stdout
        self.problems: str = done.stderr
        self.document: dict[str, Any] = json.loads(self._run("--json").stdout)

    def _run(self, *options: str) -> subprocess.CompletedProcess[str]:
        # UTF-8 whatever locale the program has set.
        done = subprocess.run(
            [*self._command, *options], capture_output=True, encoding="utf-8", errors="replace", check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"stoker diagnose: {done.stderr.strip()}")
        return done

    def write_report(self, path: Path) -> None:
        """The HTML page. Raises RuntimeError if it cannot be written."""
        self._run("--html", str(path))

    def write_document(self, path: Path) -> None:
        path.write_text(json.dumps(self.document, indent=2) + "\n", encoding="utf-8")

    @property
    def rule(self) -> str:
        return str(self.document["verdict"]["rule"])


def wrapped(text: str, columns: int) -> str:
    """Lines of prose and evidence are broken; code and bars are not."""
    lines = []
    for line in text.splitlines():
        indent = next((" " * _INDENT for label in _LABELS if line.startswith(label)), None)
        if indent is None and not line.startswith(("  ", "   fix")):
            indent = ""
        if indent is None and line.startswith("   ") and line[3:4].isupper():
            indent = "   "
        if indent is None or len(line) <= columns:
            lines.append(line)
        else:
            wrapper = textwrap.TextWrapper(columns, subsequent_indent=indent, break_long_words=False)
            wrapper.break_on_hyphens = False
            lines += wrapper.wrap(line)
    return "\n".join(lines) + "\n"


def flush_output() -> None:
    """Output of the program comes before ours. It may have closed stdout, or put anything there."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()


def say(text: str) -> None:
    """On stderr: stdout is the program's. It may have closed stderr, or put anything there; then nobody is told."""
    with contextlib.suppress(Exception):
        if sys.stderr is not None:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def print_verdict(verdict: Verdict, name: str = "stoker watch") -> None:
    columns = shutil.get_terminal_size((80, 24)).columns
    flush_output()
    title = name + " "
    line = title + "─" * max(0, columns - len(title))
    say(f"\n{line}\n{wrapped(verdict.text, columns)}{verdict.problems}".removesuffix("\n"))
