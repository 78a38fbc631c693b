"""Ctrl-C where it must not come between two lines: when processes begin and end, and when a file finds its owner."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress

from stoker._stoker import HeldInterrupts

__all__ = ["HeldInterrupts", "interrupt_soon"]


def interrupt_soon() -> None:
    """Sends Ctrl-C to this process again, a moment later."""
    again = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
    with suppress(RuntimeError):  # no thread begins while the interpreter ends
        again.start()
