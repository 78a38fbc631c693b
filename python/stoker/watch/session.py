"""One watch of this process: installs the hooks, keeps the account, and leaves the records in a folder."""

from __future__ import annotations

import os
import threading
from array import array
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.utils.data._utils import worker as torch_worker

from stoker.watch import fetch_clock
from stoker.watch.account import Account
from stoker.watch.facts import (
    data_facts,
    device_facts,
    host_facts,
    measure_products,
    program_name,
    software_facts,
    train_facts,
)
from stoker.watch.fetch_clock import FetchClock, WorkerClocks, WorkerTarget
from stoker.watch.fix.fixer import Fixer
from stoker.watch.frames import hide_frames
from stoker.watch.gpu_backlog import backlog_of
from stoker.watch.gpu_clocks import clocks_of
from stoker.watch.hooks import Hooks
from stoker.watch.lines import COUNTED_STEPS, LineSampler
from stoker.watch.patches import Patches
from stoker.watch.products import ProductCounter
from stoker.watch.own_rate import measure
from stoker.watch.profiles import Profiles
from stoker.watch.ranks import Rank, RecordFolder
from stoker.watch.recorder import RecordWriter
from stoker.watch.seen import Facts, Seen, known
from stoker.watch.state import HookState
from stoker.watch.steps import Steps
from stoker.watch.threads import MEASURED_STEPS, ThreadSpeed

_DISCOVERY_STEPS = 3  # in which outermost modules are found
_PRODUCT_STEP = 7  # in which a model's products are counted
_WAITS = 0.05  # of the time, from which on a wait for batches is judged
_current: Session | None = None


def leave_child() -> None:
    """In a forked child: the hooks are the parent's and would cost time here."""
    global _current
    if _current is not None:
        _current.remove_hooks()
        _current = None


def _before_fork() -> None:
    if _current is not None and _current.profiles is not None and _current.is_here():
        _current.profiles.stop()  # until the next step


os.register_at_fork(before=_before_fork, after_in_child=leave_child)


class AlreadyWatched(RuntimeError):
    """By a watch around this one."""


