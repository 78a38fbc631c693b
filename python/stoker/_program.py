"""Finds the program `stoker`, which holds the rules."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_program(*, engine: bool = False) -> Path:
    """The program's path: the wheel's own, $STOKER_BIN, that of the source tree around this file, or the one of PATH.

    engine: one with LibTorch's part beside it, if there is one. The wheel's own has none.

    Raises FileNotFoundError with the places that were searched.
    """
    package = Path(__file__).resolve().parent
    named = os.environ.get("STOKER_BIN", "")
    on_path = shutil.which("stoker")
    places = [
        package / "bin" / "stoker",
        *([Path(named)] if named else []),
        package.parents[1] / "build" / "release" / "bin" / "stoker",
        *([Path(on_path)] if on_path else []),
    ]
    found = [place for place in places if place.is_file() and os.access(place, os.X_OK)]
    if engine:
        found.sort(key=lambda place: not (place.resolve().parent / "stoker-engine").is_file())
    if found:
        return found[0]
    searched = ", ".join(str(place) for place in places)
    raise FileNotFoundError(f"stoker: the program was not found (searched: {searched}, PATH); set STOKER_BIN")
