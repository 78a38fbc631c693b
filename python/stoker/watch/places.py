"""Source lines of the watched program: "train.py:41". Lines of PyTorch and of Python's own library are skipped.

Where an installed package, or PyTorch's GradScaler, has called PyTorch, its line is named, too:
"train.py:90, within lightning/loops/fit.py:123".
"""

from __future__ import annotations

import os
import sysconfig
from functools import lru_cache
from types import FrameType

import torch

_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))  # of any environment
_SCALER = os.path.join(os.path.dirname(torch.__file__), "amp", "grad_scaler.py")  # waits itself in each step
_NEVER = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep, "<")

Line = tuple[str, int]

_OTHERS, _INSTALLED, _OWN = range(3)


@lru_cache(maxsize=None)
def _kind(file: str) -> int:
    if file == _SCALER:
        return _INSTALLED
    if file.startswith(_NEVER):
        return _OTHERS
    if any(folder in file for folder in _PACKAGES):
        return _INSTALLED
    return _OTHERS if file.startswith(_LIBRARY) else _OWN


def is_own(file: str) -> bool:
    """Whether a file belongs to the program, and not to an installed package."""
    return _kind(file) == _OWN


@lru_cache(maxsize=None)
def short_name(file: str) -> str:
    """A path for the reader: from the package's name on where it is installed, relative to the working folder where it
    lies below it, else its last two parts."""
    for folder in _PACKAGES:
        if folder in file:
            return file.rpartition(folder)[2]
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):
        relative = file
    if not relative.startswith(os.pardir):
        return relative
    return os.path.join(*file.split(os.sep)[-2:])


def find_frames(frame: FrameType | None) -> tuple[FrameType | None, FrameType | None]:
    """The innermost frame of the program, and the innermost one of an installed package if that was called by it."""
    package: FrameType | None = None
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind == _OWN:
            return frame, package
        if kind == _INSTALLED and package is None:
            package = frame
        frame = frame.f_back
    return None, package


def find_line(frame: FrameType | None) -> Line | None:
    """File and line of the innermost frame of the program, or of an installed package if none is the program's."""
    own, package = find_frames(frame)
    found = own or package
    return None if found is None else (found.f_code.co_filename, found.f_lineno)


def place_name(line: Line) -> str:
    return f"{short_name(line[0])}:{line[1]}"


def place_of(own: FrameType | None, package: FrameType | None) -> str:
    """The place that `find_frames` has found; empty if it found none."""
    inner = package or own
    if inner is None:
        return ""
    place = place_name((inner.f_code.co_filename, inner.f_lineno))
    if inner.f_code.co_filename == _SCALER and inner.f_code.co_name.isidentifier():
        place += f" ({inner.f_code.co_name})"  # get_scale is the program's wish
    if own is None or own is inner:
        return place
    return f"{place_name((own.f_code.co_filename, own.f_lineno))}, within {place}"
