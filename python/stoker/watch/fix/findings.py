"""Asks `stoker diagnose` for the findings of a program that still runs, in a separate thread."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

Findings = list[dict[str, Any]]


class Question:
    def __init__(self, program: Path, folder: Path) -> None:
        self._command = [str(program), "diagnose", str(folder), "--json"]
        self._thread: threading.Thread | None = None
        self.findings: Findings = []

    def ask(self) -> None:
        self.findings = []
        self._thread = threading.Thread(target=self._run, name="stoker-findings", daemon=True)
        self._thread.start()

    @property
    def is_answered(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        done = subprocess.run(self._command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        if done.returncode == 0:  # before enough steps are recorded there is nothing to judge
            self.findings = json.loads(done.stdout)["findings"]
