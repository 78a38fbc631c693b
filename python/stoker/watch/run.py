"""A watch from start to verdict, for the command, the context manager and the callbacks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stoker.watch.session import Session
from stoker.watch.verdict import Verdict, print_verdict


class Watch:
    def __init__(self, keep: Path | None = None, report: Path | None = None, document: Path | None = None) -> None:
        self._report = report
        self._document = document
        self._session = Session(keep)

    def start(self) -> None:
        self._session.start()

    def finish(self) -> None:
        """Prints the verdict and writes what was asked for. Errors are printed: the watched program has its own end."""
        session = self._session
        if not session.is_of_this_process:  # a child that the program has forked
            return
        try:
            missed = session.stop()
            if session.rank.judges:
                self._judge(missed)
        except Exception as error:
            print(f"stoker watch: no verdict: {error or type(error).__name__}", file=sys.stderr)
        finally:
            session.folder.remove()

    def _judge(self, missed: list[int]) -> None:
        verdict = Verdict(self._session.folder.path, self._report)
        if self._document is not None:
            self._document.write_text(json.dumps(verdict.document, indent=2) + "\n")
        print_verdict(verdict)
        for rank in missed:
            print(f"stoker watch: rank {rank} has not ended yet; its records are incomplete", file=sys.stderr)
