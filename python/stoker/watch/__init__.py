"""Watches a PyTorch program and says what slows it: docs/watch.md.

From a shell: python -m stoker watch train.py. Around a part of a program:

    with stoker.watching(report="report.html"):
        train()
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["watching"]


@contextmanager
def watching(
    *, keep: str | Path | None = None, report: str | Path | None = None, json: str | Path | None = None
) -> Iterator[None]:
    """Watches the training steps of this thread within the block, then prints the verdict on stderr.

    keep: a folder for the records, for `stoker diagnose` later. report: an HTML page. json: the document of `stoker
    diagnose --json`. Within another watch this one does nothing but say so. Raises OSError if a folder cannot be
    made, ValueError for a report that does not end in .html or a json that does not end in .json. After the block
    nothing is raised: what goes wrong with the verdict is a line on stderr. Where the program `stoker` is not found,
    which gives the verdict, nothing is watched, and a line says so. Of several ranks on a host, each begins the same
    number of watches.
    """
    from stoker.watch.run import Watch

    paths = [None if path is None else Path(path) for path in (keep, report, json)]
    watch = Watch(*paths)
    watch.start()
    try:
        yield
    finally:
        watch.finish()


if TYPE_CHECKING:
    watch = watching


class _Callable(ModuleType):
    """`with stoker.watch():` is `with stoker.watching():`, because it is what people write first."""

    __call__ = staticmethod(watching)


sys.modules[__name__].__class__ = _Callable
