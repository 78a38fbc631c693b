"""Steps as lines of JSON. Until an interval ends they are numbers in one list, which costs no object in a step, and then
they are formatted together, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from stoker.watch.account import PHASES, Times

SCHEMA = 1

_COUNTS = ("epoch", "samples", "ready", "copy_bytes")
_WIDTH = len(_COUNTS) + len(PHASES)


class StepLines:
    def __init__(self, rank: int) -> None:
        self._rank = rank
        # For each step: epoch, samples, ready, bytes copied, then nanoseconds by phase. None: the record has no such key;
        # nor has it phases that took no time.
        self.numbers: list[int | None] = []

    def take(self, last: int) -> tuple[list[str], Times]:
        """The lines of the steps since the last call, up to number `last`, and their time by phase."""
        columns: list[Any] = [self.numbers[column::_WIDTH] for column in range(_WIDTH)]
        self.numbers.clear()
        times = [sum(column) for column in columns[len(_COUNTS) :]]
        columns[len(_COUNTS) :] = map(_microseconds, columns[len(_COUNTS) :])
        before = last - len(columns[0])
        lines: list[str] = []
        for keys, begin, end in _runs(columns):
            used = [column[begin:end] for column, wanted in zip(columns, keys) if wanted]
            lines += map(_template(self._rank, keys).__mod__, zip(range(before + begin + 1, before + end + 1), *used))
        return lines, times


def _microseconds(column: list[int]) -> list[int | None]:
    """Rounded; None for no time."""
    if not any(column):
        return [None] * len(column)
    return [(time + 500) // 1000 if time else None for time in column]


def _runs(columns: list[list[Any]]) -> Iterator[tuple[tuple[bool, ...], int, int]]:
    """Ranges of steps that follow each other and have the same keys: mostly all of them."""
    size = len(columns[0])
    missing = [column.count(None) for column in columns]
    if size > 0 and all(count in (0, size) for count in missing):
        yield tuple(count == 0 for count in missing), 0, size
        return
    begin = 0
    for keys, run in groupby(zip(*(map(_is_there, column) for column in columns))):
        end = begin + len(list(run))
        yield keys, begin, end
        begin = end


def _is_there(value: Any) -> bool:
    return value is not None


def _template(rank: int, keys: tuple[bool, ...]) -> str:
    fields = [f'"{name}":%d' for name, used in zip((*_COUNTS, *PHASES), keys) if used]
    counts = sum(keys[: len(_COUNTS)])
    head = ",".join(fields[:counts])
    return f'{{"type":"step","schema":{SCHEMA},"rank":{rank},"step":%d,{head},"us":{{{",".join(fields[counts:])}}}}}\n'
