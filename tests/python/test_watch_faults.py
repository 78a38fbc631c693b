# Faults, in the program or in the watch: Ctrl-C while a hook runs, a step or a model that raises, frames that are not
# kept, a debugger in a counted step, and the remains of a watch that has failed.
import gc
import os
import sys
import time
import weakref
from types import SimpleNamespace

import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
import torch
from stoker.watch.account import FORWARD, UNMEASURED
from stoker.watch.lines import LineCounter
from stoker.watch.ranks import Rank
from stoker.watch.session import Session
from test_watch_program import DATA, records, train, watched
from torch import nn
from torch.utils.data import DataLoader


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("event", ["asks", "got", "trains", "stepped"])
def test_what_ends_a_program_ends_it_within_our_functions_too(event, stop, tmp_path, monkeypatch):
    def interrupted(*of):
        raise stop("of a signal's handler")

    with watched(tmp_path) as session:
        monkeypatch.setattr(session._steps, event, interrupted)
        with pytest.raises(stop, match="handler"):
            train(nn.Linear(8, 4), DataLoader(DATA, batch_size=8))
        assert session._state.fault is None


class Failing(torch.optim.SGD):
    fails = False

    def step(self, closure=None):
        if Failing.fails:
            raise RuntimeError("no memory")
        return super().step(closure)


def test_a_step_that_raises_leaves_no_phase_behind(tmp_path, monkeypatch):
    model = nn.Linear(8, 4)
    optimizer = Failing(model.parameters(), lr=0.1)
    bases = []
    with watched(tmp_path) as session:
        for number, (x, y) in enumerate(DataLoader(DATA, batch_size=8)):
            bases.append((session._state.base, session._account.phase))
            time.sleep(0.01)
            nn.functional.cross_entropy(model(x), y).backward()
            monkeypatch.setattr(Failing, "fails", number == 2)
            if number == 2:
                with pytest.raises(RuntimeError, match="no memory"):
                    optimizer.step()
            else:
                optimizer.step()
    assert bases == [(UNMEASURED, UNMEASURED)] * 6
    unmeasured = [step["us"]["unmeasured"] for step in records(tmp_path, "step")]
    assert len(unmeasured) == 5 and min(unmeasured) >= 10_000, unmeasured


@pytest.mark.parametrize("in_backward", [False, True])
def test_a_step_that_calls_that_of_its_base_is_one(tmp_path, in_backward):
    """Both have hooks, if an optimizer of the base's own class was made before."""
    model = nn.Linear(8, 4)
    torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = Failing(model.parameters(), lr=0.1)
    if in_backward:
        model.bias.register_post_accumulate_grad_hook(lambda parameter: optimizer.step())
    with watched(tmp_path):
        for x, y in DataLoader(DATA, batch_size=8):
            nn.functional.cross_entropy(model(x), y).backward()
            if not in_backward:
                optimizer.step()
    assert [step["samples"] for step in records(tmp_path, "step")] == [8] * 6


def test_batches_within_a_closure_belong_to_its_step(tmp_path):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)
    batches = iter(DataLoader(DATA, batch_size=8))
    bases = []

    def closure():
        x, y = next(batches)
        bases.append(session._state.base)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    with watched(tmp_path) as session:
        for _ in range(6):
            optimizer.step(closure)
    assert bases == [UNMEASURED] * 6  # not the optimizer's own time


def test_a_model_that_raises_leaves_its_phase(tmp_path):
    model = nn.Linear(8, 4)
    with watched(tmp_path) as session:
        train(model, DataLoader(DATA, batch_size=8))
        model(DATA.tensors[0])
        assert session._account.phase == FORWARD
        session._account.enter(UNMEASURED)
        with pytest.raises(RuntimeError):
            model(DATA.tensors[0][:, :3])
        assert session._account.phase == UNMEASURED


class Large:
    """An object of the program, in one of its functions."""


def test_a_fault_keeps_nothing_of_the_program(tmp_path):
    def use(session):
        large = Large()

        def fails():
            try:
                raise KeyError("within")
            except KeyError as error:
                raise ValueError("a fault") from error

        session._hooks.after_step = fails
        train(nn.Linear(8, 4), DataLoader(DATA, batch_size=24))
        return weakref.ref(large)

    with pytest.raises(ValueError, match="a fault"), watched(tmp_path) as session:
        kept = use(session)
        gc.collect()
        gone = session._state.fault is not None and kept() is None
    assert gone


def test_counted_steps_keep_no_frame(tmp_path):
    counter = LineCounter()

    def begins():
        large = Large()
        counter.begin()
        return weakref.ref(large)

    kept = begins()
    gc.collect()
    assert kept() is None
    number = 0
    for number in range(3):
        number += 1
    counter.end()
    assert sys.gettrace() is None and sys._getframe().f_trace is None
    assert max(counter.counts.values()) >= 3


def test_a_debugger_keeps_what_it_has_taken():
    counter, events = LineCounter(), []

    def trace(frame, event, argument):
        events.append(event)
        return trace

    assert counter.begin()
    sys.settrace(trace)
    sys._getframe().f_trace = trace
    counter.end()
    try:
        assert sys.gettrace() is trace and sys._getframe().f_trace is trace
    finally:
        sys.settrace(None)
    assert counter.begin()
    counter._events = 1 << 30
    frame = sys._getframe()
    ours = frame.f_trace
    sys.settrace(trace)
    frame.f_trace = None
    ours(frame, "line", None)
    kept = sys.gettrace()
    sys.settrace(None)
    counter.end()
    assert kept is trace


def test_a_fault_leaves_no_clocks_and_no_rank_that_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(Rank, "of_environment", lambda: Rank(1, 2, 1, 2, "job"))
    session = Session(tmp_path / "kept")
    session.start()
    session._state.fail(OSError("a fault"))
    with pytest.raises(OSError, match="a fault"):
        session.stop()
    assert session.folder._done(1).exists() and not session.folder.clocks.exists()
    with pytest.raises(OSError):
        os.write(session.writer._file, b"")


def test_a_trainer_that_was_interrupted_can_train_again(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    monkeypatch.delitem(sys.modules, "stoker.watch.transformers", raising=False)
    from stoker.watch.transformers import StokerWatch

    callback = StokerWatch(keep=tmp_path / "kept")
    callback.on_train_begin(None, None, None)
    first = callback._watch
    callback.on_train_begin(None, None, None)  # the first loop was interrupted: nobody has told its end
    try:
        assert callback._watch is not first
        train(nn.Linear(8, 4), DataLoader(DATA, batch_size=8))
    finally:
        callback.on_train_end(None, None, None)
    assert len(records(tmp_path, "step")) == 6