class Session:
    """Watches a thread, from `start` to `stop`. One at a time.

    profiled: some steps run under cProfile and torch.profiler (profiles.py). thread: None: the calling one. program:
    the path of `stoker`, if changes are to be tried (fix/). allowed: numerics, random.
    """

    def __init__(
        self,
        keep: Path | None = None,
        profiled: bool = False,
        thread: threading.Thread | None = None,
        program: Path | None = None,
        allowed: frozenset[str] = frozenset(),
    ) -> None:
        self.rank = Rank.of_environment()
        self._keep = keep
        self._profiled = profiled
        self._thread = thread or threading.current_thread()
        self.profiles: Profiles | None = None
        self._program = program
        self._allowed = allowed
        self.fixer: Fixer | None = None
        self._pid = os.getpid()

    @staticmethod
    def is_any_running() -> bool:
        return _current is not None

    def start(self) -> None:
        global _current
        if _current is not None:
            raise AlreadyWatched("this process is watched already")
        self.folder = RecordFolder(self.rank, self._keep)
        self.seen = Seen()
        self._account = account = Account()
        own_clock = FetchClock(array("q", bytes(8 * len(fetch_clock.FIELDS))))
        self._own_clock = own_clock
        ident, native = self._thread.ident or 0, self._thread.native_id or 0
        self._sampler = LineSampler(account, ident)
        self._clocks = WorkerClocks(str(self.folder.clocks))
        self.writer = RecordWriter(
            str(self.folder.records), self.rank.rank, native, self._clocks, own_clock, self._sampler
        )
        self._products = ProductCounter()
        self._threads = ThreadSpeed()
        self._thread_steps = list(MEASURED_STEPS)  # that are to come
        self._steps = Steps(account, self.writer)
        self._state = state = HookState(account, self._steps, self.seen)
        state.thread = ident
        state.on_fault = self._give_up
        self._hooks = Hooks(state, own_clock, lambda: self.writer.syncs)
        self._hooks.after_step = self._after_step
        if self._program is not None:
            self.fixer = Fixer(self.folder.path, self._program, self._steps, self.writer, self._allowed)
            self.fixer.restarted = self._restart
            self._hooks.begin_pass = self.fixer.passes.begin
        self._facts_due = False
        self._patches = Patches()
        target = WorkerTarget(str(self.folder.clocks), torch_worker._worker_loop)
        self._patches.replace(torch_worker, "_worker_loop", target)
        fetch_clock.watch_pillow(self._patches, own_clock, state.here)
        state.loop_begins = lambda: fetch_clock.watch_torchvision(self._patches, own_clock, state.here)
        hide_frames()
        self._hooks.install()
        if self._profiled:
            self.profiles = Profiles(self.folder.path if self.rank.judges else None)
            self.profiles.install()
        self._sampler.start()
        _current = self

    def stop(self) -> list[str]:
        """Removes the hooks and completes the records. Returns in words whose records of this host are missing.

        Raises the error that has ended the watch before, if there was one.
        """
        global _current
        if self.profiles is not None:
            self.profiles.stop()
        self.remove_hooks()
        if self.fixer is not None:
            self.fixer.finish()
        _current = None
        self._sampler.stop()
        try:
            self._complete()
        finally:  # the other ranks wait for this one
            self.writer.abandon()
            missed = self.folder.finish()
        return missed

    def _complete(self) -> None:
        if self._state.fault is not None:
            raise self._state.fault
        self._steps.end()
        self._measure_own_loader()
        self._write_facts(self._measured_products())
        functions = self.profiles.record() if self.profiles is not None else None
        if functions is not None:
            self.writer.functions(functions)
        self.writer.close()

    def _measured_products(self) -> Facts:
        """After an error of CUDA nothing runs on the GPU any more: the verdict then does without."""
        with suppress(Exception):
            seen, layer = self.seen, self._products.largest
            return measure_products(seen.device, seen.precision, layer) if seen.model else {}
        return {}

    def _measure_own_loader(self) -> None:
        """If the program waits for images, the rate of stoker.Loader for them: alone, as other ranks may still run."""
        images = self.seen.images
        if images is not None and self.rank.world_size == 1 and self.writer.wait_share() >= _WAITS:
            with suppress(Exception):  # of a transform that cannot be read: the verdict then does without
                self.seen.data |= known(stoker_samples_per_second=measure(images))

    @property
    def is_of_this_process(self) -> bool:
        return os.getpid() == self._pid

    def _give_up(self) -> None:
        """Within a hook."""
        self._rest()
        self._sampler.stop()

    def is_here(self) -> bool:
        return self._state.here()

    def _rest(self) -> None:
        if self.profiles is not None:
            self.profiles.remove()
        self.writer.counter.end()
        self._state.around = None
        self._hooks.rest()
        self._patches.undo()

    def remove_hooks(self) -> None:
        self._rest()
        self._products.end()
        self._hooks.remove()

    def _after_step(self) -> None:
        steps = self.writer.steps
        if steps == 1 or steps == COUNTED_STEPS[-1]:
            self.seen.read_model()
        if steps == COUNTED_STEPS[-1]:
            self._write_facts({})  # for records of a program that is killed
            self.writer.gpu = clocks_of(self.seen.device)
            self.writer.backlog = backlog_of(self.seen.device)
        if self._thread_steps and steps == self._thread_steps[0]:
            self._thread_steps.pop(0)
            self._measure_threads()
        if not self._thread_steps and self.profiles is None and self.fixer is None:
            self._hooks.after_step = None
        if steps == _DISCOVERY_STEPS:
            self._hooks.end_discovery()
        if steps in COUNTED_STEPS:
            self.writer.counter.end()
        model = self.seen.module
        compiled = self.seen.compiled
        if steps + 1 in COUNTED_STEPS and not compiled:
            self.writer.counter.begin()
        if steps + 1 == _PRODUCT_STEP and not compiled and model is not None:
            self._state.around = self._around
        if steps == _PRODUCT_STEP:
            self._state.around = None
        if self.profiles is not None:
            self._turn(self.profiles, steps)
        if self.fixer is not None:
            self._let_fix(self.fixer)

    def _let_fix(self, fixer: Fixer) -> None:
        if self._facts_due:
            self._facts_due = False
            self._write_facts({})
        with self._state.aside():
            fixer.stepped(self._steps.optimizer)
        self._account.take()  # the time that this took

    def _restart(self) -> None:
        """A change of the program is kept."""
        self.writer.restart()
        self._hooks.note_loader_again()
        self._facts_due = True

    def _measure_threads(self) -> None:
        device = self.seen.device
        if not self.writer.paused and (device is None or device.type == "cpu"):
            self._threads.measure()
            self._account.take()  # the time that this took

    def _around(self, module: Any, begins: bool) -> None:
        """Before and after each outermost module that learns, in one step."""
        try:
            self._products.end()
            if begins and module is self.seen.module:
                with torch._C.DisableTorchFunction():  # the program's do not see our questions
                    self._products.begin(module)
        except Exception as error:
            self._products.end()
            self._state.fail(error)

    def _turn(self, profiles: Profiles, steps: int) -> None:
        """After each step: profilers start and stop, and steps that they slow are left out of the records."""
        if profiles.wanted(steps + 1) and not self.writer.paused:
            self.writer.pause()
        profiles.step_done(steps, self.seen.device)
        if self.writer.paused and not profiles.running:
            self._account.take()  # the time that stopping took
            self.writer.resume()

    def _write_facts(self, rates: Facts) -> None:
        workers, _ = self._clocks.read()
        own = self._own_clock.sums
        codec = max(workers[fetch_clock.CODEC], own[fetch_clock.CODEC])
        decoders = {"Pillow": fetch_clock.PILLOW, "torchvision": fetch_clock.TORCHVISION}
        decoder = max(decoders, key=lambda name: workers[decoders[name]] + own[decoders[name]])
        decodes = workers[decoders[decoder]] + own[decoders[decoder]] > 0
        rank = self.rank.at_end()
        steps = max(1, self.writer.steps)
        rows, passes = self.writer.rows, self._steps.backwards
        batch = self.seen.loader.get("batch_size") or self.seen.fed
        batch = batch or (round(rows.samples / rows.batches) if rows.batches else 0)
        # Several backward passes may share a batch, and several batches, of two loaders, a backward pass.
        accumulate = max(1, round(min(passes or rows.batches, rows.batches or passes) / steps))
        self.writer.facts(
            known(program=program_name())
            | {
                "world_size": rank.world_size,
                "software": software_facts(),
                "host": host_facts(rank),
                "device": device_facts(self.seen, rates),
                "data": data_facts(self.seen, codec, decoder if decodes else None),
                "train": train_facts(self.seen, self._steps.evaluation, rank, batch, accumulate, self._products.flops)
                | known(thread_speedup=self._threads.speedup()),
            }
        )
