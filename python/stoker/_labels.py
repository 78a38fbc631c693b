"""A table of labels as the text of a CSV file: a DataFrame of any library, a dict of columns, or a file."""

from __future__ import annotations

import csv
import importlib
import io
import numbers
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stoker.errors import InvalidArgument, IoError, Unsupported


# As src/stoker/formats/table/table_dataset.cpp finds the columns of paths and of classes.
_PATHS = (
    "path", "file", "image", "filename", "file_name", "image_path", "filepath", "file_path", "image_id",
)
_LABELS = ("label", "class", "target")

Fields = Sequence[tuple[str, str, str]]  # name, name in the data, kind


class _Columns(NamedTuple):
    """The names of those that are read."""

    paths: set[str]
    others: set[str]


def csv_text(table: Any, folder: str, image: str = "", label: str = "", fields: Fields = ()) -> str:
    """`table`: pandas, polars, pyarrow, {name: values}, or the path of a .csv or .parquet file.

    Paths within `folder` become relative to it. Of a table in memory only the columns that are read have their cells.
    """
    if isinstance(table, (str, os.PathLike)):
        path = Path(table)
        if path.suffix != ".parquet":
            text = _read_csv(path)
            _require_labels(next(csv.reader(io.StringIO(text, newline="")), []), label, fields)
            return _with_relative_paths(text, folder, image, label, fields)
        table = _read_parquet(path)
    names = _column_names(table)
    _require_labels(names, label, fields)
    read = _columns_to_read(names, image, label, fields)
    given = [table[name] for name in names]
    given = [column if hasattr(column, "__len__") else list(column) for column in given]
    lengths = {len(column) for column in given}
    if len(lengths) != 1:
        raise InvalidArgument(f"[labels] expected columns of one length, got {sorted(lengths)}")
    columns = [_cells(column, str(name), read, folder) for name, column in zip(names, given)]
    return _joined([[str(name) for name in names], *zip(*columns)])


def _require_labels(header: Iterable[Any], label: str, fields: Fields) -> None:
    """Paths alone are data without labels. Beside columns that nobody asks for, the labels have another name."""
    names = [_plain(name) for name in header]
    if len(names) > 1 and not label and not fields and not _usual(names, _LABELS):
        raise InvalidArgument(
            f"[labels] expected a column {', '.join(_LABELS[:-1])} or {_LABELS[-1]}, got {', '.join(names)}; "
            "label=NAME names the one of the labels, fields=[NAME] others"
        )


def _read_csv(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise IoError(f"[{path}] expected a .csv or .parquet file, got {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"[{path}] expected a table in UTF-8, got {error.reason}") from error


def _with_relative_paths(text: str, folder: str, image: str, label: str, fields: Fields) -> str:
    if _begin_of(folder) not in text:
        return text
    rows = list(csv.reader(io.StringIO(text, newline="")))
    read = _columns_to_read(rows[0], image, label, fields)
    for at in [at for at, name in enumerate(rows[0]) if _plain(name) in read.paths]:
        for row in rows[1:]:
            row[at : at + 1] = [path.removeprefix(_begin_of(folder)) for path in row[at : at + 1]]
    return _joined(rows)


def _joined(rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue()


def _column_names(table: Any) -> list[Any]:
    if isinstance(table, Mapping):
        for name, column in table.items():
            if isinstance(column, (str, bytes, numbers.Number)):
                raise InvalidArgument(
                    f'[labels] expected columns, as {{"path": [...], "label": [...]}}, got {name!r}: {column!r}'
                )
        return list(table)
    names = getattr(table, "column_names", None)  # pyarrow's; its `columns` are arrays
    names = getattr(table, "columns", None) if names is None else names
    if names is None or callable(names):
        raise InvalidArgument(
            f"[labels] expected a DataFrame, a dict of columns, or a .csv or .parquet file, got {type(table).__name__}"
        )
    return list(names)


def _columns_to_read(header: Iterable[Any], image: str, label: str, fields: Fields) -> _Columns:
    names = [_plain(name) for name in header]
    first = next(filter(None, names), "")
    read = _Columns({image or _usual(names, _PATHS) or first}, set())
    for name, source, kind in fields:
        columns = [source or name, *(part.strip(" ") for part in source.split(","))]
        (read.paths if kind in ("image", "mask") else read.others).update(columns)
    left = [name for name in names if name not in read.paths | read.others]
    read.others.add(label or _usual(left, _LABELS))
    return read


def _plain(name: Any) -> str:
    return str(name).strip(" \t")


def _usual(names: list[str], usual: tuple[str, ...]) -> str:
    return next((name for wanted in usual for name in names if name.lower() == wanted), "")


def _begin_of(folder: str) -> str:
    """The beginning of the paths of all files in it."""
    return os.path.join(os.path.abspath(folder), "")


def _cells(column: Any, name: str, read: _Columns, folder: str) -> list[str]:
    if _plain(name) in read.paths:
        return [_cell(value, name).removeprefix(_begin_of(folder)) for value in _listed(column)]
    if _plain(name) in read.others:
        return [_cell(value, name) for value in _listed(column)]
    first: Any = next(iter(column), None)  # Dataset.stored_fields tells the kind of other columns by their first cell
    first = first.as_py() if hasattr(first, "as_py") else first
    shown = str(first) if isinstance(first, (str, numbers.Number)) else ""
    return ([shown] + [""] * len(column))[: len(column)]


def _listed(column: Any) -> list[Any]:
    if _is_tensor(column):
        return list(column.tolist())
    return list(column.to_pylist() if hasattr(column, "to_pylist") else column)


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _cell(value: Any, column: str) -> str:
    """Empty for missing values: None, NaN, NaT and pandas.NA."""
    if _is_tensor(value) and value.ndim == 0:
        value = value.item()
    if isinstance(value, (list, tuple, set, Mapping)) or getattr(value, "ndim", 0) > 0:
        raise InvalidArgument(
            f"[labels] expected text or a number in each cell of column {column!r}, got a {type(value).__name__}"
        )
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            got = f"{value[:40]!r}{'...' if len(value) > 40 else ''}"
            raise InvalidArgument(f"[labels] expected text in UTF-8 in column {column!r}, got {got}") from None
    return str(value).lower() if type(value).__name__ in ("bool", "bool_") else str(value)


def _read_parquet(path: Path) -> Any:
    for module, function in (("pyarrow.parquet", "read_table"), ("polars", "read_parquet"), ("pandas", "read_parquet")):
        try:
            return getattr(importlib.import_module(module), function)(path)
        except ImportError:  # also pandas without an engine
            continue
        except Exception as error:  # of many kinds
            kind = IoError if isinstance(error, OSError) else InvalidArgument
            raise kind(f"[{path}] expected a Parquet file, got {' '.join(str(error).split())}") from error
    raise Unsupported(f"[{path}] expected a module that reads Parquet files, got none; pip install pyarrow")
