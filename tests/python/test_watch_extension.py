# The hooks of the extension module under load: a million calls, errors, recursion and threads do not change reference
# counts and memory, results and errors are those of the replaced functions, and the account has all of the time.
import copy
import gc
import inspect
import json
import pickle
import sys
import threading
import time
import weakref
from array import array

import pytest

pytest.importorskip("stoker._watch", reason="needs the extension modules: STOKER_PYTHON=ON")
import torch
from stoker._watch import Hook
from stoker.watch.account import BACKWARD, CHECKPOINT, FORWARD, OPTIMIZER, PHASES, SYNC, UNMEASURED, WAIT, Account
from stoker.watch.seen import Seen
from stoker.watch.state import HookState
from stoker.watch.steps import Steps
from test_watch_steps import Log

CALLS = 1_000_000
KINDS = {
    "phase": ((), {"number": CHECKPOINT}),
    "backward": ((lambda: None, lambda: None), {"number": 1}),
    "forward": ((lambda module, learning: None, lambda: None), {}),
    "next": ((lambda of: None, lambda of: 3, lambda batch: 4, lambda *of: None, lambda *of: None, lambda: None), {}),
    "move": ((lambda *of: None,), {}),
    "read": ((lambda nanoseconds: None, lambda tensor: False, lambda: False), {}),
    "wait": ((lambda nanoseconds: None,), {}),
}


class Alone:
    """Stands for an iterator without workers, and for a module that trains."""

    _num_workers = 0
    training = True


def make_state():
    account = Account()
    return HookState(account, Steps(account, Log()), Seen())


def make_hook(kind, original, state=None):
    calls, options = KINDS[kind]
    if kind == "next":
        options = {"sums": array("q", bytes(64))}
    return Hook(kind, state or make_state(), original, calls=calls, **options)


def resident():
    with open("/proc/self/statm") as file:
        return 4096 * int(file.read().split()[1])


def returns(argument):
    return argument


def fails(argument):
    raise KeyError("of the program")


def call_quietly(hook, argument):
    try:
        hook(argument)
    except KeyError:
        pass


