# stoker.torch.DevicePrefetcher: structure, order and state; streams where there is a GPU.
import collections
import contextlib
import gc
import pickle
import weakref
from collections import namedtuple

import numpy as np
import pytest
import torch

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.torch import DevicePrefetcher, map_tensors  # noqa: E402
from stoker.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop  # noqa: E402

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


def test_mappings_of_any_kind_are_copied():
    batch = {"a": torch.ones(2), "b": [torch.ones(1)]}
    for kind in (dict, collections.OrderedDict, collections.UserDict, lambda items: collections.defaultdict(int, items)):
        given = kind(batch)
        copy = stoker.torch.map_tensors(lambda tensor: tensor.to("meta"), given)
        assert type(copy) is type(given) and copy["a"].is_meta and copy["b"][0].is_meta
        assert not given["a"].is_meta


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
@pytest.mark.parametrize("stop", [1, 7])
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


@pytest.mark.parametrize("source", [DIGITS, [(i, i) for i in range(60)]], ids=["engine", "python"])
@pytest.mark.parametrize("stop", [1, 5, 7, 8])
def test_a_loader_with_a_device_has_the_state_of_the_batch_in_use(source, stop):
    options = {"workers": 0, "as_tuple": ("index", "label") if source is DIGITS else True, "seed": 2}
    whole = [batch[0].tolist() for batch in stoker.Loader(source, 8, **options)]
    loader = stoker.Loader(source, 8, device="meta", **options)
    for number, (index, _) in enumerate(loader, 1):
        assert index.is_meta
        if number == stop:
            break
    state = loader.state_dict()
    other = stoker.Loader(source, 8, device="cpu", **options)
    other.load_state_dict(state)
    assert [index.tolist() for index, _ in other] == (whole[stop:] or [b[0].tolist() for b in epoch_1(source, options)])
    assert len(list(loader)) == 8 and loader.epoch == 2
    loader.load_state_dict(state)
    assert len(list(loader)) == (8 - stop or 8)


def epoch_1(source, options):
    loader = stoker.Loader(source, 8, **options)
    loader.set_epoch(1)
    return loader


def test_a_loader_with_a_device_may_be_used_without_a_name():
    assert len(list(stoker.Loader(DIGITS, 8, device="meta"))) == 8


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_without_cuda():
    assert next(iter(stoker.Loader(DIGITS, 8, pin_memory=True)))["image"].shape[0] == 8
    for options in ({"device": "cuda"}, {"device": "cpu", "framework": "numpy"}):
        with pytest.raises(stoker.InvalidArgument, match="device"):
            stoker.Loader(DIGITS, 8, **options)


def test_pinned_copies_are_made_for_a_cuda_device(monkeypatch):
    """With a made-up device: which tensors are pinned, and that the prefetcher gets them."""
    pinned = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor + 0)
    moved = []
    monkeypatch.setattr("stoker.torch._CudaCopier", lambda device: Recorder(device, moved))
    (batch,) = stoker.Loader([(i, float(i)) for i in range(4)], 4, workers=0, device="cuda", shuffle=False)
    assert len(pinned) == 2 and moved == [torch.device("cuda")] and batch[0].tolist() == [0, 1, 2, 3]
    list(stoker.Loader([1, 2], 2, workers=0, pin_memory=True))
    assert len(pinned) == 3


@pytest.fixture
def gpu(monkeypatch):
    """A made-up GPU, whose tensors are those of the host: a list of the batches that were copied there."""
    copied = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor.clone())
    monkeypatch.setattr("stoker.torch._CudaCopier", lambda device: Recorder(device, [], copied))
    return copied


OPS = [RandomResizedCrop(32), RandomHorizontalFlip(), Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]


