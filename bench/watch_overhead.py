# What `python -m stoker watch` costs a training loop, in steps of 1, 10 and 100 ms.
#
#     PYTHONPATH=python .venv/bin/python bench/watch_overhead.py [--rounds 40] [--busy]
#
# One process trains blocks of steps, watched and unwatched, in random pairs (AB or BA), and as a control in pairs of
# two unwatched blocks. Times are those of the whole block, taken outside of the watch. The median of the paired ratios
# is printed with its bootstrap interval: the cost is below 1 % if the upper end is. `--busy` also keeps all cores busy.
import argparse
import contextlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from stoker.watch.session import Session


class Loop:
    """A small training loop whose step takes about `ms`: layers are added until it does."""

    def __init__(self, ms):
        values = torch.randn(4096, 64)
        data = TensorDataset(values, torch.arange(4096) % 4)
        self.loader = DataLoader(data, sampler=BatchSampler(RandomSampler(data), 64, drop_last=True), batch_size=None)
        self.batches = iter(self.loader)
        self.width = 64 if ms < 5 else 256 if ms < 50 else 768
        for depth in range(1, 64):
            self.build(depth)
            self.train(3)
            if self.train(5) / 5 >= ms / 1e3:
                break
        self.steps = max(8, round(0.4 / (self.train(5) / 5)))

    def build(self, depth):
        layers = [layer for _ in range(depth) for layer in (nn.Linear(self.width, self.width), nn.ReLU())]
        self.model = nn.Sequential(nn.Linear(64, self.width), *layers, nn.Linear(self.width, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, fused=True)

    def train(self, steps):
        """Seconds of `steps` steps."""
        begin = time.perf_counter()
        for _ in range(steps):
            batch = next(self.batches, None)
            if batch is None:
                self.batches = iter(self.loader)
                batch = next(self.batches)
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(batch[0]), batch[1])
            loss.backward()
            self.optimizer.step()
        return time.perf_counter() - begin


def block(loop, watched):
    if not watched:
        return loop.train(loop.steps)
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder))
        session.start()
        loop.train(12)  # the counted steps of a run's start
        seconds = loop.train(loop.steps)
        session.stop()
    return seconds


def interval(ratios, rng):
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[-51]


def measure(loop, rounds, rng):
    pairs = {"watched": [], "control": []}
    for _ in range(rounds):
        for name, watched in (("watched", True), ("control", False)):
            order = rng.random() < 0.5
            first = block(loop, watched and order)
            second = block(loop, watched and not order)
            ratio = first / second if order else second / first
            pairs[name].append(100 * (ratio - 1))
    return pairs


@contextlib.contextmanager
def busy_cores(wanted):
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() if wanted else 0)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def main():
    parser = argparse.ArgumentParser(description="measures what `python -m stoker watch` costs")
    parser.add_argument("--rounds", type=int, default=40, help="pairs for each length of step (40)")
    parser.add_argument("--ms", type=float, nargs="*", default=[1, 10, 100], help="lengths of a step (1 10 100)")
    parser.add_argument("--busy", action="store_true", help="other processes keep all cores busy")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = random.Random(0)
    with busy_cores(options.busy):
        for ms in options.ms:
            loop = Loop(ms)
            for name, ratios in measure(loop, options.rounds, rng).items():
                low, high = interval(ratios, rng)
                print(f"step of {ms:g} ms, {name}: {statistics.median(ratios):+.2f} % [{low:+.2f}, {high:+.2f}]", flush=True)


if __name__ == "__main__":
    main()
