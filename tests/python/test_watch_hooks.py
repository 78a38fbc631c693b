# The hooks of a watch and the program's own: patches over ours, hooks next to ours, subclasses of tensors, compiled
# code, optimizers within the backward pass, and workers that are made anew for each epoch.
import _thread
import os
import pickle
import time

import pytest
import torch
from stoker.watch.seen import LoaderNote
from test_watch import Runs, train
from test_watch_program import DATA, records, watched
from test_watch_program import train as train_in_process
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader, Dataset


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


COMPILED = """
def loss_of(x, y):
    return nn.functional.cross_entropy(model(x), y)

{eager}
loss_of = torch.compile(loss_of, backend="eager", fullgraph=True)
for x, y in loader:
    optimizer.zero_grad()
    loss_of(x, y).backward()
    optimizer.step()
import torch._dynamo.utils, torch.fx._symbolic_trace
plain = torch.nn.Module._wrapped_call_impl
print(torch._dynamo.utils.unpatched_nn_module_call is plain, torch.fx._symbolic_trace._orig_module_call is plain)
"""


# Each in a separate program: calls before torch._dynamo is loaded matter.
@pytest.mark.slow
@pytest.mark.parametrize("eager", ["", "loss_of(*next(iter(loader)))"], ids=["compiled", "eager first"])
def test_compiled_functions_see_no_hook(runs, eager):
    script = runs.script(train(dynamo=True).split("if __name__")[0] + COMPILED.format(eager=eager))
    plain, watched_run = runs.python(script), runs.watch("--keep", "kept", script)
    assert plain.stdout == "True True\n" and watched_run.stdout == plain.stdout, watched_run.stderr
    assert len(runs.records("kept", "step")) == 40


# At last with a default device, whose mode sees each call of a method.
CALLING = """
torch.distributed.init_process_group("gloo", init_method="file://" + __file__ + ".group", rank=0, world_size=1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
torch.compile(optimizer.zero_grad, backend="eager")()
print([parameter.grad for parameter in model.parameters()])
print(torch.compile(lambda x: torch.distributed.all_reduce(x), backend="eager", fullgraph=True)(torch.ones(2)))
x = torch.ones(2, requires_grad=True)
print(torch.compile(lambda: torch.autograd.grad((x * x).sum(), x)[0].sum(), backend="eager")())
torch.distributed.destroy_process_group()
torch.set_default_device("cpu")
x = torch.arange(4.0)
for function in (lambda x: x.to(torch.float64) + 1, lambda x: x.cpu() + 1):
    print(torch.compile(function, backend="eager", fullgraph=True)(x))
print(torch.compile(lambda x: x.sum().item(), backend="eager")(x))  # torch 2.15 fails with fullgraph, also unwatched
"""


@pytest.mark.slow
def test_compiled_functions_may_call_what_is_hooked(runs):
    script = runs.script(train(dynamo=True).split("if __name__")[0] + CALLING)
    plain = runs.python(script)
    (runs.folder / f"{script}.group").unlink(missing_ok=True)
    watched_run = runs.watch("--keep", "kept", script)
    assert plain.returncode == 0 and watched_run.stdout == plain.stdout, watched_run.stderr
    assert plain.stdout.splitlines()[-2:] == ["tensor([1., 2., 3., 4.])", "6.0"]
    assert len(runs.records("kept", "step")) == 40


def test_clocks_of_ended_workers_are_read_once_more_and_deleted(tmp_path):
    model = nn.Linear(8, 4)
    with watched(tmp_path) as session:
        for _ in range(4):
            train_in_process(model, DataLoader(DATA, batch_size=8, num_workers=2))
            session._write_facts({})
        assert os.listdir(session.folder.clocks) == []
    loaded = [record["workers_us"] for record in records(tmp_path, "interval") if "workers_us" in record]
    assert sum(of["samples"] for of in loaded) == 4 * len(DATA)


def optimizers_in_backward(model, run=lambda step: step()):
    """One for each parameter; its step is made as soon as the gradient is there."""
    for parameter in model.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)

        def step(parameter, optimizer=optimizer):
            run(optimizer.step)
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(step)


def in_a_thread_of_autograd(step):
    """As with a GPU, whose hooks run in a thread that Python has not started."""
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(lambda: (step(), done.release()), ())
    done.acquire()


