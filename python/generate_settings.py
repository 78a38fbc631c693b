"""Writes what follows from the table of settings (src/stoker/recipe/loader_settings.cpp): the signature and docstring of
stoker.Loader, and the tables of docs/recipe.md and docs/python.md. Run it with the built package on PYTHONPATH."""

import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from stoker import _stoker

ROOT = Path(__file__).resolve().parent.parent
Key = tuple[str, str, str, str]  # name, allowed values, default, meaning
Argument = dict[str, str]


def signature(arguments: list[Argument]) -> list[str]:
    first, *others = [f"        {row['name']}: {row['type']} = {row['default']}," for row in arguments]
    return [first, "        *,", *others]


def docstring(arguments: list[Argument]) -> list[str]:
    wrapper = textwrap.TextWrapper(120, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)
    entries = [f"{row['name']}: {row['about'] if row['about'].endswith('.') else row['about'] + '.'}" for row in arguments]
    return [line for entry in entries for line in wrapper.wrap(entry)]


def python_rows(arguments: list[Argument]) -> list[str]:
    def plain(type_: str) -> str:
        choices = re.sub(r"Literal\[(.*?)\]", lambda found: found[1].replace(", ", " | "), type_)
        return choices.replace(" | ", " or ")

    return [f"| `{row['name']}` | {plain(row['type'])} | `{row['default']}` | {row['about']} |" for row in arguments]


def recipe_rows(keys: list[Key], first: str) -> list[str]:
    """The rows of a table, which begins with the key `first`."""

    def table(name: str) -> str:
        return name.partition(".")[0] if "." in name else ""

    return [f"| `{key[0]}` | {' | '.join(key[1:])} |" for key in keys if table(key[0]) == table(first)]


def with_rows(text: str, header: str, rows: Callable[[str], list[str]]) -> str:
    """`text` with other rows in each Markdown table that has this header. `rows` gets the name in the first row."""
    table = re.compile(rf"^({re.escape(header)}\n[-|]+\n)\| `([^`]*)`(?:.*\n)(?:\|.*\n)*", re.MULTILINE)
    return table.sub(lambda found: found[1] + "".join(f"{row}\n" for row in rows(found[2])), text)


def between(text: str, begin: str, end: str, lines: list[str]) -> str:
    """`text` with other lines from `begin` to the `end` after it."""
    before, _, rest = text.partition(begin)
    return before + begin + "\n".join(lines) + "\n" + rest[rest.index(end) :]


def generated(rows: list[tuple[Key | None, Argument | None]]) -> Iterator[tuple[str, str]]:
    """Each file and its text, as it follows from the rows of _stoker.settings()."""
    keys = [key for key, _ in rows if key is not None]
    arguments = [row for _, row in rows if row is not None]
    arguments.sort(key=lambda row: row["name"] != "batch_size")  # the first one: it needs no name
    file = "python/stoker/loader.py"
    text = (ROOT / file).read_text()
    text = between(text, "        a Python data set, or a stream.\n", "\n    Raises", docstring(arguments))
    yield file, between(text, "        source: Any,\n", "    ) -> None:", signature(arguments))
    file = "docs/recipe.md"
    header = "| key | value | default | meaning |"
    yield file, with_rows((ROOT / file).read_text(), header, lambda first: recipe_rows(keys, first))
    file = "docs/python.md"
    header = "| argument | type | default | meaning |"
    yield file, with_rows((ROOT / file).read_text(), header, lambda _: python_rows(arguments))


if __name__ == "__main__":
    for file, text in list(generated(_stoker.settings())):
        (ROOT / file).write_text(text)