@pytest.mark.parametrize("dtype", ["float32", torch.float16, torch.bfloat16])
@pytest.mark.parametrize("channels_last", [False, True])
def test_a_gpu_normalises_as_the_loader_does(drawn, gpu, dtype, channels_last):
    options = {"ops": OPS, "dtype": dtype, "channels_last": channels_last, "views": 2, "seed": 3}
    layout = torch.channels_last if channels_last else torch.contiguous_format
    on_gpu, on_host = stoker.Loader(drawn, 5, device="cuda", **options), stoker.Loader(drawn, 5, **options)
    for there, here in zip(on_gpu, on_host, strict=True):
        assert list(there) == list(here) and there["key"] == here["key"] and torch.equal(there["label"], here["label"])
        for name in ("image", "image_2"):
            assert there[name].dtype == here[name].dtype and there[name].is_contiguous(memory_format=layout)
            assert torch.equal(there[name], here[name])
    assert {batch[name].dtype for batch in gpu for name in ("image", "image_2")} == {torch.uint8}


NORMALISED = {
    "one of a tuple": ({"as_tuple": ("label", "image")}, [torch.int64, torch.uint8]),
    "no image": ({"as_tuple": ("label", "mask")}, [torch.int64, torch.uint8]),
    "without Normalize": ({"as_tuple": ("image",), "ops": []}, [torch.uint8]),
    "ops of a further image": (
        {"as_tuple": ("second", "mask", "image"), "field_ops": {"second": [Normalize(0.5, 0.25)]}},
        [torch.uint8] * 3,
    ),
    "a preset": ({"as_tuple": ("image",), "ops": [{"op": "normalize", "preset": "imagenet"}]}, [torch.float32]),
    "bytes": ({"as_tuple": ("image",), "dtype": "uint8", "ops": []}, [torch.uint8]),
}


@pytest.mark.parametrize("case", NORMALISED)
def test_which_fields_a_gpu_normalises(tmp_path, gpu, case):
    options, copied = NORMALISED[case]
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", images=pixels, labels=np.zeros(6, int), mask=pixels[..., 0], second=pixels[::-1])
    data = stoker.open(tmp_path / "d.npz", fields={"mask": ("mask", "mask"), "second": ("second", "image")})
    options = {"ops": OPS[2:], "shuffle": False, **options}
    (there,), (here,) = stoker.Loader(data, 6, device="cuda", **options), stoker.Loader(data, 6, **options)
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(there, here, strict=True))
    assert [tensor.dtype for tensor in gpu[0]] == copied


class Recorder:
    def __init__(self, device, moved, copied=None):
        moved.append(device)
        self.copied = [] if copied is None else copied

    def begin(self, batch):
        self.copied.append(batch)
        return batch

    def finish(self, copy):
        return copy

    def end(self):
        pass


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("source", [DIGITS, [(i, i) for i in range(60)]], ids=["engine", "python"])
def test_a_loader_with_a_cuda_device(source):
    options = {"workers": 0, "as_tuple": ("index", "label") if source is DIGITS else True}
    wanted = [batch[0].tolist() for batch in stoker.Loader(source, 8, **options)]
    found = [index for index, _ in stoker.Loader(source, 8, device="cuda", **options)]
    assert all(index.is_cuda for index in found) and [index.tolist() for index in found] == wanted
    assert all(index.is_pinned() for index, _ in stoker.Loader(source, 8, pin_memory=True, **options))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cuda_device_normalises_as_the_loader_does(drawn, dtype):
    options = {"ops": OPS, "dtype": dtype, "channels_last": True}
    for there, here in zip(stoker.Loader(drawn, 5, device="cuda", **options), stoker.Loader(drawn, 5, **options)):
        assert there["image"].is_cuda and there["image"].is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(there["image"].cpu(), here["image"])


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


class Kept(collections.abc.MutableMapping):
    """Keeps its items in a separate dict, so that a shallow copy shares them."""

    def __init__(self, items, mark=None):
        self.kept = dict(items)
        self.mark = mark

    def __getitem__(self, name):
        return self.kept[name]

    def __setitem__(self, name, value):
        self.kept[name] = value

    def __delitem__(self, name):
        del self.kept[name]

    def __iter__(self):
        return iter(self.kept)

    def __len__(self):
        return len(self.kept)


