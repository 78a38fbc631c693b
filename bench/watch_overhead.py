# What `python -m stoker watch` costs a training loop, in steps of 1, 10 and 100 ms.
#
#     PYTHONPATH=python .venv/bin/python bench/watch_overhead.py [--rounds 100] [--busy]
#
# Four processes train the same model: one is watched, three are not. They take turns in random order, a block of steps
# each, while the others wait; so all see the same machine. A ratio is that of two neighbouring blocks, of wall time or,
# with --cpu, of the thread's CPU time (for machines that others use, too). Printed are the median of the ratios and its
# bootstrap interval, and as a control the same of two processes that are not watched. The cost is below 1 % if the
# upper end is. glibc's heap shrinks and grows within a step or not, depending on what lies at its end, and that alone
# changes a step by a quarter; so all processes keep their memory. --busy keeps all cores busy meanwhile.
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

BLOCK = 0.1  # seconds
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
        self.batches = iter(self.loader)
        layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
        self.model = nn.Sequential(nn.Linear(64, width), *layers, nn.Linear(width, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, fused=True)
        self.loss = nn.functional.cross_entropy

    def train(self, steps, clock=time.perf_counter):
        """Seconds of `steps` steps."""
        begin = clock()
        for _ in range(steps):
            batch = next(self.batches, None)
            if batch is None:
                self.batches = iter(self.loader)
                batch = next(self.batches)
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


def child(width, depth, watched, cpu):
    """Trains as many steps as a line on stdin says, and answers with the seconds."""
    clock = time.thread_time if cpu else time.perf_counter
    loop = Loop(width, depth)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if watched:
            from stoker.watch.session import Session

            session = Session(Path(folder))
            session.start()
            stack.callback(session.stop)
        loop.train(20)
        print("ready", flush=True)
        for line in sys.stdin:
            print(loop.train(int(line), clock), flush=True)


class Child:
    def __init__(self, width, depth, watched, cpu):
        words = [sys.executable, __file__, "--child", str(width), str(depth), str(int(watched)), str(int(cpu))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.process = subprocess.Popen(words, env={**os.environ, **KEEP_MEMORY}, **pipes)
        assert self.process.stdout.readline() == "ready\n"

    def train(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def interval(ratios, rng):
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[-51]


def ratio_of(first, second, steps, rng):
    """Of the time of `first` to that of `second`, in per cent beyond 1."""
    turns = [first, second]
    rng.shuffle(turns)
    seconds = {turn: turn.train(steps) for turn in turns}
    return 100 * (seconds[first] / seconds[second] - 1)


def measure(ms, options, rng):
    width = WIDTHS[ms]
    depth = depth_for(ms, width)
    children = [Child(width, depth, watched, options.cpu) for watched in (True, False, False, False)]
    steps = max(1, round(BLOCK / (ms / 1e3)))
    watched, control = [], []
    for _ in range(options.rounds):
        watched.append(ratio_of(children[0], children[1], steps, rng))
        control.append(ratio_of(children[2], children[3], steps, rng))
    for process in children:
        process.end()
    return watched, control


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
    parser.add_argument("--rounds", type=int, default=100, help="pairs of blocks for each length of step (100)")
    parser.add_argument("--ms", type=int, nargs="*", default=list(WIDTHS), choices=WIDTHS, help="lengths of a step")
    parser.add_argument("--busy", action="store_true", help="other processes keep all cores busy")
    parser.add_argument("--cpu", action="store_true", help="CPU time of the training thread instead of wall time")
    options = parser.parse_args()
    rng = random.Random(0)
    with busy_cores(options.busy):
        for ms in options.ms:
            for name, ratios in zip(("watched", "control"), measure(ms, options, rng)):
                low, high = interval(ratios, rng)
                print(f"step of {ms} ms, {name}: {statistics.median(ratios):+.2f} % [{low:+.2f}, {high:+.2f}]", flush=True)


if __name__ == "__main__":
    main()
