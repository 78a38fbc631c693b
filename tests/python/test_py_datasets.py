# Python data sets as sources of stoker.Loader: the C++ loader's order, state and rules for bad samples, reproducible
# random numbers, and batches of any form.
import collections
import collections.abc
import importlib
import json
import pickle
import random
import sys
import warnings

import numpy as np
import pytest
import torch
from conftest import draw_noise
from python_datasets import ABSENT, DISK, Broken, Failing, Lines, Numbers, Unlucky, Unsendable, collate_randomly

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.torch import map_tensors  # noqa: E402

METHODS = ["fork", "spawn", "forkserver"]
Pair = collections.namedtuple("Pair", "image label")


def indices(loader):
    return [batch[0].tolist() for batch in loader]


def flat(batches):
    return [tensor.tolist() for batch in batches for tensor in batch]


@pytest.mark.parametrize("options", [{}, {"shuffle": False}, {"drop_last": True}, {"seed": 9, "rank": 1, "world_size": 3}])
def test_the_order_is_that_of_the_cpp_loader(options):
    ours = stoker.Loader(Numbers(51), 4, workers=0, **options)
    theirs = stoker.Loader("synth:digits?count=51", 4, **options)
    assert len(ours) == len(theirs)
    for _ in range(3):
        assert indices(ours) == [batch["index"].tolist() for batch in theirs]


@pytest.mark.parametrize("method, workers", [("fork", 0), *((method, 3) for method in METHODS)])
def test_a_state_resumes_at_every_batch(method, workers):
    whole = stoker.Loader(Numbers(20), 3, workers=0, seed=5)
    states, batches = [], []
    for _ in range(2):
        states.append(whole.state_dict())
        for batch in whole:
            batches.append(flat([batch]))
            states.append(json.loads(json.dumps(whole.state_dict())))
        assert states.pop()["epoch"] == whole.epoch  # that of the next one
    loader = stoker.Loader(Numbers(20), 3, workers=workers, seed=5, multiprocessing_context=method)
    for at, state in enumerate(states):
        loader.load_state_dict(state)
        loader.set_epoch(loader.epoch)
        rest = [flat([batch]) for batch in loader]
        assert rest == batches[at : at + len(rest)] and (at + len(rest)) % 7 == 0
    assert len(pickle.loads(pickle.dumps(whole))) == 7
    loader.close()


def test_a_state_of_other_data_is_refused():
    state = stoker.Loader(Numbers(20), 3).state_dict()
    for other in (stoker.Loader(Numbers(21), 3), stoker.Loader(Numbers(20), 4), stoker.Loader(Numbers(20), 3, seed=1)):
        with pytest.raises(stoker.InvalidArgument, match="as when the run began"):
            other.load_state_dict(state)
    assert stoker.Loader(Numbers(20), 3, workers=2).load_state_dict(state) is None


def test_random_numbers_depend_on_the_sample_alone_and_the_callers_go_on():
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    expected = [torch.rand(2).tolist(), random.random(), np.random.rand()]
    torch.manual_seed(3), random.seed(3), np.random.seed(3)
    batches = [flat(stoker.Loader(Numbers(9), size, workers=0, shuffle=False)) for size in (9, 9)]
    assert expected == [torch.rand(2).tolist(), random.random(), np.random.rand()]
    with stoker_workers(Numbers(9), 9, 2, shuffle=False) as loader:
        assert flat(loader) == batches[0] == batches[1]
        assert flat(loader)[1] != batches[0][1]  # another epoch
    rows = torch.cat([row for _, row in stoker.Loader(Numbers(9), 2, workers=0, shuffle=False)])
    assert rows.tolist() == batches[0][1] and len({row[0].item() for row in rows}) == 9


def test_the_collate_function_has_random_numbers_of_the_batch():
    loaders = [stoker.Loader(Numbers(9), 2, workers=workers, collate_fn=collate_randomly) for workers in (0, 2)]
    first, second = ([list(loader) for _ in range(2)] for loader in loaders)
    assert first == second and len({number for epoch in first for number, _ in epoch}) == 10


