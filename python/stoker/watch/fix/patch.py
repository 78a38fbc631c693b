"""Changes as edits of the program's source: keyword arguments of the calls that made a loader or an optimizer."""

from __future__ import annotations

import ast
import difflib
import io
import math
import os
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


_POSITIONAL = {"DataLoader": 5}  # parameters before num_workers; of optimizers weights and learning rate


@dataclass(frozen=True)
class Edit:
    """kind: the class that the call makes, if the program has no other name for it. arguments: new values of keyword
    arguments. function: called in the place of the present one; None: the same. statement: a line of its own in their
    place, after the import of torch."""

    file: str
    line: int
    kind: str
    arguments: Mapping[str, Any]
    function: str | None = None
    statement: str = ""


class CannotEdit(ValueError):
    """Why a source cannot be changed by a patch."""


def edited(source: str, edits: list[Edit]) -> str:
    """The source with all edits, of different calls. Raises CannotEdit."""
    replaced: list[tuple[int, int, str]] = []
    text = source.encode()
    starts = [0]
    for line in _lines_of(source):
        starts.append(starts[-1] + len(line.encode()))
    tree = ast.parse(source)
    for edit in edits:
        if edit.statement:
            replaced.append(_after_torch(tree, edit.statement, starts))
            continue
        call = _call_on(tree, edit.line, edit.kind)
        most = _POSITIONAL.get(edit.kind, 2)
        if edit.arguments and (len(call.args) > most or any(isinstance(one, ast.Starred) for one in call.args)):
            raise CannotEdit(f"line {edit.line} passes arguments by position; write {dict(edit.arguments)} there")
        replaced += _replacements(call, edit.arguments, edit.function, starts, text)
        if edit.function is not None and "." in edit.function:
            replaced.append(_import_of(tree, edit.function.rpartition(".")[0], starts))
    for begin, end, new in sorted(set(replaced), reverse=True):
        text = text[:begin] + new.encode() + text[end:]
    result = text.decode()
    ast.parse(result)
    return result


def _call_on(tree: ast.Module, line: int, kind: str) -> ast.Call:
    """The call of `kind` around a frame's line number, or else the only call of a class there."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    around = [call for call in calls if call.lineno <= line <= (call.end_lineno or 0)]
    found = [call for call in around if _name_of(call.func) == kind]
    found = found or [call for call in around if _name_of(call.func)[:1].isupper()]
    if len(found) > 1:  # of nested calls the inner one, whose first line is nearer
        nearest = max(call.lineno for call in found)
        found = [call for call in found if call.lineno == nearest]
    if len(found) != 1:
        raise CannotEdit(f"line {line} has {len(found) or 'no'} calls that could be meant")
    return found[0]


def _lines_of(source: str) -> list[str]:
    """As ast and git count them: a form feed ends no line."""
    return [line for line in re.split(r"(?<=\n)", source) if line]


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def _replacements(
    call: ast.Call, arguments: Mapping[str, Any], function: str | None, starts: list[int], text: bytes
) -> list[tuple[int, int, str]]:
    made: list[tuple[int, int, str]] = []
    if function is not None:
        made.append((*_span(call.func, starts), function))
    given = {keyword.arg: keyword for keyword in call.keywords if keyword.arg is not None}
    mappings = [keyword for keyword in call.keywords if keyword.arg is None]
    missing = {name: value for name, value in arguments.items() if name not in given}
    for name, value in arguments.items():
        if name in given:
            made.append((*_span(given[name].value, starts), repr(value)))
    if missing and mappings:  # which may hold the same names
        last = mappings[-1].value
        begin, end = _span(last, starts)
        items = ", ".join(f'"{name}": {value!r}' for name, value in missing.items())
        made.append((begin, end, f"{{**{text[begin:end].decode()}, {items}}}"))
    elif missing:
        end, comma = _end_of_arguments(call, starts, text)
        words = ", ".join(f"{name}={value!r}" for name, value in missing.items())
        made.append((end, end, f"{comma}{words}"))
    return made


def _end_of_arguments(call: ast.Call, starts: list[int], text: bytes) -> tuple[int, str]:
    """The position behind the last argument, before comments and the closing parenthesis, and what to write first."""
    begin, end = _span(call, starts)
    last, before = 0, b""
    for token in tokenize.tokenize(io.BytesIO(text).readline):
        row, column = token.end
        if token.type in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING) or row > len(starts) - 1:
            continue
        line = text[starts[row - 1] : starts[row]].decode()
        position = starts[row - 1] + len(line[:column].encode())
        if begin < position < end:
            last, before = position, token.string.encode()
    return last, "" if before == b"(" else " " if before == b"," else ", "


def _import_of(tree: ast.Module, module: str, starts: list[int]) -> tuple[int, int, str]:
    """Before the first import that is not of __future__."""
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and getattr(node, "module", "") != "__future__":
            return starts[node.lineno - 1], starts[node.lineno - 1], f"import {module}\n"
    raise CannotEdit("the file imports nothing")


def _after_torch(tree: ast.Module, statement: str, starts: list[int]) -> tuple[int, int, str]:
    """After the last import at the head of the file, which has torch."""
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if not any(alias.name == "torch" and alias.asname is None for node in imports for alias in node.names):
        raise CannotEdit("the file does not import torch by this name")
    line = imports[-1].end_lineno or 0
    return starts[line], starts[line], f"{statement}\n"


def _span(node: ast.expr, starts: list[int]) -> tuple[int, int]:
    """Positions of its bytes. Columns of ast count bytes."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def patch_of(edits: list[Edit], folder: Path, since: float = math.inf) -> tuple[str, dict[Path, str], list[str]]:
    """A patch for `git apply` in `folder`, the new contents of the files, and in words which edits are impossible.

    since: when the lines of the edits were those of the files, in seconds as time.time() has them.
    """
    patch, files, problems = "", {}, []
    for name in dict.fromkeys(edit.file for edit in edits):
        path = Path(name)
        try:
            if path.stat().st_mtime > since:
                raise CannotEdit("the file has changed since the program began")
            before = path.read_bytes().decode()
            after = edited(before, [edit for edit in edits if edit.file == name])
        except (OSError, SyntaxError, ValueError) as error:
            problems.append(f"{name}: {error}")
            continue
        shown = Path(os.path.relpath(path, folder)).as_posix()
        if shown.startswith("../"):
            problems.append(f"{name}: outside of {folder}, in which the patch is applied")
            continue
        lines = difflib.unified_diff(_lines_of(before), _lines_of(after), f"a/{shown}", f"b/{shown}")
        patch += "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
        files[path] = after
    return patch, files, problems
