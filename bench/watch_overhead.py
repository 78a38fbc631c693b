# What `python -m stoker watch` costs a training loop, in steps of 1, 10 and 100 ms.
#
#     PYTHONPATH=build/release/python .venv/bin/python bench/watch_overhead.py [--rounds 10] [--processes 4] [--busy]
#
# A process trains one model in blocks of a second. Blocks that are watched and blocks that are not take turns in random
# order, so both have the same memory and the same machine, and the same work is between them: steps that are not timed,
# in which a watch counts lines and operations, and a garbage collection. In a second a watch closes two intervals, as
# it does in a long run. A ratio is that of two neighbouring blocks, of wall time or, with --cpu, of the process's CPU
# time (for shared machines). Printed are the median of the ratios and its bootstrap interval, and as a control the same
# of two blocks that are not watched. The cost is below 1 % if the upper end is. After ten seconds a watch samples lines
# less often; --early measures the time before. glibc's heap shrinks and grows within a step or not, depending on the
# block at its end, and that alone changes a step by a quarter; so processes keep their memory. --busy keeps all cores
# busy meanwhile.
import argparse
import contextlib
import gc
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCK = 1.0  # seconds
UNTIMED = 12  # steps at the beginning of a block
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "4000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TOP_PAD_": "64000000"}
WIDTHS = {1: 64, 10: 256, 100: 768}


class Loop:
    """A training loop; its step takes longer with more layers."""

    def __init__(self, width, depth):
        import torch
        from torch import nn
        from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

        torch.set_num_threads(1)
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(4096, 64), torch.arange(4096) % 4)
        self.loader = DataLoader(data, sampler=BatchSampler(RandomSampler(data), 64, drop_last=True), batch_size=None)
        layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
        self.model = nn.Sequential(nn.Linear(64, width), *layers, nn.Linear(width, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, fused=True)
        self.loss = nn.functional.cross_entropy

    def train(self, steps, clock=time.perf_counter):
        """Seconds of `steps` steps, from the beginning of an epoch."""
        begin = clock()
        batches = iter(self.loader)
        for _ in range(steps):
            batch = next(batches, None)
            if batch is None:
                batches = iter(self.loader)
                batch = next(batches)
            self.optimizer.zero_grad()
            self.loss(self.model(batch[0]), batch[1]).backward()
            self.optimizer.step()
        return clock() - begin


def depth_for(ms, width):
    for depth in range(1, 200):
        loop = Loop(width, depth)
        loop.train(3)
        if min(loop.train(5) / 5 for _ in range(3)) >= ms / 1e3:
            break
    return depth


def block(loop, steps, watched, clock):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if watched:
            from stoker.watch.session import Session

            session = Session(Path(folder))
            session.start()
            stack.callback(session.stop)
        loop.train(UNTIMED)
        gc.collect()
        return loop.train(steps, clock)


def ratio_of(loop, steps, first, second, clock, rng):
    """The ratio of a block's time to another's, in per cent beyond 1. first, second: whether they are watched."""
    turns = [0, 1]
    rng.shuffle(turns)
    seconds = {turn: block(loop, steps, (first, second)[turn], clock) for turn in turns}
    return 100 * (seconds[0] / seconds[1] - 1)


def child(ms, depth, rounds, seed, cpu, early):
    """Prints the ratios, a line each."""
    if not early:
        from stoker.watch import lines

        lines.EARLY_SECONDS = 0.0
    clock = time.process_time if cpu else time.perf_counter
    rng = random.Random(seed)
    loop = Loop(WIDTHS[ms], depth)
    steps = max(1, round(BLOCK / (ms / 1e3)))
    block(loop, steps, True, clock)  # loads what a watch needs
    for _ in range(rounds):
        print("watched", ratio_of(loop, steps, True, False, clock, rng), flush=True)
        print("control", ratio_of(loop, steps, False, False, clock, rng), flush=True)


def measure(ms, options):
    depth = depth_for(ms, WIDTHS[ms])
    ratios = {"watched": [], "control": []}
    for seed in range(options.processes):
        words = [ms, depth, options.rounds, seed, int(options.cpu), int(options.early)]
        command = [sys.executable, __file__, "--child", *map(str, words)]
        done = subprocess.run(command, env={**os.environ, **KEEP_MEMORY}, stdout=subprocess.PIPE, text=True, check=True)
        for line in done.stdout.splitlines():
            name, ratio = line.split()
            ratios[name].append(float(ratio))
    return ratios


def interval(ratios, rng):
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[-51]


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
    if sys.argv[1:2] == ["--child"]:
        return child(*map(int, sys.argv[2:]))
    parser = argparse.ArgumentParser(description="measures what `python -m stoker watch` costs")
    parser.add_argument("--rounds", type=int, default=10, help="pairs of blocks of each process (10)")
    parser.add_argument("--processes", type=int, default=4, help="for each length of step (4)")
    parser.add_argument("--ms", type=int, nargs="*", default=list(WIDTHS), choices=WIDTHS, help="lengths of a step")
    parser.add_argument("--busy", action="store_true", help="other processes keep all cores busy")
    parser.add_argument("--cpu", action="store_true", help="CPU time of the process instead of wall time")
    parser.add_argument("--early", action="store_true", help="as in the first ten seconds of a run")
    options = parser.parse_args()
    rng = random.Random(0)
    with busy_cores(options.busy):
        for ms in options.ms:
            for name, ratios in measure(ms, options).items():
                low, high = interval(ratios, rng)
                print(f"step of {ms} ms, {name}: {statistics.median(ratios):+.2f} % [{low:+.2f}, {high:+.2f}]", flush=True)


if __name__ == "__main__":
    main()
