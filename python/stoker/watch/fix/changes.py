"""The changes that findings ask for: of a DataLoader, or of an optimizer."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import Subset

from stoker._torchvision_data import ReadInCpp
from stoker.data_loader import CppBatches, CppSamples, useful_threads
from stoker.watch.fix.order import Order
from stoker.watch.fix.ways import Settings, Way, changed_way

_SLOW = ("no-workers", "few-workers", "decode-bound", "augment-bound", "slow-loader", "storage-bound", "input-bound")
_MORE = ("no-workers", "few-workers", "augment-bound", "slow-loader", "storage-bound", "many-workers")
_AHEAD = ("no-prefetch", "slow-loader")
_PREFETCH = 4
_MOST_WORKERS = 32
_MOST_SAMPLES = 200_000  # of a data set whose files are compared with those that C++ finds


@dataclass
class Prediction:
    low: float
    expected: float
    high: float


@dataclass
class LoaderChange:
    """Other keyword arguments of a DataLoader, or stoker.DataLoader in its place.

    settings: all that differ from the program's. new: those that differ from the ones that it runs with.
    """

    rule: str
    predicted: Prediction
    settings: Settings
    samples: CppSamples | None = None
    new: Settings = field(default_factory=dict)
    wait_share: float = 0.0

    @property
    def name(self) -> str:
        words = ", ".join(f"{name}={value}" for name, value in self.new.items())
        return "stoker.DataLoader" if self.samples is not None else f"DataLoader(..., {words})"

    @property
    def draws(self) -> bool:
        return self.samples is not None and self.samples.draws

    @property
    def tolerance(self) -> float:
        return 0.0 if self.samples is None else self.samples.level

    def predicted_with(self, step: float, batch: float) -> Prediction:
        """step: seconds of one until now. batch: seconds in which C++ loads one. Cores that the model leaves idle load
        beside it, so the gain lies between that of both at once and that of one after the other."""
        rest = 1 - self.wait_share
        low, high = 1 / (rest + batch / step), 1 / max(rest, batch / step)
        return Prediction(low, (low * high) ** 0.5, high)

    def way(self, loader: Any, order: Order) -> Way:
        """Closed."""
        if self.samples is None:
            return changed_way(loader, self.settings, order)
        return CppWay(self.samples, loader, order)


class CppWay:
    """Batches of C++, whose threads take the rest of a pass at once."""

    replays = False

    def __init__(self, samples: CppSamples, loader: Any, order: Order) -> None:
        self.inner = None
        self.workers = int(loader.num_workers) or useful_threads()
        self._samples = samples
        self._pins = bool(loader.pin_memory)
        self.order = order
        self._seed = 0
        self._dataset = loader.dataset
        self._transform = _shown_transform(loader.dataset)
        self._open: CppBatches | None = None
        self._fed: list[Any] = []

    @property
    def pending(self) -> int:
        return len(self._fed)

    def attach(self, order: Order) -> None:
        if _shown_transform(self._dataset) != self._transform:
            raise RuntimeError("the program has changed its transform")
        self.order = order
        self._open = None
        self._fed.clear()

    def open(self) -> None:
        self._open = self._batches(self.order.take_all())

    def close(self) -> None:
        """Batches that were not asked for go back: their pixels cost nothing but time."""
        if self._open is not None:
            self.order.give_back(list(self._open.left))
            self._open = None

    def feed(self, index: Any) -> None:
        self._fed.append(index)

    def next(self) -> Any:
        if self._fed:
            return self._batches([self._fed.pop(0)]).next()
        if self._open is None:
            raise StopIteration
        return self._open.next()

    def forget(self) -> list[Any]:
        self.close()
        self._fed.clear()
        return []

    def stop(self) -> None:
        self._open = None

    def _batches(self, batches: list[Any]) -> CppBatches:
        self._seed += 1
        return CppBatches(self._samples, batches, self.workers, self._pins, self._seed)


def _shown_transform(dataset: Any) -> str:
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return repr(getattr(dataset, "transform", None))


@dataclass
class OptimizerChange:
    """Another implementation of an optimizer's step."""

    rule: str
    predicted: Prediction
    kernel: str
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        self.settings = {self.kernel: True}

    @property
    def name(self) -> str:
        return f"optimizer(..., {self.kernel}=True)"


@dataclass
class ThreadsChange:
    """Another number of threads for torch's operations on the CPU."""

    rule: str
    predicted: Prediction
    threads: int

    @property
    def name(self) -> str:
        return f"torch.set_num_threads({self.threads})"


Change = LoaderChange | OptimizerChange | ThreadsChange


def changes_of(findings: list[dict[str, Any]], loader: Any, now: Settings, optimizer: Any) -> list[Change]:
    """Those that the findings ask for, the greatest expected gain first.

    loader, optimizer: None where not known. now: the settings with which the loader runs.
    """
    found: list[Change] = []
    samples: CppSamples | None = None
    if loader is not None and any(finding["rule"] in _SLOW for finding in findings) and _is_short(loader.dataset):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadInCpp)  # it may not be kept
            samples = CppSamples.of(loader)
    for finding in sorted(findings, key=lambda finding: -(finding["gain"] or {}).get("expected", 1)):
        rule, gain = finding["rule"], finding["gain"]
        if not gain:
            continue
        predicted = Prediction(gain["low"], gain["expected"], gain["high"])
        if loader is not None:
            found += _of_loader(rule, predicted, finding, now, samples)
        threads = re.search(r"torch\.set_num_threads\((\d+)\)", (finding["fix"] or {}).get("code") or "")
        if threads:
            found.append(ThreadsChange(rule, predicted, int(threads[1])))
        if rule == "single-tensor-optimizer" and optimizer is not None:
            found += [OptimizerChange(rule, predicted, kernel) for kernel in ("fused", "foreach")]
    # Busy cores keep workers from gaining, and the finding expects little. C++ needs less of the cores.
    return sorted(found, key=lambda change: not isinstance(change, LoaderChange) or change.samples is None)


def _of_loader(
    rule: str, predicted: Prediction, finding: dict[str, Any], now: Settings, samples: CppSamples | None
) -> list[Change]:
    changes: list[Change] = []
    if rule in _SLOW and samples is not None:
        share = finding["evidence"].get("wait_share", 0.0)
        changes.append(LoaderChange(rule, predicted, {}, samples, wait_share=share))
    if rule in _MORE:
        wanted = re.search(r"num_workers=(\d+)", (finding["fix"] or {}).get("code") or "")
        workers = int(wanted[1]) if wanted else useful_threads()
        if rule == "storage-bound":  # workers that sleep need no core
            workers = min(2 * max(1, now["num_workers"]), _MOST_WORKERS)
            predicted = _half_the_wait(finding, predicted)
        settings = {"num_workers": workers}
        if workers > 0 and now != {**now, **settings}:
            changes.append(LoaderChange(rule, predicted, {**now, **settings}, new=settings))
    if rule in _AHEAD and now["num_workers"] > 0 and now.get("prefetch_factor", 2) < _PREFETCH:
        settings = {"prefetch_factor": _PREFETCH}
        changes.append(LoaderChange(rule, predicted, {**now, **settings}, new=settings))
    return changes


def _half_the_wait(finding: dict[str, Any], predicted: Prediction) -> Prediction:
    """The finding's gain is that of faster storage."""
    expected = 1 / (1 - finding["evidence"]["wait_share"] / 2)
    return Prediction(1.0, expected, max(expected, predicted.high))


def _is_short(dataset: Any) -> bool:
    try:
        return len(dataset) <= _MOST_SAMPLES
    except Exception:  # the program's own code
        return False
