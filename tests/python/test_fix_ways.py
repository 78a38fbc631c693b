# Ways to load a program's batches: in any turns they give the batches, in the order, and leave the random numbers, of the
# program's own loader.
import itertools
import random
import time

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, get_worker_info
from torch.utils.data._utils import worker as torch_worker

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.watch.fetch_clock import WorkerTarget
from stoker.watch.fix.order import Gate, Order
from stoker.watch.fix.same import RandomState, Replayed, difference, is_same, kept_random_state
from stoker.watch.fix.switch import Check, Sameness, SwitchIterator
from stoker.watch.fix.ways import TorchWay, changed_way, is_changeable, why_not_ahead


class Numbers(Dataset):
    """Samples of their index; `draw` adds a random number, `spoil` one that workers count."""

    def __init__(self, count=60, draw=None, spoil=False, fails_in_workers=False):
        self.count, self.draw, self.spoil, self.fails = count, draw, spoil, fails_in_workers
        self.calls = 0

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.calls += 1
        if self.fails and get_worker_info() is not None:
            raise ValueError("not in a worker")
        more = self.draw() if self.draw else self.calls if self.spoil else 0
        return torch.tensor([index, more], dtype=torch.float64), index


def torch_draw():
    return torch.rand(()).item()


def pass_of(loader):
    """As the fixer begins one: a switch around torch's iterator."""
    inner = iter(loader)
    assert is_changeable(loader, inner)
    order = Order(inner._sampler_iter)
    own = TorchWay(inner, order, is_open=True)
    return SwitchIterator(loader, order, own, lambda way, error: None), own, order


def state():
    return random.getstate(), torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()


def test_an_order_gives_again_what_came_back():
    order = Order(iter([[1], [2], [3], [4]]))
    assert [order.take(), order.take()] == [[1], [2]]
    order.give_back([[1], [2]])
    assert order.take() == [1] and order.take_all() == [[2], [3], [4]]
    assert order.take_or_none() is None
    with pytest.raises(StopIteration):
        order.take()


def test_a_closed_gate_gives_only_what_is_wanted():
    gate = Gate(Order(iter([1, 2])))
    assert list(gate) == []
    gate.wanted.append(7)
    assert list(gate) == [7]
    gate.is_open = True
    assert list(gate) == [1, 2] and list(gate.given) == [7, 1, 2]


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("batch_size", [4, 7, None])
def test_turns_between_ways_change_no_batch(workers, batch_size):
    def loader():
        torch.manual_seed(5)
        return DataLoader(Numbers(), batch_size, shuffle=True, num_workers=workers)

    expected = list(loader())
    after = torch.rand(3)
    generator = random.Random(workers)
    switch, own, order = pass_of(loader())
    other = changed_way(switch.loader, {"num_workers": 2}, order)
    found = []
    for batch in switch:
        found.append(batch)
        if generator.random() < 0.4:
            switch.turn_to(generator.choice([own, other]))
    assert is_same(found, expected)
    assert torch.equal(torch.rand(3), after)
    other.stop()


def test_a_changed_way_draws_no_random_number():
    loader = DataLoader(Numbers(), 4, shuffle=True)
    before = state()
    changed_way(loader, {"num_workers": 1}, Order(iter(()))).stop()
    assert str(state()) == str(before)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, Sameness.SAME),
        ({"draw": torch_draw}, Sameness.RANDOM),
        ({"draw": random.random}, Sameness.RANDOM),
        ({"draw": np.random.rand}, Sameness.RANDOM),
        ({"spoil": True}, Sameness.OTHER),
    ],
)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_check_tells_random_numbers_from_other_samples(options, expected, workers, tmp_path, monkeypatch):
    monkeypatch.setattr(torch_worker, "_worker_loop", WorkerTarget(str(tmp_path), torch_worker._worker_loop))
    switch, own, order = pass_of(DataLoader(Numbers(**options), 4, num_workers=workers))
    other = changed_way(switch.loader, {"num_workers": 1}, order)
    next(switch)
    check = Check(other, 0.0, draws=False)
    switch.check(check)
    labels = [labels.tolist() for _, labels in switch]
    assert check.is_over and check.found == expected and check.error is None
    assert list(itertools.chain(*labels)) == list(range(4, 60))
    assert workers or switch.loader.dataset.calls == 60  # nothing is loaded twice
    other.stop()


def test_a_check_keeps_the_error_of_the_other_way():
    switch, own, order = pass_of(DataLoader(Numbers(fails_in_workers=True), 4))
    other = changed_way(switch.loader, {"num_workers": 1}, order)
    check = Check(other, 0.0, draws=False)
    switch.check(check)
    assert len(list(switch)) == 15
    assert isinstance(check.error, ValueError) and check.is_over
    other.stop()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_way_that_fails_gives_its_batches_back(workers):
    data = Numbers(fails_in_workers=True)
    loader = DataLoader(data, 4, shuffle=True)
    torch.manual_seed(2)
    expected = list(loader)
    torch.manual_seed(2)
    inner = iter(loader)
    order = Order(inner._sampler_iter)
    own = TorchWay(inner, order, is_open=True)
    failed = []
    switch = SwitchIterator(loader, order, own, lambda switch, error: failed.append(switch.way) or own)
    other = changed_way(loader, {"num_workers": max(1, workers)}, order)
    found = [next(switch)]
    switch.turn_to(other)
    found += list(switch)
    assert failed == [other] and is_same(found, expected)
    other.stop()