class stoker_workers:
    """A loader with workers that ends behind the block."""

    def __init__(self, dataset, batch_size, workers, **options):
        self.loader = stoker.Loader(dataset, batch_size, workers=workers, **options)

    def __enter__(self):
        return self.loader

    def __exit__(self, *error):
        self.loader.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_samples_are_replaced_as_in_the_cpp_loader(tmp_path, workers):
    for i in range(20):
        draw_noise(tmp_path / f"data/a/{i:02}.png", seed=i)
    for i in (7, 12):
        (tmp_path / f"data/a/{i:02}.png").write_bytes(b"no image")
    theirs = stoker.Loader(tmp_path / "data", 5, bad_samples=2, seed=4)
    with stoker_workers(Failing(20, {7, 12}), 5, workers, bad_samples=2, seed=4) as ours, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            assert [batch.tolist() for batch in ours] == [batch["index"].tolist() for batch in theirs]
    assert {bad.index: bad.replaced_by for bad in ours.bad_samples.values()} == {
        bad.index: bad.replaced_by for bad in theirs.bad_samples.values()
    }
    assert ours.bad_samples[7].reason == "ValueError: no such sample" and ours.bad_samples[7].key == "7"


def test_the_budget_of_bad_samples_counts_over_the_epoch_and_a_state():
    options = {"shuffle": False, "workers": 2, "bad_samples": 2}
    with stoker_workers(Failing(12, {1, 5, 9}), 4, **options) as loader:
        batches = iter(loader)
        with pytest.warns(stoker.BadSampleWarning, match=r"\[1\] replaced: ValueError: no such sample"):
            next(batches)
        with pytest.warns(stoker.BadSampleWarning):
            next(batches)
        state = loader.state_dict()
        assert state["bad_samples"] == 2
        with pytest.raises(stoker.TooManyBadSamples, match="at most 2 bad samples.*sample 9: ValueError") as caught:
            next(batches)
    assert caught.value.index == 9 and 'raise self.error' in str(caught.value.__cause__)
    again = stoker.Loader(Failing(12, {9}), 4, **{**options, "workers": 0})
    again.load_state_dict(state)
    with pytest.raises(stoker.TooManyBadSamples):
        list(again)


def test_a_state_beyond_the_budget_ends_the_run_at_the_next_bad_sample():
    options = {"shuffle": False, "workers": 0}
    before = stoker.Loader(Failing(12, {1, 2}), 4, bad_samples=2, **options)
    with pytest.warns(stoker.BadSampleWarning):
        next(iter(before))
    loader = stoker.Loader(Failing(12, {1, 2, 9}), 4, bad_samples=1, **options)
    loader.load_state_dict(before.state_dict())
    batches = iter(loader)
    assert next(batches).tolist() == [4, 5, 6, 7]
    with pytest.raises(stoker.TooManyBadSamples, match="sample 9"):
        next(batches)


