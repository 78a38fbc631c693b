# stoker.torch.DevicePrefetcher: structure, order and state; streams where there is a GPU.
from collections import namedtuple

import pytest
import torch

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.torch import DevicePrefetcher, map_tensors  # noqa: E402

DIGITS = "synth:digits?count=60"
Pair = namedtuple("Pair", "image label")


def test_batches_pass_through_on_the_cpu():
    loader = stoker.Loader(DIGITS, 8)
    wanted = [batch["index"].tolist() for batch in loader]
    loader.set_epoch(0)
    prefetcher = DevicePrefetcher(loader, "cpu")
    assert len(prefetcher) == 8 and [batch["index"].tolist() for batch in prefetcher] == wanted


def test_any_loader_and_any_structure():
    batches = [(torch.full((2,), i), [Pair(torch.zeros(i), "text")], {"n": i}) for i in range(5)]
    moved = list(DevicePrefetcher(batches, "meta"))
    assert len(moved) == 5
    for i, (first, (pair,), rest) in enumerate(moved):
        assert first.is_meta and pair.image.is_meta and pair.image.shape == (i,) and pair.label == "text" and rest == {"n": i}
    assert list(DevicePrefetcher([], "meta")) == []
    assert map_tensors(torch.Tensor.double, {"a": torch.zeros(1)})["a"].dtype == torch.float64


def test_one_batch_is_fetched_ahead_and_no_more():
    taken = []

    def batches():
        for i in range(4):
            taken.append(i)
            yield torch.tensor(i)

    prefetcher = iter(DevicePrefetcher(batches(), "meta"))
    next(prefetcher)
    assert taken == [0, 1]
    next(prefetcher)
    assert taken == [0, 1, 2]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("stop", [1, 5, 7])
def test_a_state_is_that_of_the_batch_that_was_handed_out(device, stop):
    loader = stoker.Loader(DIGITS, 8, seed=2)
    whole = [batch["index"].tolist() for batch in loader]
    prefetcher = DevicePrefetcher(stoker.Loader(DIGITS, 8, seed=2), device)
    for number, _ in enumerate(prefetcher, 1):
        if number == stop:
            break
    state = prefetcher.state_dict()
    other = DevicePrefetcher(stoker.Loader(DIGITS, 8, seed=2))
    other.load_state_dict(state)
    assert [batch["index"].tolist() for batch in other] == whole[stop:]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_copies_are_complete_and_live_long_enough():
    loader = stoker.Loader(DIGITS, 8)
    wanted = [batch["image"].clone() for batch in loader]
    loader.set_epoch(0)
    held = []
    for batch in DevicePrefetcher(loader, "cuda"):
        held.append(batch["image"] * 2)  # on the current stream, while the next copy runs
        del batch
    assert all(torch.equal(copy.cpu(), 2 * image) for copy, image in zip(held, wanted))
