"""The gain of a change, of turns of steps with it and without it: A B A B, and a bootstrap interval of their ratios."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

_PAIRS, _MOST_PAIRS = 3, 12
_FEW_PAIRS = 5  # before which only a great gain is clear enough to stop
_GREAT = 1.1
_HOPELESS = 0.9  # of the speed, in the first two pairs
_WORTH = 1.02  # the smallest gain that is kept
_RESAMPLES = 2000
# Quantiles at 99 %, of the normal distribution and of Student's t distribution for 2 to 11 degrees of freedom. The trial
# is looked at after each pair, so that an interval of 95 % would keep 7 % of the changes that gain nothing.
_NORMAL = 2.326
_T = (6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718)


@dataclass
class Gain:
    """How many times as fast steps are with the change."""

    low: float
    measured: float
    high: float

    @property
    def is_clear(self) -> bool:
        return self.low > 1 and self.measured >= _WORTH


@dataclass
class Trial:
    """Nanoseconds of a mean step, of pairs of turns."""

    without: list[float] = field(default_factory=list)
    within: list[float] = field(default_factory=list)

    def add(self, without: float, within: float) -> None:
        self.without.append(without)
        self.within.append(within)

    @property
    def is_over(self) -> bool:
        pairs = len(self.within)
        if pairs == 2 and all(ratio < math.log(_HOPELESS) for ratio in self._ratios()):
            return True
        if pairs < _PAIRS:
            return False
        gain = self.gain()
        if pairs < _FEW_PAIRS:
            return gain.low > _GREAT
        return gain.is_clear or gain.high < 1 or pairs >= _MOST_PAIRS

    def gain(self) -> Gain:
        """The geometric mean of the pairs' ratios. The bootstrap's interval is widened as Student's t distribution is
        for so few pairs, and by n / (n - 1) of the variance."""
        ratios = self._ratios()
        pairs = len(ratios)
        mean = sum(ratios) / pairs
        generator = random.Random(0)
        means = sorted(sum(generator.choices(ratios, k=pairs)) / pairs for _ in range(_RESAMPLES))
        low, high = means[int(0.01 * _RESAMPLES)], means[int(0.99 * _RESAMPLES) - 1]
        wider = math.sqrt(pairs / max(1, pairs - 1)) * _T[min(max(0, pairs - _PAIRS), len(_T) - 1)] / _NORMAL
        return Gain(*(math.exp(mean + wider * (edge - mean)) for edge in (low, mean, high)))

    def _ratios(self) -> list[float]:
        return [math.log(before / after) for before, after in zip(self.without, self.within)]
