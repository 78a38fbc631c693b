"""Checks of arguments."""

import operator
from typing import Any

from stoker.errors import InvalidArgument


def whole(name: str, value: Any, least: int, bits: int = 31) -> int:
    """The value as an int in [least, 2^bits)."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= operator.index(value) < 1 << bits:
        raise InvalidArgument(f"[{name}] expected an integer of at least {least} and below 2^{bits}, got {value!r}")
    return operator.index(value)


def printable(text: str) -> str:
    """Without control characters and bytes that are not Unicode, as names of files may have them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_of(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    if value not in choices:
        raise InvalidArgument(f"[{name}] expected one of {', '.join(map(str, choices))}, got {value!r}")
    return value
