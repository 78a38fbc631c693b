# Which samples an epoch of stoker.Loader has: several data sets with weights, epochs of another length than the data,
# windows.
import pickle

import numpy as np
import pytest
from torchvision.transforms import v2

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")


@pytest.fixture
def numbered(tmp_path):
    """Opens data whose samples have the numbers from `first` on."""

    def make(first, count=40, classes=2):
        path = tmp_path / f"{first}.npz"
        if not path.exists():
            images = np.zeros((count, 4, 4, 3), np.uint8)
            np.savez(path, images=images, labels=np.arange(count) % classes, number=np.arange(first, first + count))
        return stoker.open(path, fields={"number": "number"})

    return make


def numbers(loader):
    """Those of an epoch, batch by batch."""
    return [batch["number"].tolist() for batch in loader]


def test_data_sets_are_drawn_by_their_weights(numbered):
    data = [numbered(0), numbered(100)]
    plain = stoker.Loader(data, 8)
    assert sorted(sum(numbers(plain), [])) == [*range(40), *range(100, 140)]
    weighted = stoker.Loader(data, 8, weights=[3, 1])
    assert len(weighted) == 10
    drawn = [sum(numbers(weighted), []) for _ in range(2)]
    assert [sum(number < 100 for number in epoch) for epoch in drawn] == [60, 60]
    assert set(range(40)) < set(drawn[0])  # each of them once or twice
    assert {number for epoch in drawn for number in epoch if number >= 100} == set(range(100, 140))  # 20 and 20


def test_samples_have_the_number_of_their_data_set_in_the_key(numbered):
    loader = stoker.Loader([numbered(0), numbered(100)], 80, shuffle=False)
    (batch,) = loader
    assert batch["key"][0] == "0:0" and batch["key"][40] == "1:0" and loader.dataset.classes == numbered(0).classes
    assert len(loader.dataset) == 80 and loader.dataset[79]["number"] == 139


def test_epochs_of_another_length_continue_the_pass(numbered):
    loader = stoker.Loader(numbered(0), 4, epoch_samples=10)
    epochs = [sum(numbers(loader), []) for _ in range(4)]
    assert len(loader) == 3 and [len(epoch) for epoch in epochs] == [10] * 4
    assert sorted(sum(epochs, [])) == list(range(40))
    longer = sum(numbers(stoker.Loader(numbered(0), 4, epoch_samples=60)), [])
    assert len(longer) == 60 and set(longer) == set(range(40))


def test_a_window_has_an_order_of_its_own(numbered):
    orders = {window: stoker.Loader(numbered(0), 8, shuffle_window=window) for window in (0, 16)}
    found = {window: sum(numbers(loader), []) for window, loader in orders.items()}
    assert sorted(found[16]) == sorted(found[0]) == list(range(40)) and found[0] != found[16]
    assert found[0] == sum(numbers(stoker.Loader(numbered(0), 8)), [])  # the default, for local data
    with pytest.raises(stoker.InvalidArgument, match="as when the run began"):
        orders[0].load_state_dict(orders[16].state_dict())


def test_states_ranks_and_pickles_of_a_mix(numbered):
    def make(batch_size=8, **options):
        return stoker.Loader([numbered(0), numbered(100)], batch_size, weights=[1, 2], epoch_samples=48, **options)

    whole = numbers(make())
    loader = make()
    batches = iter(loader)
    assert [next(batches)["number"].tolist() for _ in range(2)] == whole[:2]
    state = loader.state_dict()
    other = make(workers=1)
    other.load_state_dict(state)
    assert numbers(other) == numbers(pickle.loads(pickle.dumps(loader))) == whole[2:]
    parts = [numbers(make(4, rank=rank, world_size=2)) for rank in range(2)]
    assert [a + b for a, b in zip(*parts, strict=True)] == whole


def refused(*arguments, **options):
    with pytest.raises(stoker.InvalidArgument) as caught:
        stoker.Loader(*arguments, **options)
    assert "\n" not in str(caught.value) and "data." not in str(caught.value)
    return str(caught.value)


def test_what_cannot_be_sampled_is_told(numbered):
    data = [numbered(0), numbered(100)]
    assert refused(data, 8, weights=[1]).startswith("[weights] expected 2 weights, one for each data set, got 1")
    assert "one for each data set, got 2" in refused(data[0], 8, weights=[1, 2])
    assert "each a number above 0, got -1" in refused(data, 8, weights=[1, -1])
    assert "[balance] expected weights or balance, got both" in refused(data, 8, weights=[1, 2], balance=True)
    assert "[balance] expected shuffled data" in refused(data[0], 8, balance=True, shuffle=False)
    assert "[shuffle_window] expected shuffled data" in refused(data[0], 8, shuffle_window=9, shuffle=False)
    assert "weights, balance and epoch_samples draw from" in refused(data[0], 8, shuffle_window=9, epoch_samples=9)
    assert refused([data[0], numbered(200, classes=3)], 8).endswith("only data sets of the same classes can be mixed")


def test_what_is_no_number_is_told(numbered):
    data = numbered(0)
    assert "[epoch_samples] expected an integer of at least 0" in refused(data, 8, epoch_samples=-1)
    assert '[shuffle_window] expected "auto" or an integer of at least 0' in refused(data, 8, shuffle_window=-1)
    assert refused(data, 8, weights=["a"]).startswith("[weights] expected an array of at most 257, each a number")
    assert "[weights] expected a data set of stoker.open" in refused([1, 2], 1, weights=[1])
    in_python = [stoker.transforms.InPython(v2.PILToTensor())]
    for option in ({"weights": [1]}, {"epoch_samples": 3}, {"shuffle_window": 3}):
        assert "expected ops that run in C++ alone" in refused("synth:digits?count=9", 3, ops=in_python, **option)
