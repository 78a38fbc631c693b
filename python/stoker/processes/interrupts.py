"""Ctrl-C where it must not come between two lines: when processes begin and end, and when a file finds its owner."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def without_interrupts() -> Iterator[None]:
    """A Ctrl-C takes effect behind the block. Processes that are started here have it blocked, too.

    Blocking is not enough for ourselves, because another thread, such as one of OpenBLAS, takes the signal for us.
    """
    arrived = False

    def remember(number: int, frame: object) -> None:
        nonlocal arrived
        arrived = True

    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if main else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        if callable(handler):
            signal.signal(signal.SIGINT, remember)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        finally:  # the handler of another signal may raise: ours must not stay
            if callable(handler):
                signal.signal(signal.SIGINT, handler)
        if arrived:
            signal.raise_signal(signal.SIGINT)


def interrupt_soon() -> None:
    """Sends Ctrl-C to this process again, a moment later."""
    again = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
    with suppress(RuntimeError):  # no thread begins while the interpreter ends
        again.start()