def test_errors_of_the_program_stay_its_own():
    class Broken(Numbers):
        def __getitem__(self, index):
            if index == 9:
                raise KeyError("sample 9")
            return super().__getitem__(index)

    switch, own, order = pass_of(DataLoader(Broken(), 4))
    assert len([next(switch) for _ in range(2)]) == 2
    with pytest.raises(KeyError, match="sample 9"):
        next(switch)


def test_streams_and_other_iterators_are_left_alone():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    loader = DataLoader(Stream())
    assert not is_changeable(loader, iter(loader))

    class Own(DataLoader):
        def _get_iterator(self):
            return iter([1])

    assert not is_changeable(Own([1]), iter(Own([1])))


def test_a_replayed_batch_leaves_the_random_state():
    torch.manual_seed(0), random.seed(0), np.random.seed(0)

    def draw(index):
        return index, torch.rand(2).tolist(), random.random(), np.random.rand()

    then = RandomState.now()
    first, before = draw([1]), state()
    assert Replayed([1], then).load(draw) == first != draw([1])
    then.restore()
    assert draw([1]) == first and str(state()) == str(before)
    with kept_random_state():
        draw([1])
    assert str(state()) == str(before)


@pytest.mark.parametrize(
    "one, other",
    [
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
        (torch.zeros(2), -torch.zeros(2)),
        (torch.zeros(2), torch.zeros(2, 1)),
        ({"a": torch.ones(1)}, {"b": torch.ones(1)}),
        ([torch.ones(1)], (torch.ones(1),)),
        ([1, "x"], [1, "y"]),
        (np.zeros(2), np.ones(2)),
    ],
)
def test_batches_that_differ(one, other):
    assert not is_same(one, other) and is_same(one, one)


def test_values_that_are_no_numbers_are_the_same_bits():
    nan = torch.tensor([float("nan"), 1.0])
    assert is_same({"x": [nan, (1, None)]}, {"x": [nan.clone(), (1, None)]})
    assert difference([torch.zeros(2), torch.tensor([1])], [torch.full((2,), 0.25), torch.tensor([1])]) == 0.25
    assert difference([torch.zeros(2), torch.tensor([1])], [torch.zeros(2), torch.tensor([2])]) == float("inf")


class Drawing:
    """A sampler that draws from torch's global generator for each batch."""

    def __iter__(self):
        for _ in range(15):
            yield torch.randint(0, 60, (4,)).tolist()


def test_samplers_that_may_not_be_asked_ahead():
    data, generator = Numbers(), torch.Generator()
    assert why_not_ahead(DataLoader(data, 4, shuffle=True)) == ""
    assert why_not_ahead(DataLoader(data, batch_size=None)) == ""
    for options in (
        {"batch_sampler": Drawing()},
        {"sampler": Drawing()},
        {"shuffle": True, "generator": generator},
        {"sampler": RandomSampler(data, generator=generator)},
    ):
        assert why_not_ahead(DataLoader(data, **options))


def rarely():
    """Draws, and shows it seldom."""
    return float(torch.rand(()) < 1e-9)


def test_draws_that_change_no_value_are_seen():
    switch, own, order = pass_of(DataLoader(Numbers(draw=rarely), 4))
    assert [next(switch) for _ in range(2)] and switch.draws
    other = changed_way(switch.loader, {"num_workers": 1}, order)
    check = Check(other, 0.0, draws=False)
    switch.check(check)
    next(switch)
    assert check.found == Sameness.RANDOM
    other.stop()


class InFile(Numbers):
    """Reads from one open file."""

    def __init__(self, path):
        super().__init__()
        path.write_bytes(bytes(range(60)))
        self.file = open(path, "rb")

    def __getitem__(self, index):
        self.file.seek(index)
        return self.file.read(1)[0]


def test_files_that_workers_would_share_are_seen(tmp_path):
    data = InFile(tmp_path / "numbers")
    switch, own, order = pass_of(DataLoader(data, 4))
    other = changed_way(switch.loader, {"num_workers": 2}, order)
    check = Check(other, 0.0, draws=False)
    switch.check(check)
    assert [int(number) for batch in switch for number in batch] == list(range(60))
    assert "share" in str(check.error)
    other.stop()
    data.file.close()


def test_workers_see_what_the_program_changed_between_passes():
    data = Numbers()
    loader = DataLoader(data, 4)
    way = changed_way(loader, {"num_workers": 1}, Order(iter([[1]])))
    way.open()
    assert way.next()[0][0, 1] == 0
    data.draw = lambda: 7.0
    way.attach(Order(iter([[1]])))
    way.open()
    assert way.next()[0][0, 1] == 7
    way.stop()


def test_a_worker_that_dies_raises_where_its_batch_is_asked_for():
    loader = DataLoader(Numbers(), 4)
    way = changed_way(loader, {"num_workers": 1}, Order(iter([[1], [2]])))
    way.open()
    way.inner._workers[0].kill()
    way.inner._workers[0].join()
    time.sleep(0.1)  # no signal raises here
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        for _ in range(2):
            way.next()
    way.stop()