class Unlike(collections.OrderedDict):
    """As transformers' ModelOutput."""

    def update(self, *items):
        raise TypeError("not here")


@pytest.mark.parametrize("kind", [Kept, Unlike])
def test_a_batch_of_the_programs_own_kind_stays_as_it_is(kind):
    given = kind({"a": torch.ones(2)})
    given.mark = 3
    copy = map_tensors(lambda tensor: tensor.to("meta"), given)
    assert copy.mark == 3 and type(copy) is kind and copy["a"].is_meta and not given["a"].is_meta


class Failing:
    """Four batches; raises for the third, once. Its state is the number of batches that were taken."""

    def __init__(self):
        self.taken = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.taken == 4:
            raise StopIteration
        self.taken += 1
        if self.taken == 3:
            raise OSError("once")
        return torch.full((1,), self.taken)

    def state_dict(self):
        return {"taken": self.taken}


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_error_comes_after_the_batches_before_it(device):
    prefetcher = DevicePrefetcher(Failing(), device)
    states = []
    with pytest.raises(OSError, match="once"):
        for _ in prefetcher:
            states.append(prefetcher.state_dict()["taken"])
    assert states == [1, 2]


@pytest.mark.parametrize("device", [None, "meta"])
def test_ctrl_c_in_the_first_fetches_leaves_the_position(device):
    calls = []

    def collate(samples):
        calls.append(samples)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return torch.tensor(samples)

    loader = stoker.Loader(list(range(8)), 2, workers=0, shuffle=False, collate_fn=collate, device=device)
    got = []
    with pytest.raises(KeyboardInterrupt):
        for batch in loader:
            got.append(batch)
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert [batch.shape for batch in loader] == [(2,)] * (4 - state["batch"])
    assert state["batch"] == len(got)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_error_does_not_keep_the_loader(device):
    def collate(samples):
        raise ValueError("no")

    loader = stoker.Loader([1, 2], 2, workers=0, collate_fn=collate, device=device)
    gone = weakref.ref(loader)
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            list(loader)
        del loader
        assert gone() is None
    finally:
        gc.enable()


class NotYet:
    """Has a state from its first batch on."""

    def __init__(self):
        self.taken = 0

    def __iter__(self):
        for self.taken in range(1, 4):
            yield torch.zeros(1)

    def state_dict(self):
        assert self.taken > 0
        return {"taken": self.taken}


def test_a_loader_that_has_no_state_before_its_first_batch():
    prefetcher = DevicePrefetcher(NotYet(), "meta")
    assert [prefetcher.state_dict()["taken"] for _ in prefetcher] == [1, 2, 3]


def test_a_prefetcher_is_copied_without_its_stream():
    prefetcher = DevicePrefetcher([torch.zeros(1)], "meta")
    list(prefetcher)
    assert len(list(pickle.loads(pickle.dumps(prefetcher)))) == 1


class Unprepared:
    """As Accelerate's loaders: it has the method, and not what the method needs."""

    def __iter__(self):
        return iter([torch.zeros(1)])

    def state_dict(self):
        raise AttributeError("dl_state_dict")


def test_a_loader_that_has_no_state_gives_its_batches():
    prefetcher = DevicePrefetcher(Unprepared(), "meta")
    assert len(list(prefetcher)) == 1
    with pytest.raises(AttributeError, match="dl_state_dict"):
        prefetcher.state_dict()


@pytest.mark.parametrize("device", [None, "meta"])
def test_the_epoch_of_the_last_batch_is_its_own(device):
    loader = stoker.Loader(DIGITS, 30, workers=0, device=device)
    assert [loader.epoch for _ in loader] == [0, 0]
    assert loader.epoch == 1


class Moves(Kept):
    """As a TensorDict."""

    def to(self, device):
        return ("moved to", str(device))


def test_a_mapping_that_moves_itself_does():
    assert list(DevicePrefetcher([Moves({"a": torch.zeros(1)})], "meta")) == [("moved to", "meta")]
