"""The table of a loader's settings, which recipes and stoker.Loader share (src/stoker/recipe/loader_settings.cpp)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from stoker import _stoker


class Argument(NamedTuple):
    """A row, as an argument of stoker.Loader. `generate_settings.py` writes the signature and the docs of these."""

    name: str
    type: str
    default: str
    about: str
    of: str  # the loaders that take it: "all", "opened", "engine" (no ops in Python) or "python"


ARGUMENTS = [Argument(**row) for _, row in _stoker.settings() if row is not None]


def those_of(given: Mapping[str, Any], *kinds: str) -> dict[str, Any]:
    """The arguments whose `of` is one of these."""
    return {argument.name: given[argument.name] for argument in ARGUMENTS if argument.of in kinds}