def test_what_is_bad_may_depend_on_random_numbers():
    """Each epoch is the same for any number of workers, and for one that begins there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inline = stoker.Loader(Unlucky(24), 4, workers=0, bad_samples=24)
        whole = [flat(inline) for _ in range(3)]
        with stoker_workers(Unlucky(24), 4, 2, bad_samples=24) as loader:
            assert [flat(loader) for _ in range(3)] == whole
        alone = stoker.Loader(Unlucky(24), 4, workers=0, bad_samples=24)
        alone.set_epoch(2)
        assert flat(alone) == whole[2]


def test_each_rank_has_a_sample_of_each_batch():
    options = {"workers": 0, "world_size": 4}
    for rank in range(4):
        with pytest.raises(stoker.InvalidArgument, match="a sample for each of 4 ranks.*got 2.*drop_last=True"):
            stoker.Loader(Numbers(10), 2, rank=rank, **options)
        assert len(indices(stoker.Loader(Numbers(10), 2, rank=rank, drop_last=True, **options))) == 1
        assert len(indices(stoker.Loader(Numbers(12), 2, rank=rank, **options))) == 2


def test_the_order_is_that_of_the_data_set_when_the_loader_was_made():
    data = [(i, i) for i in range(8)]
    loader = stoker.Loader(data, 2, workers=0)
    data.append((8, 8))
    assert indices(loader) == indices(stoker.Loader(data[:8], 2, workers=0))


@pytest.mark.parametrize("workers", [0, 1])
def test_errors_that_end_the_run(workers):
    cases = [
        (Failing(8, {3}), {"bad_samples": 0}, stoker.TooManyBadSamples, r"\[sample 3\].*ValueError: no such sample"),
        (Failing(8, {3}, ABSENT), {"bad_samples": 0}, stoker.TooManyBadSamples, "FileNotFoundError"),
        (Failing(8, {3}, DISK), {"bad_samples": 9}, OSError, "Errno 5"),
        (Failing(8, {3}, MemoryError()), {"bad_samples": 9}, MemoryError, None),
        (Failing(8, set(range(8))), {"bad_samples": 9}, stoker.TooManyBadSamples, "sample 0"),
        (Numbers(8), {"collate_fn": len_of_nothing}, AttributeError, "nothing"),
    ]
    for dataset, options, error, message in cases:
        with stoker_workers(dataset, 4, workers, shuffle=False, **options) as loader:
            with pytest.raises(error, match=message) as caught:
                list(loader)
        assert "\n" not in str(caught.value)
        if workers:
            assert "Traceback" in str(caught.value.__cause__)


def test_a_fault_of_the_data_sets_code_is_found_early():
    data = Broken(1_000_000)
    loader = stoker.Loader(data, 64, workers=0)
    with pytest.raises(stoker.TooManyBadSamples, match="AttributeError: 'int' object .* look at the data set's own code"):
        next(iter(loader))
    assert data.reads <= 1 + 1000 + 1  # with the budget of 0.1 %, and one for the form of a batch


def len_of_nothing(samples):
    return samples.nothing


def test_an_error_whose_module_only_the_worker_finds_has_its_text(tmp_path):
    (tmp_path / "known_in_workers.py").write_text("class Lost(Exception):\n    pass\n")

    def collate(samples):
        sys.path.insert(0, str(tmp_path))
        raise importlib.import_module("known_in_workers").Lost("the batch")

    with stoker_workers(Numbers(4), 2, 1, collate_fn=collate, multiprocessing_context="fork") as loader:
        with pytest.raises(stoker.Error, match="Lost: the batch"):
            list(loader)


class Silent(Exception):
    def __str__(self):
        raise ValueError("no text")


def test_an_error_without_a_text_arrives():
    def collate(samples):
        raise Silent

    with stoker_workers(Numbers(4), 2, 1, collate_fn=collate, multiprocessing_context="fork") as loader:
        with pytest.raises(Silent):
            list(loader)


def test_an_error_that_pickle_cannot_restore_has_its_text():
    def collate(samples):
        raise Unsendable("one", "two")

    with stoker_workers(Numbers(4), 2, 1, collate_fn=collate, multiprocessing_context="fork") as loader:
        with pytest.raises(stoker.Error, match="Unsendable: one and two"):
            list(loader)


SAMPLES = {
    "tuple": (torch.ones(2, 3), 5),
    "list": [np.float32(1.5), True],
    "dict": {"image": torch.zeros(3, 4, dtype=torch.bfloat16), "label": 1.5, "text": "a", "bytes": b"b"},
    "named": Pair(np.arange(6, dtype=np.int16).reshape(2, 3), {"deep": (torch.tensor(1 + 2j),)}),
    "empty": torch.zeros(0, 4),
    "half": np.zeros((2, 2), np.float16),
    "ordered": collections.OrderedDict(b=1, a=torch.ones(2)),
    "defaults": collections.defaultdict(int, {"a": 1}),
    "user": collections.UserDict({"a": np.ones(3)}),
    "big-endian": (np.arange(3, dtype=">f4"), np.arange(4, dtype=">i2").reshape(2, 2)),
}


@pytest.mark.parametrize("form", SAMPLES)
@pytest.mark.parametrize("workers", [0, 1])
def test_batches_have_the_form_of_a_sample(form, workers):
    """And the values and types of torch's default_collate, but that a tuple stays one."""
    sample = SAMPLES[form]
    native = tuple(part.astype(part.dtype.newbyteorder("=")) for part in sample) if form == "big-endian" else sample
    expected = torch.utils.data.default_collate([native] * 4)
    with stoker_workers([sample] * 4, 4, workers, multiprocessing_context="fork") as loader:
        (batch,) = loader
    assert type(batch) is (torch.Tensor if isinstance(sample, np.ndarray) else type(sample))
    if isinstance(sample, collections.defaultdict):
        assert batch["absent"] == 0
        del batch["absent"]
    assert_same(batch, expected)


class Own(tuple):
    """Is not made of its parts."""

    def __new__(cls, first, second=0):
        return super().__new__(cls, (first, second))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sequence_that_is_not_made_of_its_parts_becomes_a_plain_one(workers):
    sample = {"size": torch.Size([2, 3]), "own": Own(1, 2), "named": Pair(1, torch.Size([4]))}
    with stoker_workers([sample] * 2, 2, workers, multiprocessing_context="fork") as loader:
        (batch,) = loader
    assert [part.tolist() for part in batch["size"]] == [[2, 2], [3, 3]] and type(batch["size"]) is tuple
    assert [part.tolist() for part in batch["own"]] == [[1, 1], [2, 2]] and type(batch["own"]) is tuple
    assert type(batch["named"]) is Pair and batch["named"].label[0].tolist() == [4, 4]
    assert map_tensors(lambda tensor: tensor, Own(torch.ones(1), torch.ones(2)))[1].tolist() == [1, 1]


