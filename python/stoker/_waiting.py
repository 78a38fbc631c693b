"""A hook with which a watch measures a program's waits for stoker.Loader's batches (stoker/watch/own_loader.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Calls the function, which takes the next batch of the loader, and returns its result. None: nobody watches.
around: Callable[[Any, Callable[[], Any]], Any] | None = None
