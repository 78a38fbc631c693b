# What data sets and programs that were written for torch's DataLoader do, in the processes of stoker.Loader.
import collections
import os
import pickle
import signal
import time

import numpy as np
import pytest

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
torch = pytest.importorskip("torch")
from stoker._program import find_program  # noqa: E402
from stoker.processes.transport import Slots  # noqa: E402
from torch.utils.data import Dataset, IterableDataset, get_worker_info  # noqa: E402


class BeginsAgain(IterableDataset):
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return RestartingIterator(self.size)


class RestartingIterator:
    """Begins again where it is asked behind its end."""

    def __init__(self, size):
        self.size, self.at = size, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == self.size:
            self.at = 0
            raise StopIteration
        self.at += 1
        return self.at


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("size, batches", [(10, [4, 4, 2]), (8, [4, 4])])
def test_a_stream_that_begins_again_ends_all_the_same(workers, size, batches):
    loader = stoker.Loader(BeginsAgain(size), 4, workers=workers)
    for _ in range(2):
        assert [len(batch) for batch in loader] == batches


class Seeds(IterableDataset):
    def __iter__(self):
        yield get_worker_info().seed


def test_a_workers_seed_is_another_one_in_each_epoch():
    loader, other = (stoker.Loader(Seeds(), 1, workers=1) for _ in range(2))
    seeds = [next(iter(loader)).item() for _ in range(3)]
    assert len(set(seeds)) == 3
    assert [next(iter(other)).item() for _ in range(3)] == seeds


class Dividing(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield info.seed - info.id
        assert info.num_workers == 2


class Told(Dataset):
    def __len__(self):
        return 2

    def set_epoch(self, epoch):
        self.seed = get_worker_info().seed

    def __getitem__(self, index):
        return self.seed - get_worker_info().seed


def test_workers_share_the_seed_by_which_a_stream_is_shuffled():
    first, second = (batch.item() for batch in stoker.Loader(Dividing(), 1, workers=2))
    assert first == second
    for _ in range(2):
        assert [batch.tolist() for batch in stoker.Loader(Told(), 2, workers=1)] == [[0, 0]]


class FailsOnTheWay(IterableDataset):
    fails = False

    def __iter__(self):
        for i in range(12):
            if i == 2 and type(self).fails:
                raise OSError("the network")
            yield i


def test_an_error_on_the_way_to_a_position_leaves_it():
    loader = stoker.Loader(FailsOnTheWay(), 2, workers=0)
    for number, _ in enumerate(loader, 1):
        if number == 4:
            break
    state = loader.state_dict()
    FailsOnTheWay.fails = True
    loader.load_state_dict(state)
    with pytest.raises(OSError, match="the network"):
        next(iter(loader))
    assert loader.state_dict() == state
    FailsOnTheWay.fails = False
    loader.load_state_dict(loader.state_dict())
    assert next(iter(loader)).tolist() == [8, 9]


def test_one_large_batch_does_not_keep_its_memory():
    slots, dropped = Slots(), []
    other, _ = slots.take(4096, dropped)
    large, _ = slots.take(64 << 20, dropped)
    slots.free([large.number, other.number], keep=4)
    for _ in range(17):
        small, _ = slots.take(4096, dropped)
        slots.free([small.number], keep=4)
    assert dropped == [large.number]
    slots.take(1, dropped)
    assert slots.take(4096, dropped)[0].size == 4096
    large.close_file()


class Image(torch.Tensor):
    pass


MIXED = {
    "dtypes": ([torch.ones(2), torch.ones(2, dtype=torch.float64)], torch.ones(2, 2, dtype=torch.float64)),
    "dtypes of arrays": ([np.ones(2, np.uint8), np.ones(2, np.int16)], torch.ones(2, 2, dtype=torch.int16)),
    "subclasses": ([torch.ones(2), torch.ones(2).as_subclass(Image)], torch.ones(2, 2)),
    "kinds of arrays": ([np.ones(2).view(np.memmap), np.ones(2)], torch.ones(2, 2, dtype=torch.float64)),
    "kinds of dicts": ([{"a": 1}, collections.OrderedDict(a=1)], {"a": torch.ones(2, dtype=torch.int64)}),
    "tuples and lists": ([(1, 2), [1, 2]], (torch.ones(2, dtype=torch.int64), torch.full((2,), 2))),
}


@pytest.mark.parametrize("name", MIXED)
def test_samples_of_one_kind_may_have_several_types(name):
    samples, wanted = MIXED[name]
    batch = next(iter(stoker.Loader(samples, 2, workers=0, shuffle=False)))
    assert type(batch) is type(wanted)
    torch.testing.assert_close(batch, wanted)


def test_what_is_of_another_kind_is_refused():
    masked, times = np.ma.ones(2), np.zeros(2, "datetime64[s]")
    for samples in ([torch.ones(2), np.ones(2)], [np.ones(2), masked], [np.ones(2), times], [{"a": 1}, (1,)], [torch.ones(2), torch.ones(3)]):
        with pytest.raises(stoker.InvalidArgument, match="collate"):
            next(iter(stoker.Loader(samples, 2, workers=0)))


def test_attributes_of_a_dataloader_are_explained():
    loader = stoker.Loader([1, 2], 2)
    assert not hasattr(loader, "num_workers")
    with pytest.raises(AttributeError, match=r"no sampler; loader.set_epoch\(epoch\)"):
        loader.sampler.set_epoch(1)
    with pytest.raises(AttributeError, match="no other$"):
        loader.other  # noqa: B018


class Forks(Dataset):
    """A worker that leaves a process behind, which holds the worker's pipe, and is killed."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_seen_behind_a_process_that_it_has_forked():
    start = time.monotonic()
    with pytest.raises(stoker.IoError, match="SIGKILL"):
        next(iter(stoker.Loader(Forks(), 2, workers=1, multiprocessing_context="fork")))
    assert time.monotonic() - start < 15


def test_a_data_set_is_found_from_another_folder(tmp_path, monkeypatch):
    (tmp_path / "data/a").mkdir(parents=True)
    from PIL import Image as Pillow

    Pillow.new("RGB", (4, 4)).save(tmp_path / "data/a/0.png")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    text = pickle.dumps(stoker.open("data"))
    monkeypatch.chdir(tmp_path / "other")
    assert len(pickle.loads(text)) == 1


@pytest.mark.parametrize(
    "options, message",
    [
        ({"split": "val"}, r"\[split\] expected one of train, test, validation, got 'val'"),
        ({"context": "3"}, r"\[context\] expected an integer"),
    ],
)
def test_impossible_arguments_of_open_are_named(options, message):
    with pytest.raises(stoker.InvalidArgument, match=message):
        stoker.open("synth:digits?count=9", **options)
    with pytest.raises(stoker.InvalidArgument, match=r"\[share\] expected a number"):
        stoker.open("synth:digits?count=9").split("0.1")
    with pytest.raises(stoker.InvalidArgument, match="a path in UTF-8"):
        stoker.open(b"data/\xff")


def test_a_mistyped_program_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("STOKER_BIN", str(tmp_path / "relase/stoker"))
    with pytest.raises(FileNotFoundError, match="relase/stoker, which cannot be run"):
        find_program()
    monkeypatch.setenv("STOKER_BIN", "env")  # a name of PATH
    assert find_program().name == "env"
