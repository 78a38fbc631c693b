"""A table of labels as the text of a CSV file: a DataFrame of any library, a dict of columns, or a file."""

from __future__ import annotations

import csv
import importlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.errors import InvalidArgument, IoError, Unsupported


def csv_text(table: Any) -> str:
    """`table`: pandas, polars, pyarrow, {name: values}, or the path of a .csv or .parquet file."""
    if isinstance(table, (str, os.PathLike)):
        path = Path(table)
        if path.suffix == ".parquet":
            return _from_columns(_read_parquet(path))
        try:
            return path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise IoError(f"[{path}] expected a .csv or .parquet file, got {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"[{path}] expected a table in UTF-8, got {error.reason}") from error
    return _from_columns(table)


def _from_columns(table: Any) -> str:
    names = [str(name) for name in _column_names(table)]
    columns = [_values(table[name]) for name in _column_names(table)]
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise InvalidArgument(f"[labels] expected columns of one length, got {sorted(lengths)}")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    writer.writerows(zip(*columns))
    return text.getvalue()


def _column_names(table: Any) -> list[Any]:
    if isinstance(table, Mapping):
        return list(table)
    names = getattr(table, "column_names", None)  # pyarrow's; its `columns` are arrays
    names = getattr(table, "columns", None) if names is None else names
    if names is None or callable(names):
        raise InvalidArgument(
            f"[labels] expected a DataFrame, a dict of columns, or a .csv or .parquet file, got {type(table).__name__}"
        )
    return list(names)


def _values(column: Any) -> list[str]:
    values = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    return [_cell(value) for value in values]


def _cell(value: Any) -> str:
    """Empty for what is missing: None, NaN, NaT and pandas.NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise InvalidArgument(f"[labels] expected text in UTF-8, got {value!r}") from None
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
