# The microseconds that the hooks of `python -m stoker watch` add to each part of a training step.
#
#     PYTHONPATH=build/release/python taskset -c 1 .venv/bin/python bench/watch_hooks.py [--turns 150] [--depth 6]
#
# bench/watch_overhead.py has the whole cost, which a busy machine hides: other processes take the core for longer than
# a hook. Here one process puts its hooks in and takes them out again every 70 steps, in random order, and compares
# medians of steps within a tenth of a second. A watch's work twice a second, and its thread, is left out.
import argparse
import gc
import random
import statistics
import tempfile
import time
from pathlib import Path

import torch.optim.optimizer as optimizers
from watch_overhead import WIDTHS, Loop

PARTS = ("next", "zero_grad", "forward", "loss", "backward", "step")
BEFORE, TIMED = 40, 30  # steps of a turn; the interpreter adapts to the first ones


def start_watch():
    from stoker.watch import lines
    from stoker.watch.session import Session

    lines.LineSampler.start = lines.LineSampler.stop = lambda self: None
    session = Session(Path(tempfile.mkdtemp()))
    session.start()
    return session


class Hooks:
    """The hooks of a watch after its first steps, to be put in and taken out."""

    def __init__(self, session):
        replaced = session._hooks._state.patches._replaced
        self._places = [place for place in replaced if vars(place[0]).get(place[1]) is place[2]]
        self._tables = optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks
        self._of_tables = [dict(table) for table in self._tables]

    def put(self, there):
        for owner, name, ours, before, own in self._places:
            if there:
                setattr(owner, name, ours)
            elif own:
                setattr(owner, name, before)
            elif name in vars(owner):
                delattr(owner, name)
        for table, hooks in zip(self._tables, self._of_tables):
            table.clear()
            table.update(hooks if there else {})


class TimedLoop(Loop):
    def steps(self, count):
        """Nanoseconds of each part, for each step but the first of an epoch."""
        clock, times = time.perf_counter_ns, []
        batches = iter(self.loader)
        while len(times) < count:
            marks = [clock()]
            batch = next(batches, None)
            if batch is None:
                batches = iter(self.loader)
                continue
            marks.append(clock())
            self.optimizer.zero_grad()
            marks.append(clock())
            output = self.model(batch[0])
            marks.append(clock())
            loss = self.loss(output, batch[1])
            marks.append(clock())
            loss.backward()
            marks.append(clock())
            self.optimizer.step()
            marks.append(clock())
            times.append([after - before for before, after in zip(marks, marks[1:])])
        return times


def main():
    parser = argparse.ArgumentParser(description="the time that the hooks of a watch add to each part of a step")
    parser.add_argument("--turns", type=int, default=150, help="pairs of turns (150)")
    parser.add_argument("--depth", type=int, default=6, help="layers of the model (6)")
    options = parser.parse_args()
    loop = TimedLoop(WIDTHS[1], options.depth)
    session = start_watch()
    loop.train(20)
    hooks, rng = Hooks(session), random.Random(0)
    gc.disable()
    medians = {True: [], False: []}
    for _ in range(options.turns):
        for there in rng.sample([True, False], 2):
            hooks.put(there)
            loop.steps(BEFORE)
            times = loop.steps(TIMED)
            medians[there].append([statistics.median(part) for part in [*zip(*times), list(map(sum, times))]])
        gc.collect()
    for number, part in enumerate((*PARTS, "whole step")):
        without = statistics.median(turn[number] for turn in medians[False])
        added = [one[number] - other[number] for one, other in zip(medians[True], medians[False])]
        low, high = sorted(statistics.median(rng.choices(added, k=len(added))) for _ in range(1000))[25:-25:949]
        median = statistics.median(added)
        print(f"{part:10} {without / 1e3:8.1f} us, and {median / 1e3:+6.2f} [{low / 1e3:+.2f}, {high / 1e3:+.2f}]")
    hooks.put(True)
    session.stop()


if __name__ == "__main__":
    main()
