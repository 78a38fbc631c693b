"""The batches of indices that the program's own sampler gives, handed to several ways of loading in turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any


class Order:
    """One pass of a sampler. Batches that a way could not load come again."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self.user: Callable[[], Any] = lambda: None  # gives the way that the loop over this pass uses, until it ends
        self._batches = batches
        self._again: deque[Any] = deque()

    def take(self) -> Any:
        """The next batch's indices. Raises StopIteration at the end."""
        return self._again.popleft() if self._again else next(self._batches)

    def take_or_none(self) -> Any:
        """As `take`; None at the end."""
        try:
            return self.take()
        except StopIteration:
            return None

    def take_all(self) -> list[Any]:
        taken = [*self._again, *self._batches]
        self._again.clear()
        return taken

    def give_back(self, batches: list[Any]) -> None:
        """The next ones, in this order."""
        self._again.extendleft(reversed(batches))


class Gate:
    """Stands for a sampler, and for its iterator: gives batches of an order while it is open, and those of `wanted`."""

    def __init__(self, order: Order, is_open: bool = False) -> None:
        self.order = order
        self.is_open = is_open
        self.wanted: deque[Any] = deque()
        self.given: deque[Any] = deque()  # whose data was not taken yet

    def __iter__(self) -> Gate:
        return self

    def __next__(self) -> Any:
        if not self.wanted and not self.is_open:
            raise StopIteration
        batch = self.wanted.popleft() if self.wanted else self.order.take()
        self.given.append(batch)
        return batch
