"""A watch from start to verdict, for the command, the context manager and the callbacks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from stoker._program import find_program
from stoker.watch.fix.report import FixOptions, Report
from stoker.watch.session import Session
from stoker.watch.verdict import Verdict, print_verdict, say


class Watch:
    """profiled: `python -m stoker bottleneck`, with profilers in some of the steps. thread: None: the calling one. fix:
    changes are tried."""

    def __init__(
        self,
        keep: Path | None = None,
        report: Path | None = None,
        document: Path | None = None,
        *,
        profiled: bool = False,
        thread: Thread | None = None,
        fix: FixOptions | None = None,
    ) -> None:
        if report is not None and report.suffix not in (".html", ".htm"):
            raise ValueError(f"report: expected a file name that ends in .html, found {report}")
        if document is not None and document.suffix != ".json":
            raise ValueError(f"json: expected a file name that ends in .json, found {document}")
        self._name = "stoker bottleneck" if profiled else "stoker watch"
        self._fix = fix
        self._fix_report: Report | None = None
        self._fixes: dict[str, Any] = {}  # for the document
        program = None if fix is None else find_program().absolute()
        self._session = Session(keep, profiled, thread, program, frozenset() if fix is None else fix.allowed)
        self._idle = False  # nothing is watched here
        self._program: Path | None = None
        self._kept = keep is not None
        self._asked = sum(path is not None for path in (keep, report, document))
        named = self._session.rank.named
        self._report, self._document = (
            None if path is None else named(path.absolute()) for path in (report, document)
        )  # the program may change its folder

    def start(self) -> None:
        """Within another watch, or without the program that gives the verdict, this one does nothing but say so."""
        reason = self._why_idle()
        self._idle = reason is not None
        if self._idle:
            say(f"{self._name}: {reason}")
        else:
            self._session.start()

    def _why_idle(self) -> str | None:
        if Session.is_any_running():
            unwritten = "" if self._asked == 0 else "; no file that was asked for here is written"
            return f"this process is watched already: the other watch gives the verdict{unwritten}"
        if self._fix is not None and self._session.rank.world_size > 1:
            return "nothing is watched: --fix expected one process, found several ranks; watch them without --fix"
        try:
            self._program = find_program().absolute()  # better missed now than after hours, in another folder
        except FileNotFoundError as error:
            if not self._kept:  # kept records can be judged elsewhere
                return f"nothing is watched: {error}"
        return None

    def finish(self, failed: bool = False) -> None:
        """Prints the verdict and writes what was asked for. Errors are printed: the watched program has its own end.

        failed: the program has ended with an error. Before its first step nothing is to be judged.
        """
        session = self._session
        if self._idle or not session.is_of_this_process:  # a child that the program has forked
            return
        try:
            try:
                missed = session.stop()
            finally:
                if session.fixer is not None and self._fix is not None:
                    self._fix_report = Report(session.fixer.tried, self._fix)
                    self._fixes = {"fix": self._fix_report.document()}
            if failed and session.writer.steps == 0:
                say(f"{self._name}: no verdict: the program ended before a step of an optimizer")
            elif session.rank.judges:
                self._judge(missed)
        except Exception as error:
            say(f"{self._name}: no verdict: {str(error) or type(error).__name__}")
        finally:
            session.folder.remove()
            self._print_fixes()

    def _judge(self, missed: list[str]) -> None:
        profiles = self._session.profiles
        program = self._program or find_program()
        verdict = Verdict(program, self._session.folder.path, None if profiles is None else profiles.trace)
        print_verdict(verdict, self._name)
        verdict.document |= self._fixes
        written = [str(self._session.folder.path)] if self._kept else []
        written += self._write(verdict.write_report, self._report)
        written += self._write(verdict.write_document, self._document)
        if written:
            say(f"{self._name}: wrote {', '.join(written)}")
        for problem in missed:
            say(f"{self._name}: {problem}")
        if profiles is not None:
            for problem in profiles.missing():
                say(f"{self._name}: {problem}")

    def _print_fixes(self) -> None:
        """After the verdict, and also without one: the program ran with the changes that were kept."""
        if self._fix is None or self._session.fixer is None:
            return
        report = self._fix_report
        if report is None:
            return
        say("\n".join(["", *report.lines()]))
        for problem in report.problems:
            say(f"{self._name}: {problem}")
        if not report.patch:
            return
        say(f"\n{report.patch}".rstrip())
        written = self._write(lambda path: _write_text(path, report.patch), self._fix.patch)
        for path, text in report.files.items() if self._fix.write else ():
            written += self._write(partial(_write_text, text=text), path)
        if written:
            say(f"{self._name}: wrote {', '.join(written)}")

    def _write(self, write: Callable[[Path], None], path: Path | None) -> list[str]:
        """The paths written. The verdict is on stderr already; a file that cannot be written costs a line."""
        if path is None:
            return []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
        except (OSError, RuntimeError) as error:
            say(f"{self._name}: {path} was not written: {error}")
            return []
        return [str(path)]


def _write_text(path: Path, text: str) -> None:
    """All or nothing."""
    beside = path.with_name(f".{path.name}.stoker")
    beside.write_bytes(text.encode())
    if path.exists():
        shutil.copymode(path, beside)
    beside.replace(path)
