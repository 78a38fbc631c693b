"""Tables in memory as data sets: what has __arrow_c_stream__, and the data sets of Hugging Face's datasets."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from stoker import _stoker
from stoker.errors import InvalidArgument


class Table(NamedTuple):
    """A table whose columns are used without a copy, and the settings of stoker.open for it."""

    table: Any  # has __arrow_c_stream__
    folder: str  # of files that a column names instead of holding them
    image: str
    label: str
    fields: list[tuple[str, str, str]]
    clips: bool

    def open(self) -> _stoker.Dataset:
        return _stoker.open_stream(self.table.__arrow_c_stream__(), *self[1:])


def is_table(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or _is_hugging_face(data)


def _is_hugging_face(data: Any) -> bool:
    """A module of a user may have the same name."""
    module = sys.modules.get("datasets")
    kinds = ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict")
    return hasattr(module, "load_dataset") and isinstance(data, tuple(getattr(module, kind) for kind in kinds))


def table_and_rows(data: Any) -> tuple[Any, list[int] | None]:
    """The table, and the rows in their order; None: all.

    Raises InvalidArgument for a data set of several splits, a stream, and one with a transform of its own.
    """
    if not _is_hugging_face(data):
        return data, None
    kind = type(data).__name__
    if kind in ("DatasetDict", "IterableDatasetDict"):
        raise InvalidArgument(f"[path] expected one split, as in data[{next(iter(data), 'train')!r}], got a {kind}")
    if kind != "Dataset":
        raise InvalidArgument(f"[path] expected a datasets.Dataset, got {kind}; its files or a saved copy can be opened")
    if data.format["type"] == "custom":
        raise InvalidArgument(
            "[path] expected a data set without set_transform, whose function would not be called; "
            "pass data.with_format(None), and the transforms as ops"
        )
    rows = None if data._indices is None else data._indices.column(0).to_pylist()
    return data.data.table, rows