def assert_same(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    elif isinstance(theirs, collections.abc.Mapping):
        assert list(ours) == list(theirs)
        assert_same(list(ours.values()), list(theirs.values()))
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            assert_same(a, b)
    else:
        assert ours == theirs


class Holder:
    """A user's class of batches."""

    def __init__(self, samples):
        self.inner = [torch.stack(samples), np.ones(3)]
        self.name = "held"


def test_a_collate_function_may_return_anything():
    with stoker_workers([torch.ones(2)] * 4, 4, 1, collate_fn=Holder) as loader:
        (batch,) = loader
    assert isinstance(batch, Holder) and batch.name == "held" and batch.inner[0].shape == (4, 2)
    assert [type(value) for value in batch.inner] == [torch.Tensor, np.ndarray]
    (batch,) = stoker.Loader(Numbers(2), 2, workers=0, collate_fn=list, framework="numpy", shuffle=False)
    assert batch[1][0] == 1 and isinstance(batch[1][1], np.ndarray)


def test_numpy_names_and_mistakes():
    samples = [{"image": np.full((2, 2), i), "label": i} for i in range(6)]
    image, label = next(iter(stoker.Loader(samples, 3, workers=0, as_tuple=True, framework="numpy", shuffle=False)))
    assert isinstance(image, np.ndarray) and image[2, 0, 0] == label[2] == 2
    assert all(type(batch) is tuple for batch in stoker.Loader([(1, 2)] * 4, 2, workers=0, as_tuple=True))
    mistakes = [
        (samples, {"as_tuple": ("image", "mask")}, r"\[as_tuple\].*a dict of image, label"),
        ([np.zeros(2), np.zeros(3)], {}, r"equal shapes, got \(2,\) and \(3,\)"),
        ([1, "a"], {}, "equal types, got str beside int"),
        ([object()] * 2, {}, "got object; collate_fn"),
        ([{"a": 1}, {"b": 1}], {}, "equal keys"),
        ([torch.ones(1, dtype=torch.bfloat16)] * 2, {"framework": "numpy"}, "types that NumPy has, got bfloat16"),
    ]
    for data, options, message in mistakes:
        with pytest.raises(stoker.InvalidArgument, match=message):
            list(stoker.Loader(data, 2, workers=0, shuffle=False, **options))


ARGUMENTS = {
    "paths": (["a", "b"], {"ops": [stoker.transforms.Resize(3)]}, r"got a list of paths or text; write \[stoker.open"),
    "paths to Python": (["a"], {"ops": [stoker.transforms.InPython(len)]}, r"got a list .*; write \[stoker.open"),
    "a mixture": ([stoker.open("synth:digits?count=9"), "a"], {}, r"alone in a list, got str among them; write"),
    "a generator": ((i for i in range(3)), {}, "got a generator"),
    "no data": (5, {}, "an object with __getitem__ and __len__, or one with __iter__, got int"),
    "a dict": ({"train": 1}, {}, "got dict"),
    "empty": ([], {}, "at least one sample"),
    "ops": ([1, 2], {"ops": [stoker.transforms.Resize(3)]}, r"\[ops\] expected a data set of stoker.open"),
    "views": ([1, 2], {"views": 2}, r"\[views\]"),
    "rank": ([1, 2], {"rank": 2, "world_size": 2}, "a rank from 0 to 1"),
    "method": ([1, 2], {"multiprocessing_context": "thread"}, "fork, spawn, forkserver"),
    "budget": ([1, 2], {"bad_samples": "some"}, r'\[bad_samples\] expected a number .*, got "some"'),
    "collate": ("synth:digits?count=9", {"collate_fn": len}, r"\[collate_fn\] expected a Python data set"),
    "context": ("synth:digits?count=9", {"multiprocessing_context": "fork"}, r"\[multiprocessing_context\]"),
}


@pytest.mark.parametrize("mistake", ARGUMENTS)
def test_arguments_are_checked(mistake):
    source, options, message = ARGUMENTS[mistake]
    with pytest.raises(stoker.InvalidArgument, match=message):
        stoker.Loader(source, 2, **options)


@pytest.mark.parametrize("source", [Numbers(8), Lines(8), "synth:digits?count=8"], ids=["indexed", "stream", "opened"])
@pytest.mark.parametrize("state", [{}, None])
def test_what_is_no_state_is_named(source, state):
    with pytest.raises(stoker.InvalidArgument, match="state_dict"):
        stoker.Loader(source, 2, workers=0).load_state_dict(state)


def test_what_spawn_cannot_pickle_is_named():
    loader = stoker.Loader(Numbers(4), 2, workers=1, collate_fn=lambda samples: samples, multiprocessing_context="spawn")
    with pytest.raises(stoker.InvalidArgument, match="pickled for spawn.*lambda"):
        next(iter(loader))


def test_held_batches_keep_their_values_and_released_memory_is_used_again():
    with stoker_workers([np.full(5000, i) for i in range(40)], 4, 2, shuffle=False) as loader:
        held = list(loader)
        assert [batch[:, 0].tolist() for batch in held] == [[4 * i + j for j in range(4)] for i in range(10)]
        del held
        addresses = {batch.data_ptr() for _ in range(6) for batch in loader}
        assert len(addresses) <= 14
        kept = next(iter(loader))
    loader.close()
    assert kept[:, 0].tolist() == [0, 1, 2, 3]
    kept.zero_()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_keeps_its_order_and_resumes_at_every_batch(workers):
    loader = stoker.Loader(Lines(11), 3, workers=workers, drop_last=False)
    assert loader.workers == workers
    whole, states = [], [loader.state_dict()]
    for _ in range(2):
        for batch in loader:
            whole.append(batch)
            states.append(loader.state_dict())
    assert [batch["line"].tolist() for batch in whole[:4]] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]
    assert whole[4]["line"].tolist() == [100, 101, 102] and whole[0]["text"][2] == "line 2"
    for at in (0, 1, 3, 5):
        loader.load_state_dict(states[at])
        rest = list(loader)
        for ours, theirs in zip(rest, whole[at:]):
            assert ours["line"].tolist() == theirs["line"].tolist() and torch.equal(ours["random"], theirs["random"])
        assert len(rest) == 4 - at % 4
    with pytest.raises(TypeError):
        len(loader)
    assert len(list(stoker.Loader(Lines(11), 3, workers=workers, drop_last=True))) == 3
    loader.close()


