# A watch does not change the program that it watches: its objects live as long as before, its methods are the same to
# those who look them up, and a fault of the watch ends the watch alone.
import contextlib
import gc
import json
import pickle
import shutil
import sys
import time
import weakref
from collections import UserDict

import pytest
import torch
from stoker.watch.account import PHASES
from stoker.watch.session import Session
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

DATA = TensorDataset(torch.randn(48, 8), torch.arange(48) % 4)


@contextlib.contextmanager
def watched(folder):
    session = Session(folder / "kept")
    session.start()
    try:
        yield session
    except BaseException:  # a fault of the watch does not hide what a test has found
        with contextlib.suppress(Exception):
            session.stop()
        raise
    session.stop()


def records(folder, kind):
    lines = (folder / "kept/metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["type"] == kind]


def train(model, loader, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def test_lazy_layers_get_their_sizes_in_the_first_step(tmp_path):
    model = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(4))
    with watched(tmp_path):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, DataLoader(DATA, batch_size=8), optimizer)
    assert records(tmp_path, "facts")[-1]["train"]["parameters"] == 8 * 16 + 16 + 16 * 4 + 4
    assert len(records(tmp_path, "step")) == 6


class Named(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        names.append(str(function))
        return function(*arguments, **(options or {}))


names = []


@pytest.mark.parametrize("threads", [1, 2])
def test_what_threads_gain_is_measured_beside_the_program(tmp_path, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    names.clear()
    try:
        with watched(tmp_path), Named():
            train(nn.Linear(8, 4), DataLoader(DATA, batch_size=4))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert "aten.mul_.Tensor" not in names and any("mm" in name for name in names)
    facts = records(tmp_path, "facts")[-1]["train"]
    assert facts["threads"] == threads
    assert ("thread_speedup" in facts) == (threads > 1)
    assert facts.get("thread_speedup", 1) > 0


class Awkward(IterableDataset):
    """Raises for questions that a program may never ask."""

    def __iter__(self):
        return iter(DATA)

    def __len__(self):
        raise KeyError("not known yet")

    @property
    def root(self):
        raise ValueError("no root")


def test_errors_of_a_data_sets_own_code_stay_there(tmp_path):
    with watched(tmp_path):
        for _ in range(2):  # facts are written in the ninth step
            train(nn.Linear(8, 4), DataLoader(Awkward(), batch_size=8))
    facts = records(tmp_path, "facts")[-1]
    assert facts["data"]["format"] == "Awkward" and "samples" not in facts["data"]


def test_a_fault_of_the_watch_ends_the_watch_and_not_the_program(tmp_path):
    model = nn.Linear(8, 4)
    plain = torch.Tensor.to, DataLoader.__iter__, nn.Module.__call__
    with pytest.raises(FileNotFoundError), watched(tmp_path) as session:
        shutil.rmtree(session.folder.clocks)
        until = time.monotonic() + 0.7  # longer than an interval
        epochs = 0
        while time.monotonic() < until:
            train(model, DataLoader(DATA, batch_size=8))
            epochs += 1
        assert session._state.fault is not None
        assert sys.gettrace() is None and (torch.Tensor.to, DataLoader.__iter__, nn.Module.__call__) == plain
        assert torch.Tensor.to is plain[0]
    assert epochs > 0


def test_nothing_of_the_program_is_kept_alive(tmp_path):
    gc.collect()
    gc.disable()
    try:
        with watched(tmp_path):
            model = nn.Linear(8, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loader = DataLoader(DATA, batch_size=8, num_workers=1, persistent_workers=True)
            for _ in range(2):
                train(model, loader, optimizer)
            workers = list(loader._iterator._workers)
            known = [weakref.ref(of) for of in (model, loader)]
            del model, optimizer, loader
            assert [of() for of in known] == [None, None]
            assert not any(worker.is_alive() for worker in workers)
            iterator = iter(DataLoader(DATA, batch_size=8))
            next(iterator)
            known = weakref.ref(iterator)
            del iterator
            assert known() is None
    finally:
        gc.enable()
    facts = records(tmp_path, "facts")[-1]
    assert facts["train"]["model"] == "Linear" and facts["train"]["optimizer"] == "SGD"
    assert facts["data"]["samples"] == 48 and facts["data"]["workers"] == 1


def test_modules_that_are_gone_are_forgotten(tmp_path):
    model = nn.Linear(8, 4)
    with watched(tmp_path) as session:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader(DATA, batch_size=8):
            kept = nn.CrossEntropyLoss()
            kept(model(x), y).backward()
            optimizer.step()
        del kept
        assert list(session._hooks._modules.uses) == [id(model)]


class Noting(nn.Module):
    """Notes the phase of the account in each forward pass."""

    def __init__(self, session):
        super().__init__()
        self.linear, self.session, self.phases = nn.Linear(8, 8), session, []

    def forward(self, x):
        self.phases.append(PHASES[self.session._account.phase])
        return self.linear(x)


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_checkpointing_computes_again_is_backward(tmp_path, reentrant):
    class Model(nn.Module):
        def __init__(self, session):
            super().__init__()
            self.first, self.second, self.head = Noting(session), Noting(session), nn.Linear(8, 4)

        def forward(self, x):
            x = checkpoint(self.first, x.requires_grad_(), use_reentrant=reentrant)
            return self.head(checkpoint(self.second, x, use_reentrant=reentrant))

    with watched(tmp_path) as session:
        model = Model(session)
        train(model, DataLoader(DATA, batch_size=8))
    assert model.first.phases == model.second.phases == ["forward", "backward"] * 6


class Forces(Noting):
    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            forces = torch.autograd.grad(self.linear(x).tanh().sum(), x, create_graph=True)[0]
            super().forward(x)
            return forces[:, :4]


def test_gradients_within_a_forward_pass_belong_to_it(tmp_path):
    with watched(tmp_path) as session:
        model = Forces(session)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            train(model.train(), DataLoader(DATA, batch_size=12), optimizer)
            with torch.no_grad():
                for x, _ in DataLoader(DATA, batch_size=24):
                    model.eval()(x)
    assert set(model.phases) == {"forward"}
    assert records(tmp_path, "facts")[-1]["train"]["accumulate"] == 1
    assert [of["samples"] for of in records(tmp_path, "evaluation")] == [48, 48]


class WithALoaderOfItsOwn(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        time.sleep(0.002)
        inner = [x for x, _ in DataLoader(DATA, batch_size=24)]
        time.sleep(0.002)
        return inner[0][0], index % 4


def test_a_loader_within_a_data_set_belongs_to_the_wait(tmp_path):
    with watched(tmp_path):
        train(nn.Linear(8, 4), DataLoader(WithALoaderOfItsOwn(), batch_size=4))
    steps = records(tmp_path, "step")
    assert [(step["epoch"], step["samples"]) for step in steps] == [(1, 4)] * 4
    assert all(step["us"]["wait"] >= 16_000 for step in steps), steps


def test_a_batch_may_be_any_mapping(tmp_path):
    def collate(samples):
        return UserDict(x=torch.stack([x for x, _ in samples]), y=torch.tensor([y for _, y in samples]))

    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for batch in DataLoader(DATA, batch_size=8, collate_fn=collate):
            nn.functional.cross_entropy(model(batch["x"]), batch["y"]).backward()
            optimizer.step()
    assert [step["samples"] for step in records(tmp_path, "step")] == [8] * 6


def test_methods_are_the_same_to_those_who_look_them_up(tmp_path):
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")  # looks methods up in a set
    image = tv_tensors.Image(torch.zeros(3, 4, 4, dtype=torch.uint8))
    table = {torch.Tensor.to: "to", torch.Tensor.item: "item"}
    plain = pickle.dumps((torch.Tensor.to, torch.save))
    with watched(tmp_path):
        assert type(image.to(torch.float32)) is tv_tensors.Image
        assert table[torch.Tensor.to] == "to" and table[torch.Tensor.item] == "item"
        seen = {torch.Tensor.to}
        to, save = pickle.loads(pickle.dumps((torch.Tensor.to, torch.save)))
        assert (to, save) == (torch.Tensor.to, torch.save)
        assert torch.Tensor.item(torch.tensor(3)) == 3 and torch.tensor(2.5).item() == 2.5
        assert list(range(3))[torch.tensor(1)] == 1 and not torch.tensor(0)
    assert torch.Tensor.to in seen
    assert pickle.dumps((torch.Tensor.to, torch.save)) == plain