@pytest.mark.parametrize("run", [lambda step: step(), in_a_thread_of_autograd], ids=["same thread", "another thread"])
def test_optimizers_within_the_backward_pass_make_one_step(tmp_path, run):
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(16)])  # 32 optimizers
    optimizers_in_backward(model, run)
    with watched(tmp_path):
        for x, y in DataLoader(DATA, batch_size=8):
            nn.functional.cross_entropy(model(x), y).backward()
    steps = records(tmp_path, "step")
    assert [step["samples"] for step in steps] == [8] * 6
    for step in steps:
        assert "backward" in step["us"] and ("optimizer" in step["us"] or run is in_a_thread_of_autograd), step
    name = None if run is in_a_thread_of_autograd else "SGD"
    assert records(tmp_path, "facts")[-1]["train"].get("optimizer") == name


def test_patches_that_the_program_made_over_ours_stay(tmp_path):
    plain = torch.save, nn.Module.__call__, torch.Tensor.item
    calls = []

    def counting(name, below):
        def call(*args, **options):
            calls.append(name)
            return below(*args, **options)

        return call

    try:
        with watched(tmp_path) as session:
            model = nn.Linear(8, 4)
            for owner, name in ((torch, "save"), (nn.Module, "__call__"), (torch.Tensor, "item")):
                setattr(owner, name, counting(name, getattr(owner, name)))
            train_in_process(model, DataLoader(DATA, batch_size=8))
            own = torch.save, nn.Module.__call__, torch.Tensor.item
        assert len(records(tmp_path, "step")) == 6 and calls.count("__call__") == 6
        assert (torch.save, nn.Module.__call__, torch.Tensor.item) == own
        before = session._steps.backwards, dict(session._account.times and enumerate(session._account.times))
        calls.clear()
        torch.save({}, tmp_path / "saved.pt")
        assert model(torch.ones(1, 8)).sum().item() is not None
        assert sorted(set(calls)) == ["__call__", "item", "save"]
        assert before == (session._steps.backwards, dict(enumerate(session._account.times)))  # ours pass on
    finally:
        torch.save, nn.Module.__call__, torch.Tensor.item = plain


def test_what_stood_there_before_and_is_taken_away_meanwhile_does_not_come_back(tmp_path):
    plain = torch.save
    torch.save = lambda *args, **options: plain(*args, **options)
    try:
        with watched(tmp_path):
            torch.save = plain
        assert torch.save is plain
    finally:
        torch.save = plain


