"""Finds the program `stoker`, which holds the rules, its engine, and the LibTorch that this environment has."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

INSTALL_ENGINE = "pip install stoker-engine"
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
    beside = any((place / "stoker-engine").is_file() for place in (folder, folder.parent / "libexec" / "stoker"))
    return beside or any(_engine_wheel(program).glob("torch-*/stoker-engine"))


def _engine_wheel(program: Path) -> Path:
    return program.resolve().parent.parent.parent / "stoker_engine"


def name_torch(program: Path) -> None:
    """Names this environment's torch to a program whose engine is another wheel, which chooses by its release."""
    from importlib.util import find_spec

    if "STOKER_TORCH" not in os.environ and _engine_wheel(program).is_dir():
        spec = find_spec("torch")
        if spec is not None and spec.origin is not None:
            os.environ["STOKER_TORCH"] = str(Path(spec.origin).parent)


def name_pyarrow() -> None:
    """Names this environment's pyarrow, whose libraries read Parquet and Arrow files."""
    from importlib.util import find_spec

    if "STOKER_PYARROW" not in os.environ:
        spec = find_spec("pyarrow")
        if spec is not None and spec.origin is not None:
            os.environ["STOKER_PYARROW"] = str(Path(spec.origin).parent)


def _how_to_build() -> str:
    return (
        "stoker: expected the engine, the part of Stoker that needs LibTorch, found none beside the program; "
        f"`{INSTALL_ENGINE}` installs it, `{BUILD_ENGINE}` in Stoker's folder builds it for this environment's torch; or "
        "set STOKER_BIN to a program that has one"
    )