@pytest.mark.parametrize("original", [returns, fails])
@pytest.mark.parametrize("kind", KINDS)
def test_references_and_memory_are_steady(kind, original):
    hook, argument = make_hook(kind, original), Alone()
    counted = (argument, hook, original, None, True, False, *KINDS[kind][0])
    for _ in range(1000):
        call_quietly(hook, argument)
    found = []
    while len(found) < 3:  # what another thread of the process does shows once, a leak each time
        gc.collect()
        before, memory = [sys.getrefcount(of) for of in counted], resident()
        for _ in range(CALLS // (2 * len(KINDS))):
            call_quietly(hook, argument)
        gc.collect()
        changes, grown = [now - then for now, then in zip(map(sys.getrefcount, counted), before)], resident() - memory
        if all(abs(change) < 50 for change in changes) and grown < 4 << 20:
            return
        found.append((changes, grown))
    raise AssertionError(f"references and bytes that stay: {found}")


def test_a_million_steps_lose_no_time_and_no_reference():
    state = make_state()
    optimizer, batch, iterator = Alone(), [torch.ones(2)], Alone()
    taken = []
    state.steps.rows.due = lambda: taken.append(state.steps.rows.take_lines(0)[1])
    begin = Hook("optimizer_begin", state, None, calls=(lambda *step: None,))
    slow = []
    end = Hook("optimizer_end", state, None, calls=(lambda of: slow.append(of) or state.steps.stepped(of),))
    following = make_hook("next", lambda of: batch, state)
    backward = make_hook("backward", lambda: None, state)
    state.steps.trains()
    state.account.take()
    state.steps.in_parts, state.steady = False, True
    first, rows = state.account.since, CALLS // 4
    counts, memory = [sys.getrefcount(of) for of in (optimizer, batch, batch[0], iterator)], resident()
    for step in range(rows):
        following(iterator)
        backward()
        begin(optimizer, (), {})
        state.steps.rows.until = 0 if step % 1000 == 999 else 1 << 62
        end(optimizer, (), {})
    assert len(slow) == 1 and state.steps.rows.steps == rows == state.steps.backwards
    assert sum(map(sum, taken)) == state.account.since - first
    assert all(times[phase] > 0 for times in taken for phase in (WAIT, BACKWARD, OPTIMIZER, UNMEASURED))
    slow.clear()
    assert [sys.getrefcount(of) for of in (optimizer, batch, batch[0], iterator)] == counts
    assert resident() - memory < 8 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_results_and_errors_are_those_of_the_original(kind):
    error = KeyError("of the program")

    def original(*args, **options):
        if options.get("fails"):
            raise error
        return args, options

    hook, argument = make_hook(kind, original), Alone()
    assert hook(argument, 1, two=2) == ((argument, 1), {"two": 2})
    with pytest.raises(KeyError) as raised:
        hook(argument, fails=True)
    assert raised.value is error
    assert hook(argument) == ((argument,), {})


def test_an_error_of_the_watch_ends_the_watch_and_not_the_call():
    def fails_itself(*args):
        raise ValueError("of the watch")

    state = make_state()
    ended = []
    state.on_fault = lambda: ended.append(True)
    hook = Hook("forward", state, returns, calls=(fails_itself, lambda: None))
    argument = Alone()
    assert hook(argument) is argument
    assert ended and str(state.fault) == "of the watch"


def test_recursion_ends_as_without_a_hook():
    def deeper(hook):
        return hook(hook)

    hook = make_hook("phase", deeper)
    for _ in range(20):
        with pytest.raises(RecursionError):
            hook(hook)
    assert hook.__class__ is Hook


def test_nested_phases_suspend_the_outer_one():
    state = make_state()
    inner = Hook("phase", state, lambda: time.sleep(0.02), number=SYNC)
    outer = Hook("phase", state, lambda: (time.sleep(0.01), inner()), number=CHECKPOINT)
    outer()
    times = dict(zip(PHASES, state.account.take()))
    assert times["sync"] >= 20_000_000 and times["checkpoint"] >= 10_000_000
    assert times["sync"] + times["checkpoint"] + times["unmeasured"] == sum(times.values())
    assert state.account.phase == UNMEASURED


def test_other_threads_pass_without_a_trace():
    state, called = make_state(), []
    sums, alone, tensor = array("q", bytes(64)), Alone(), torch.empty(2, device="meta")
    host = torch.ones(2)

    def noting(*of):
        called.append(of)

    hooks = []
    for kind, (calls, options) in KINDS.items():
        original = (lambda of: host) if kind == "move" else returns
        hook = Hook(kind, state, original, calls=(noting,) * len(calls), sums=sums, **options)
        hooks.append((hook, tensor if kind in ("move", "read", "wait") else alone, len(calls)))
    state.account.take()

    def work():
        for hook, argument, _ in hooks:
            for _ in range(1000):
                hook(argument)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = state.account.take()
    assert times[UNMEASURED] == sum(times) and state.steps.samples == state.steps.backwards == 0
    assert not called and not any(sums)
    for hook, argument, calls in hooks:  # in this thread they all have something to say
        hook(argument)
        assert bool(called) == (calls > 0)
        called.clear()


def test_a_tensor_on_a_device_is_asked_once_where_it_is():
    state, called = make_state(), []
    hook = Hook("read", state, returns, calls=(called.append, called.append, lambda: called.append("compiles?")))
    hook(torch.empty(2, device="meta"))
    assert called[0] == "compiles?" and len(called) == 2 and isinstance(called[1], int)


def test_a_hook_and_its_state_are_freed_together():
    state = make_state()
    hook = make_hook("phase", returns, state)
    hook.of_the_program = hook, state
    references = weakref.ref(hook), weakref.ref(state)
    del hook, state
    gc.collect()
    assert [reference() for reference in references] == [None, None]


class Owner:
    pass


def test_a_hook_is_a_method_and_is_pickled_by_name():
    hook = make_hook("phase", returns)
    hook.__name__ = hook.__qualname__ = "replaced"
    hook.__module__ = __name__
    globals()["replaced"] = hook
    try:
        assert pickle.loads(pickle.dumps(hook)) is hook and copy.deepcopy(hook) is hook
    finally:
        del globals()["replaced"]
    Owner.method = hook
    one = Owner()
    assert one.method() is one and one.method.__self__ is one and Owner.method is hook


def test_a_hooked_method_has_the_signature_of_the_original():
    calls, options = KINDS["move"]
    hook = Hook("move", make_state(), str.join, calls=calls, place=(str, "join"), **options)
    assert inspect.signature(hook) == inspect.signature(str.join)


def test_what_is_no_phase_or_no_kind_is_refused():
    state = make_state()
    for wrong in (
        lambda: Hook("unheard of", state, returns),
        lambda: Hook("phase", state, returns, number=9),
        lambda: Hook("read", state, returns),
        lambda: Hook("phase", state, returns, calls=(returns,)),
        lambda: Hook("next", state, returns, calls=KINDS["next"][0], sums=array("q", bytes(16))),
        lambda: setattr(state, "base", 9),
        lambda: state.account.enter(9),
        lambda: state.account.enter(1 << 32),
        lambda: state.account.take(-1),
    ):
        with pytest.raises(ValueError):
            wrong()
    for wrong in (lambda: Hook("phase", object(), returns), lambda: state.account.enter("wait")):
        with pytest.raises(TypeError):
            wrong()
    assert state.account.enter(FORWARD) == UNMEASURED


def test_a_line_has_what_is_known_and_rounded_microseconds():
    state = make_state()
    steps, account = state.steps, state.account
    steps.rows.due, steps.epoch, steps.samples, steps.ready, steps.copied = None, 2, 8, 0, 16
    account.take()
    account.charge(SYNC, 1500)
    steps.close([0, 0, 1499, 0, 0, 0, 0, 0, 0])
    steps.close(None)
    lines, sums = steps.rows.take_lines(3)
    first, second = map(json.loads, lines.splitlines())
    known = {"type": "step", "schema": 1, "rank": 3, "step": 1, "epoch": 2, "samples": 8, "ready": 0, "copy_bytes": 16}
    assert first | {"us": 0} == known | {"us": 0}
    assert first["us"]["sync"] == 2 and first["us"]["forward"] == 1 and sums[FORWARD] == 1499
    assert sorted(second) == ["epoch", "rank", "schema", "step", "type", "us"]
    assert steps.rows.take_lines(3) == ("", [0] * len(PHASES))
