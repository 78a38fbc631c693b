"""Writes what follows from the table of settings (src/stoker/recipe/schema*.cpp): the signature and the docstring of
stoker.Loader, the type of its settings in the stub, and the rows of docs/recipe.md.

    PYTHONPATH=build/release/python .venv/bin/python docs/site/settings.py
"""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_NO_BREAK = "\0"  # a blank at which no line ends


class Row(NamedTuple):
    """Of `_stoker.settings()`: a key of recipes, and its argument of stoker.Loader, if it has one."""

    key: str
    allowed: str
    default: str
    about: str
    type: str
    python_default: str
    python_about: str
    name: str  # empty: no argument
    of: str


def generated(rows: list[Row]) -> dict[str, str]:
    """The text of each file that has a part of the table."""
    arguments = sorted((row for row in rows if row.name), key=lambda row: row.name != "batch_size")
    signature = [f"{row.name}: {row.type} = {row.python_default},".replace(" ", _NO_BREAK) for row in arguments]
    texts = (_wrapped(f"{row.name}: {row.python_about.removesuffix('.')}.", 8) for row in arguments)
    signature.insert(1, "*,")
    types = ", ".join(f'"{row.name}": {row.type}'.replace(" ", _NO_BREAK) for row in arguments)
    loader = (ROOT / "python/stoker/loader.py").read_text()
    loader = _between(loader, "    Settings, which recipes also have:\n", "\n    Others:\n", "".join(texts))
    loader = _between(loader, "        source: Any,\n", "        # others\n", _wrapped(" ".join(signature), 8, 8))
    stub = (ROOT / "python/stoker/_stoker.pyi").read_text()
    stub = _between(stub, "Settings = TypedDict(\n", ")\n", _wrapped(f'"Settings", {{{types}}}, total=False', 4))
    return {
        "python/stoker/loader.py": loader,
        "python/stoker/_stoker.pyi": stub,
        "docs/recipe.md": _reference((ROOT / "docs/recipe.md").read_text(), rows),
    }


def _wrapped(text: str, indent: int, first: int = 4) -> str:
    """Lines of at most 120 characters."""
    lines = textwrap.fill(text, 120, initial_indent=" " * first, subsequent_indent=" " * indent)
    return lines.replace(_NO_BREAK, " ") + "\n"


def _between(text: str, begin: str, end: str, part: str) -> str:
    head, rest = text.split(begin, 1)
    return head + begin + part + end + rest.split(end, 1)[1]


def _reference(text: str, rows: list[Row]) -> str:
    """The page with these rows in its tables; a new one follows the one before it."""
    defaults = [row.default if row.default == "required" else f"`{row.default}`" for row in rows]
    new = [f"| `{row.key}` | {row.allowed} | {text} | {row.about} |" for row, text in zip(rows, defaults)]
    for row, line, before in zip(rows, new, ["", *new]):
        old = re.search(rf"^\| `{re.escape(row.key)}` \|.*", text, re.MULTILINE)
        text = text.replace(old[0], line) if old else text.replace(before, f"{before}\n{line}")
    return "".join(line for line in text.splitlines(True) if not line.startswith("| `") or line.rstrip("\n") in new)


if __name__ == "__main__":
    from stoker import _stoker

    for file, text in generated([Row(*row) for row in _stoker.settings()]).items():
        (ROOT / file).write_text(text)
