"""Reads what a run wrote about itself (docs/runs.md, docs/records.md)."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stoker.errors import DataError, InvalidArgument


def read_metrics(run: str | os.PathLike[str], type: str = "step") -> dict[str, list[Any]]:
    """The lines of one type of a run's metrics.jsonl as columns of equal length: pandas.DataFrame(read_metrics(run)).

    run: a run folder, or the file itself; also of a run that goes on.
    type: "step", "epoch", "interval", "evaluation" or "facts".

    Keys within keys are joined by a dot: "us.wait" is the microseconds of waiting in each step. What a line does not
    have is None. A last line that is not complete is left out. Raises FileNotFoundError where there is no such file,
    InvalidArgument for a type of which there is no line, and DataError for a line that is no JSON.
    """
    path = Path(run)
    path = path / "metrics.jsonl" if path.is_dir() else path
    types: set[str] = set()
    rows = []
    for record in _records(path):
        types.add(str(record.get("type")))
        if record.get("type") == type:
            rows.append(dict(_flat("", record)))
    if not types:
        raise InvalidArgument(f"[{path}] expected lines of type {type!r}, got none yet: a run writes them after a while")
    if type not in types:
        raise InvalidArgument(f"[{path}] expected a type of line that it has: {', '.join(sorted(types))}, got {type!r}")
    names = dict.fromkeys(name for row in rows for name in row if name != "type")
    return {name: [row.get(name) for row in rows] for name in names}


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return  # a process that still writes, or was killed
            try:
                record = json.loads(line)
            except ValueError as error:
                raise DataError(f"[{path}: line {number}] expected a JSON object, got {error}") from error
            if not isinstance(record, dict):
                raise DataError(f"[{path}: line {number}] expected a JSON object, got {record!r:.60}")
            yield record


def _flat(prefix: str, record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value
