# The state that hooks share: the account has all of the time; a hook keeps arguments, results and errors; other threads
# pass; the line of a step has its known fields.
import copy
import gc
import json
import pickle
import threading
import time
import weakref
from types import SimpleNamespace

import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
import torch
from stoker.watch.account import BACKWARD, CHECKPOINT, FORWARD, OPTIMIZER, PHASES, SYNC, UNMEASURED, WAIT, Account
from stoker.watch.modules import ModuleHooks
from stoker.watch.seen import Seen
from stoker.watch.state import HookState, MethodHook
from stoker.watch.steps import Steps
from test_watch_steps import Iterator, Log, Program


def make_state():
    account = Account()
    return HookState(account, Steps(account, Log()), Seen())


def in_phase(phase, call, state):
    owner = SimpleNamespace(call=call)
    state.replace_phase(owner, "call", phase)
    return owner.call


def test_nested_phases_suspend_the_outer_one():
    state = make_state()
    inner = in_phase(SYNC, lambda: time.sleep(0.02), state)
    outer = in_phase(CHECKPOINT, lambda: (time.sleep(0.01), inner()), state)
    outer()
    times = dict(zip(PHASES, state.account.take()))
    assert times["sync"] >= 20_000_000 and times["checkpoint"] >= 10_000_000
    assert times["sync"] + times["checkpoint"] + times["unmeasured"] == sum(times.values())
    assert state.account.phase == UNMEASURED


def test_many_steps_lose_no_time_and_keep_no_objects():
    program = Program()
    program.log.rows.due = None
    account, optimizer, iterator = program.account, Iterator(), program.start()
    program.step(optimizer)
    program.log.rows.take_lines(0)
    first, taken = account.since, []
    gc.collect()
    objects = len(gc.get_objects())
    for step in range(10_000):
        program.next(iterator)
        account.enter(BACKWARD)
        account.enter(OPTIMIZER)
        program.step(optimizer)
        if step % 1000 == 999:
            taken.append(program.log.rows.take_lines(0)[1])
    gc.collect()
    assert len(gc.get_objects()) - objects < 100
    assert program.log.rows.steps == 10_001 and program.log.rows.samples == 80_000
    assert sum(map(sum, taken)) == account.since - first
    assert all(times[phase] > 0 for times in taken for phase in (WAIT, FORWARD, BACKWARD, OPTIMIZER))


def test_arguments_results_and_errors_are_those_of_the_original():
    error = KeyError("of the program")

    def original(*args, **options):
        if options.get("fails"):
            raise error
        return args, options

    state = make_state()
    for hook in (in_phase(SYNC, original, state), MethodHook(original, lambda *of, **options: original(*of, **options))):
        assert hook(1, two=2) == ((1,), {"two": 2})
        with pytest.raises(KeyError) as raised:
            hook(fails=True)
        assert raised.value is error and state.account.phase == UNMEASURED


def test_other_threads_pass_without_a_trace():
    state = make_state()
    hook = in_phase(SYNC, lambda: time.sleep(0.001), state)
    thread = threading.Thread(target=lambda: [hook() for _ in range(10)])
    thread.start()
    thread.join()
    assert state.account.take()[SYNC] == 0
    hook()
    assert state.account.take()[SYNC] > 0


def test_an_error_of_the_watch_ends_the_watch_and_not_the_call(monkeypatch):
    state, ended = make_state(), []
    state.on_fault = lambda: ended.append(True)

    def fails(*of):
        raise ValueError("of the watch")

    monkeypatch.setattr(state.seen, "note_module", fails)
    model = torch.nn.Linear(2, 2)
    assert ModuleHooks(state)._outermost(torch.nn.Module.__call__)(model, torch.ones(2)).shape == (2,)
    assert ended and str(state.fault) == "of the watch" and state.fault.__traceback__ is None


def test_a_hook_and_its_state_are_freed_together():
    state = make_state()
    hook = in_phase(SYNC, lambda: None, state)
    hook.of_the_program = hook, state
    references = weakref.ref(hook), weakref.ref(state)
    state.patches.undo()
    del hook, state
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_method_is_pickled_by_name_and_equal_to_the_original():
    original = torch.Tensor.item
    hook = MethodHook(original, lambda tensor: original(tensor))
    assert pickle.loads(pickle.dumps(hook)) is original and copy.deepcopy(hook) is original
    assert hook == original and original == hook and {original: 1}[hook] == 1 and hook != torch.Tensor.to


def test_a_line_has_what_is_known_and_rounded_microseconds():
    program = Program()
    rows, account = program.log.rows, program.account
    rows.due = None
    account.take()
    times = [0] * len(PHASES)
    times[FORWARD], times[SYNC] = 1499, 1500
    rows.add(2, 1, 8, 0, 16, times, account.since)
    rows.add(2, 0, 0, -1, 0, [0] * len(PHASES), account.since)
    lines, sums = rows.take_lines(3)
    first, second = map(json.loads, lines.splitlines())
    known = {"type": "step", "schema": 1, "rank": 3, "step": 1, "epoch": 2, "samples": 8, "ready": 0, "copy_bytes": 16}
    assert first == {**known, "us": {"forward": 1, "sync": 2}} and sums[FORWARD] == 1499
    assert second == {"type": "step", "schema": 1, "rank": 3, "step": 2, "epoch": 2, "us": {}}
    assert rows.take_lines(3) == ("", [0] * len(PHASES))
