"""The global random generators of Python, NumPy and torch, seeded for each sample."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def loaded_generators() -> set[str]:
    """The libraries among them that are loaded."""
    return sys.modules.keys() & {"numpy", "torch"}


def seed_generators(seed: int) -> None:
    """Seeds `random`, and NumPy's and torch's global generators where these are loaded. `seed` is below 2^64."""
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed & 0xFFFFFFFF)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed the devices, which takes longer


@contextmanager
def kept_generators() -> Iterator[None]:
    """The caller's random numbers go on as if nothing had been drawn here."""
    python = random.getstate()
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    of_numpy = numpy.random.get_state() if numpy else None
    of_torch = torch.default_generator.get_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python)
        if numpy:
            numpy.random.set_state(of_numpy)
        if torch:
            torch.default_generator.set_state(of_torch)
