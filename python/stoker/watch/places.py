"""Source lines of the watched program: "train.py:41". Lines of PyTorch and of Python's own library are skipped."""

from __future__ import annotations

import os
import sysconfig
from functools import lru_cache
from types import FrameType

import torch

_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})
_NEVER = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep, "<")

_OTHERS, _INSTALLED, _OWN = range(3)


@lru_cache(maxsize=None)
def _kind(file: str) -> int:
    if file.startswith(_NEVER):
        return _OTHERS
    if file.startswith(_PACKAGES):
        return _INSTALLED
    return _OTHERS if file.startswith(_LIBRARY) else _OWN


def is_own(file: str) -> bool:
    """Whether a file belongs to the program, and not to an installed package."""
    return _kind(file) == _OWN


@lru_cache(maxsize=None)
def short_name(file: str) -> str:
    """A path for the reader: relative to the working folder where it lies below it, else its last two parts."""
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):
        relative = file
    if not relative.startswith(os.pardir):
        return relative
    return os.path.join(*file.split(os.sep)[-2:])


def find_line(frame: FrameType | None) -> tuple[str, int] | None:
    """File and line of the innermost frame of the program, or of an installed package if none is the program's."""
    installed: FrameType | None = None
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind == _OWN:
            return frame.f_code.co_filename, frame.f_lineno
        if kind == _INSTALLED and installed is None:
            installed = frame
        frame = frame.f_back
    return None if installed is None else (installed.f_code.co_filename, installed.f_lineno)


def place_name(line: tuple[str, int] | None) -> str:
    return "unknown" if line is None else f"{short_name(line[0])}:{line[1]}"
