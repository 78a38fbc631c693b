"""The random generators that samples draw from, seeded for each sample: the global ones of Python, NumPy and torch, and
those of objects in the data set that can be seeded, as albumentations' transforms.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_DEEPEST = 6  # a data set within two others, with a list of transforms within one of transforms
_WIDEST = 64  # entries of a list or dict that are looked at: more are samples

def loaded_generators() -> set[str]:
    """The libraries among them that are loaded."""
    return sys.modules.keys() & {"numpy", "torch"}


def seedable(dataset: Any) -> list[Any]:
    """The objects among the data set's attributes, and theirs, with a method `set_random_seed(seed)`."""
    found: list[Any] = []
    seen: set[int] = set()

    def look(value: Any, depth: int) -> None:
        if depth > _DEEPEST or id(value) in seen or isinstance(value, type):
            return
        seen.add(id(value))
        if callable(getattr(type(value), "set_random_seed", None)):
            found.append(value)  # and it seeds what it holds
            return
        if isinstance(value, (list, tuple)):
            inner = value
        else:
            inner = list((value if isinstance(value, dict) else getattr(value, "__dict__", {})).values())
        for entry in inner if len(inner) <= _WIDEST else ():
            look(entry, depth + 1)

    look(dataset, 0)
    return found


def seed_generators(seed: int, objects: Iterable[Any] = ()) -> None:
    """Seeds `random`, NumPy's and torch's global generators where these are loaded, and `objects` (seedable). `seed` is
    below 2^64.
    """
    random.seed(seed)
    for number, each in enumerate(objects):  # two of them draw different numbers, as for two views of an image
        each.set_random_seed((seed + 0x9E3779B9 * number) & 0xFFFFFFFF)
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