class Shared(torch.utils.data.IterableDataset):
    """A stream that divides itself among the workers, in unequal shares, as torch's users write it."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        share = range(10) if info is None else [i for i in range(10) if min(i // 4, 2) == info.id]
        yield from share


def test_a_stream_that_divides_itself():
    with stoker_workers(Shared(), 2, 3, multiprocessing_context="fork") as loader:
        whole = [batch.tolist() for batch in loader]
        assert whole == [[0, 1], [4, 5], [8, 9], [2, 3], [6, 7]]
        for at in range(5):
            loader.load_state_dict({**loader.state_dict(), "epoch": 0, "batch": at})
            assert [batch.tolist() for batch in loader] == whole[at:]
    assert [batch.tolist() for batch in stoker.Loader(Shared(), 5, workers=0)] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    parts = [list(stoker.Loader(Shared(), 2, workers=0, rank=rank, world_size=2)) for rank in (0, 1)]
    assert [[batch.tolist() for batch in part] for part in parts] == [[[0, 1], [4, 5], [8]], [[2, 3], [6, 7], [9]]]
    with stoker_workers(Lines(9), 2, 2) as loader, pytest.raises(stoker.InvalidArgument, match="did not ask for it"):
        list(loader)


class Counted(Lines):
    def __len__(self):
        return self.size


@pytest.mark.parametrize("size, drop_last, batches", [(8, False, 2), (9, False, 2), (10, False, 3), (11, True, 2)])
def test_the_length_of_a_stream_is_that_of_each_rank(size, drop_last, batches):
    for rank in (0, 1):
        loader = stoker.Loader(Counted(size), 2, workers=0, rank=rank, world_size=2, drop_last=drop_last)
        assert len(loader) == len(list(loader)) == batches


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_a_stream_ends_the_run(workers):
    with stoker_workers(Lines(9, error_at=4), 2, workers, bad_samples=5) as loader:
        batches = iter(loader)
        next(batches), next(batches)
        with pytest.raises(ValueError, match="a broken line"):
            next(batches)
