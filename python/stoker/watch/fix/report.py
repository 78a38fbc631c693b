"""The table of tried changes, and the patch, for a terminal and for the JSON document."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.watch.fix.changes import LoaderChange, ThreadsChange
from stoker.watch.fix.fixer import Tried
from stoker.watch.fix.patch import Edit, patch_of


@dataclass(frozen=True)
class FixOptions:
    """allowed: numerics, random. folder: that paths of the patch are relative to. patch: a file for it. write: apply it."""

    allowed: frozenset[str]
    folder: Path
    patch: Path | None = None
    write: bool = False
    since: float = field(default_factory=time.time)


class Report:
    def __init__(self, tried: list[Tried], options: FixOptions) -> None:
        self._tried = tried
        self.patch, self.files, self.problems = patch_of(_edits(tried), options.folder, options.since)
        unplaced = [one.change.name for one in tried if one.kept and one.source is None]
        self.problems += [f"{name}: a package makes this call, so the patch leaves it out" for name in unplaced]

    def lines(self) -> list[str]:
        if not self._tried:
            return ["nothing was tried: no finding asks for another loader, optimizer or number of threads"]
        width = max(len(one.change.name) for one in self._tried)
        lines = [f"{'change':{width}}  predicted  measured               kept"]
        for one in self._tried:
            gain = one.gain
            measured = f"{gain.measured:.2f}x ({gain.low:.2f} to {gain.high:.2f})" if gain else "-"
            kept = "yes" if one.kept else f"no: {one.reason}"
            lines.append(f"{one.change.name:{width}}  {one.change.predicted.expected:7.2f}x   {measured:21}  {kept}")
        return lines

    def document(self) -> dict[str, Any]:
        return {
            "changes": [
                {
                    "rule": one.change.rule,
                    "change": one.change.name,
                    "predicted": vars(one.change.predicted),
                    "measured": None if one.gain is None else vars(one.gain),
                    "kept": one.kept,
                    "reason": one.reason,
                }
                for one in self._tried
            ],
            "patch": self.patch,
        }


def _edits(tried: list[Tried]) -> list[Edit]:
    edits: dict[tuple[str, int], Edit] = {}
    for one in tried:
        if not one.kept or one.source is None:
            continue
        if isinstance(one.change, ThreadsChange):
            edits[one.source] = Edit(*one.source, "", {}, statement=one.change.name)
            continue
        in_cpp = isinstance(one.change, LoaderChange) and one.change.samples is not None
        function = "stoker.DataLoader" if in_cpp else None
        before = edits.get(one.source)
        arguments = {**(before.arguments if before else {}), **one.change.settings}
        edits[one.source] = Edit(*one.source, one.kind, arguments, function or (before.function if before else None))
    return list(edits.values())
