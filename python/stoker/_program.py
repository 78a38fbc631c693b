"""Finds the program `stoker`, which holds the rules, and says how to build the engine where it is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

TORCH = "2.11.0"  # whose LibTorch the engine is written for, as in requirements.txt
BUILD_ENGINE = "pip install . --config-settings=cmake.define.STOKER_ENGINE=ON"

# As in cli/engine_exec.cpp.
_ENGINE_COMMANDS = ("train", "eval", "predict", "export", "profile", "tune", "lr", "plan")
_ENGINE_BENCHES = ("ladder", "step", "techniques", "overhead")


def needs_engine(words: list[str]) -> bool:
    """Whether a command line is one of the engine's commands, or starts them in several processes."""
    if words[:1] == ["launch"] and "stoker" in words:
        return needs_engine(words[words.index("stoker") + 1 :])
    command, bench = (*words, "", "")[:2]
    return command in _ENGINE_COMMANDS or (command == "bench" and bench in _ENGINE_BENCHES)


def find_program(*, engine: bool = False) -> Path:
    """The program's path: the wheel's own, $STOKER_BIN, that of the source tree around this file, or the one of PATH.

    engine: the first that has LibTorch's part beside it.

    Raises FileNotFoundError with the places that were searched, for a $STOKER_BIN that cannot be run, or with what
    builds the engine.
    """
    package = Path(__file__).resolve().parent
    given = os.environ.get("STOKER_BIN", "")
    named = shutil.which(given) if given else None
    if given and named is None and not _can_run(package / "bin" / "stoker"):
        raise FileNotFoundError(f"stoker: expected STOKER_BIN to name a program, got {given}, which cannot be run")
    on_path = shutil.which("stoker")
    places = [
        package / "bin" / "stoker",
        *([Path(named)] if named else []),
        package.parents[1] / "build" / "release" / "bin" / "stoker",
        *([Path(on_path)] if on_path and not _is_script(on_path) else []),
    ]
    found = [place for place in places if _can_run(place)]
    if not found:
        searched = ", ".join(str(place) for place in places)
        raise FileNotFoundError(f"stoker: the program was not found (searched: {searched}, PATH); set STOKER_BIN")
    if engine:
        found = [place for place in found if _has_engine(place)]
        if not found:
            raise FileNotFoundError(_how_to_build())
    return found[0]


def _can_run(place: Path) -> bool:
    return place.is_file() and os.access(place, os.X_OK)


def _is_script(path: str) -> bool:
    """The command `stoker` that pip makes for this package starts the program that is sought here."""
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def _has_engine(program: Path) -> bool:
    folder = program.resolve().parent
    return any((place / "stoker-engine").is_file() for place in (folder, folder.parent / "libexec" / "stoker"))


def _how_to_build() -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "none"
    fits = torch.partition("+")[0] == TORCH
    first = "" if fits else f"it fits torch {TORCH}, here is {torch}: `pip install torch=={TORCH}`, and then "
    return (
        "stoker: expected the engine, the part of Stoker that needs LibTorch, found none beside the program; "
        f"{first}`{BUILD_ENGINE}` in Stoker's folder builds it; or set STOKER_BIN to a program that has one"
    )