class OnDevice(torch.Tensor):
    """Stands for a tensor on a device: reads and `to` take time, and a read is made of other calls."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), options=None):
        cls.seen.append(getattr(function, "__name__", ""))
        plain = [of.as_subclass(torch.Tensor) if isinstance(of, cls) else of for of in args]
        if function in (torch.Tensor.item, torch.Tensor.to):
            torch.cuda.synchronize()
            plain[0].cpu()
        with torch._C.DisableTorchFunctionSubclass():
            return function(*plain, **(options or {}))


def test_reads_of_subclasses_are_counted_once_and_see_no_other_calls(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: time.sleep(0.01))
    monkeypatch.setattr(OnDevice, "seen", [], raising=False)
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for x, y in DataLoader(DATA, batch_size=8):
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            value = loss.detach().as_subclass(OnDevice)
            OnDevice.seen.clear()
            value.item()
            value.to(torch.float64)
            assert OnDevice.seen == ["item", "to"]
            optimizer.step()
    steps, intervals = records(tmp_path, "step"), records(tmp_path, "interval")
    for step in steps:
        assert 19_000 < step["us"]["sync"] < sum(step["us"].values()), step
        assert all(time >= 0 for time in step["us"].values()), step
    syncs = [sync for interval in intervals for sync in interval["syncs"]]
    assert sum(sync["count"] for sync in syncs) == 12  # `item`, and the wait within `to`
    assert all("test_watch_hooks.py" in sync["place"] for sync in syncs)


def test_modes_of_the_program_see_the_calls_that_they_saw_before(tmp_path):
    class Listing(torch.overrides.TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_function__(self, function, types, args=(), options=None):
            self.names.append(getattr(function, "__name__", ""))
            return function(*args, **(options or {}))

    def calls():
        torch.manual_seed(0)
        model = nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with Listing() as mode:
            for x, y in DataLoader(DATA, batch_size=48):
                nn.functional.cross_entropy(model(x.to(torch.float32)), y).backward()
                optimizer.step()
                x.sum().item(), x.tolist(), bool(y[0] == 0)
        return mode.names

    plain = calls()
    with watched(tmp_path):
        assert calls() == plain


def test_a_fault_leaves_the_hooks_of_the_program_alone(tmp_path):
    """PyTorch goes through all hooks of a step, ours and those behind it, while ours end the watch."""
    model, seen = nn.Linear(8, 4), []
    with pytest.raises(ValueError, match="a fault"), watched(tmp_path) as session:

        def fail():
            raise ValueError("a fault")

        session._hooks.after_step = fail
        handles = [register_optimizer_step_post_hook(lambda *args: seen.append(number)) for number in range(2)]
        try:
            train_in_process(model, DataLoader(DATA, batch_size=8))
        finally:
            for handle in handles:
                handle.remove()
    assert len(seen) == 12


class WithBias(nn.Linear):
    """Returns its bias with the product, as layers of large models do."""

    def forward(self, x):
        return nn.functional.linear(x, self.weight), self.bias


def test_layers_may_return_anything(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = WithBias(8, 8), nn.Linear(8, 4)

        def forward(self, x):
            product, bias = self.first(x)
            return self.second(product + bias)

    model = Model()
    with watched(tmp_path):
        for _ in range(2):
            train_in_process(model, DataLoader(DATA, batch_size=8))
    assert len(records(tmp_path, "step")) == 12


def test_modules_that_inherit_their_call_see_what_the_program_puts_into_nn_module(tmp_path):
    """As torch.fx does while it traces: a hook that kept the old one would trace through a Linear."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 4))

        def forward(self, x):
            return self.second(self.first(x))

    def traced():
        return [(node.op, str(node.target)) for node in torch.fx.symbolic_trace(Model()).graph.nodes]

    plain = traced()
    with watched(tmp_path):
        train_in_process(nn.Linear(8, 4), DataLoader(DATA, batch_size=8))  # the class of outermost modules is hooked
        assert traced() == plain
    assert len(records(tmp_path, "step")) == 6


def test_bound_methods_of_tensors_keep_their_names_and_can_be_pickled(tmp_path):
    one = torch.ones(1)
    with watched(tmp_path):
        assert (one.item.__name__, one.to.__name__, one.__bool__.__name__) == ("item", "to", "__bool__")
        assert pickle.loads(pickle.dumps(one.item))() == 1


def test_waiting_for_a_stoker_loader_is_waiting(tmp_path):
    stoker = pytest.importorskip("stoker")
    pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader, test = stoker.Loader(Napping(), 8, workers=0), stoker.Loader(Napping(), 16, workers=0)
    with watched(tmp_path):
        for _ in range(2):
            train_in_process(model, loader, optimizer)
            with torch.no_grad():
                for x, _ in test:
                    model.eval()(x)
            model.train()
    steps = records(tmp_path, "step")
    assert [(step["epoch"], step["samples"]) for step in steps] == [(1, 8)] * 6 + [(2, 8)] * 6
    assert all(step["us"]["wait"] >= 8 * 500 for step in steps), steps
    assert [(of["step"], of["samples"]) for of in records(tmp_path, "evaluation")] == [(6, 48), (12, 48)]
    facts = records(tmp_path, "facts")[-1]
    assert facts["data"]["samples"] == 48 and facts["data"]["workers"] == 0 and facts["train"]["batch_size"] == 8
    assert facts["data"]["loader"] == "stoker.Loader" and "pinned" not in facts["data"]  # what wraps it may pin
    assert stoker._waiting.around is None


def test_a_stoker_loader_knows_whether_it_pins():
    stoker = pytest.importorskip("stoker")
    pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
    for how, pinned in (({"pin_memory": True}, True), ({"device": "cpu"}, None), ({}, None)):
        assert LoaderNote.of_stoker(stoker.Loader(DATA, 8, workers=0, **how)).pinned is pinned


class Napping(Dataset):
    def __len__(self):
        return len(DATA)

    def __getitem__(self, index):
        time.sleep(0.0005)
        return DATA[index]
