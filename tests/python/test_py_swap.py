# Differences for a program that swaps torch's DataLoader for stoker.Loader: collate functions, labels that it keeps,
# data sets that look at their worker or their epoch, and errors that it catches.
import collections
import enum
import operator
import subprocess
import sys
import threading
import warnings
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from conftest import draw_noise
from python_datasets import Numbers
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import Subset, default_collate, get_worker_info

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")

from stoker.processes import pool  # noqa: E402
from stoker.torch import DevicePrefetcher, map_tensors  # noqa: E402

Color = enum.IntEnum("Color", "red green")


class Pictures(Numbers):
    def __getitem__(self, index):
        return torch.full((3, 32, 32), float(index)), index


class Told(Numbers):
    """Samples are the epoch that it was told, and the number of the worker."""

    epoch = -1

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, index):
        worker = get_worker_info()
        return self.epoch, -1 if worker is None else worker.id, -1 if worker is None else worker.num_workers


@pytest.mark.parametrize("workers", [0, 1])
def test_labels_that_are_kept_keep_no_images(workers):
    labels, places = [], set()
    loader = stoker.Loader(Pictures(320), 8, workers=workers, prefetch=1, shuffle=False)
    for images, own in loader:
        labels.append(own)
        places.add(images.data_ptr())
        assert images[:, 0, 0, 0].tolist() == own.tolist()
        own += 0  # may be changed
        del images
    assert torch.cat(labels).tolist() == list(range(320)) and len(places) <= 8
    loader.close()


def test_labels_of_files_keep_no_images(tmp_path):
    np.savez(tmp_path / "x.npz", images=np.zeros((320, 32, 32, 3), np.uint8), labels=np.arange(320) % 10)
    labels, places = [], set()
    for batch in stoker.Loader(tmp_path / "x.npz", 8, workers=1, prefetch=1, shuffle=False):
        labels.append(batch["label"])
        places.add(batch["image"].data_ptr())
        del batch
    assert torch.cat(labels).tolist() == [i % 10 for i in range(320)] and len(places) <= 8


@pytest.mark.parametrize("workers", [0, 1])
def test_a_collate_functions_arrays_stay_arrays(workers):
    def collate(samples):
        return {"x": np.stack([image.numpy() for image, _ in samples]), "y": torch.tensor([y for _, y in samples])}

    loader = stoker.Loader(Pictures(4), 4, workers=workers, shuffle=False, collate_fn=collate)
    batch = next(iter(loader))
    assert type(batch["x"]) is np.ndarray and batch["x"][:, 0, 0, 0].tolist() == batch["y"].tolist() == [0, 1, 2, 3]
    batch["x"] += 1
    loader.close()
    default = next(iter(stoker.Loader([np.zeros(3), np.ones(3)], 2, workers=0)))
    assert type(default) is torch.Tensor
    tensors = stoker.Loader(Pictures(4), 4, workers=0, collate_fn=collate, framework="torch")
    assert type(next(iter(tensors))["x"]) is torch.Tensor


@pytest.mark.parametrize("samples", [
    [1, np.int64(2)], [np.int64(1), 2], [0.5, np.float64(1)], [np.float32(0.5), 1.0], [1, 2.5], [Color.red, 2], [True, False],
    [np.int32(1), np.int32(2)], [np.bool_(True), np.bool_(False)],
])
def test_numbers_of_several_types_are_joined_as_by_torch(samples):
    ours = next(iter(stoker.Loader(samples, 2, workers=0, shuffle=False)))
    assert ours.tolist() == default_collate([*samples]).tolist()
    if len({type(sample) for sample in samples}) == 1:  # else torch takes the type of the first
        assert ours.dtype == default_collate([*samples]).dtype


def test_bools_are_bools_alone():
    for samples, kind in [([np.bool_(True), False], torch.bool), ([True, 2], torch.int64), ([False, 0.5], torch.float64)]:
        assert next(iter(stoker.Loader(samples, 2, workers=0))).dtype is kind


def test_a_data_set_sees_its_worker_and_its_epoch():
    for workers in (0, 2):
        loader = stoker.Loader(Told(8), 2, workers=workers)
        for epoch in range(3):
            told, ids, count = (torch.cat(part) for part in zip(*loader))
            assert told.tolist() == [epoch] * 8
            assert set(ids.tolist()) <= (set(range(workers)) or {-1}) and set(count.tolist()) == {workers or -1}
        loader.close()


def test_a_collate_function_sees_no_worker():
    """With one, torch's default_collate would take shared memory of /dev/shm."""
    loader = stoker.Loader(Numbers(4), 2, workers=1, collate_fn=lambda samples: get_worker_info() is None)
    assert list(loader) == [True, True]
    loader.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loop_may_go_on_behind_an_error(workers):
    def collate(samples):
        if 2 in samples:
            raise ValueError("two")
        return samples

    loader = stoker.Loader(list(range(8)), 2, workers=workers, shuffle=False, collate_fn=collate)
    seen = []
    with pytest.raises(ValueError, match="two"):
        for batch in loader:
            seen.append(batch)
    loader.load_state_dict(loader.state_dict())
    assert seen + list(loader) == [[0, 1], [4, 5], [6, 7]] and loader.epoch == 1
    loader.close()


class Once:
    """Raises at its first call."""

    def __init__(self):
        self.calls = 0

    def __call__(self, value=None):
        self.calls += 1
        if self.calls == 1:
            raise ValueError("once")
        return value


class OnceData(Numbers):
    def __init__(self, size, error):
        super().__init__(size)
        self.error = error

    def __getitem__(self, index):
        return self.error(index) if index == 0 else index


class OnceStream:
    def __init__(self, error):
        self.error = error

    def __iter__(self):
        self.error()
        return iter(range(4))


FIRST_ERRORS = {
    "a sample": lambda: stoker.Loader(OnceData(4, Once()), 2, workers=0, bad_samples=0, shuffle=False),
    "collate_fn": lambda: stoker.Loader(list(range(4)), 2, workers=0, collate_fn=Once()),
    "a stream": lambda: stoker.Loader(OnceStream(Once()), 2, workers=0),
}


@pytest.mark.parametrize("source", FIRST_ERRORS)
def test_the_loop_after_an_error_in_the_first_batch_is_another_epoch(source):
    loader = FIRST_ERRORS[source]()
    with pytest.raises((ValueError, stoker.TooManyBadSamples), match="once"):
        list(loader)
    assert loader.epoch == 0 and sorted(np.concatenate([*loader]).tolist()) == [0, 1, 2, 3] and loader.epoch == 2
    again = FIRST_ERRORS[source]()
    with pytest.raises((ValueError, stoker.TooManyBadSamples)):
        list(again)
    again.load_state_dict(again.state_dict())
    assert len(list(again)) == 1 and again.epoch == 1  # the rest of the same one


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_in_the_first_batch_of_files(tmp_path, workers):
    for index in range(4):
        draw_noise(tmp_path / f"a/{index}.png", seed=index)
    (tmp_path / "a/1.png").write_bytes(b"no image")
    loader = stoker.Loader(tmp_path, 2, workers=workers, bad_samples=0, shuffle=False)
    for epoch in range(3):  # each begins with the same batch
        assert loader.state_dict()["batch"] == (0 if epoch == 0 else 1)
        with pytest.raises(stoker.TooManyBadSamples, match="1.png"):
            list(loader)
        assert loader.epoch == epoch
    loader.close()


@pytest.mark.parametrize("error", ["bdb.BdbQuit()", "RuntimeError('Cannot re-initialize CUDA in forked subprocess.')"])
def test_what_every_sample_meets_ends_the_loop(error):
    script = f"""
import bdb, stoker
class Data:
    def __len__(self): return 1000
    def __getitem__(self, index): raise {error}
next(iter(stoker.Loader(Data(), 4, workers=0, framework="numpy")))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=dict(PYTHONPATH=":".join(sys.path)))
    assert done.returncode == 1 and "bad_samples" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(("bdb.BdbQuit", "RuntimeError: Cannot re-initialize CUDA"))


def test_a_long_wait_names_the_workers(monkeypatch):
    monkeypatch.setattr(pool, "_LONG_SECONDS", 0.2)
    monkeypatch.setattr(pool, "_WAIT_SECONDS", 0.1)
    release = threading.Event()  # of this process: the worker's copy is never set

    class Hanging(Numbers):
        def __getitem__(self, index):
            release.wait(1)
            return index

    loader = stoker.Loader(Hanging(2), 1, workers=1)
    with pytest.warns(UserWarning, match=r"no batch for 0 s from worker processes \d+; `py-spy dump"):
        next(iter(loader))
    loader.close()


def test_a_process_group_without_ranks_is_warned_of(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 3)
    loader = stoker.Loader(Numbers(8), 2, workers=0)
    with pytest.warns(UserWarning, match=r"4 processes.*rank=3 and world_size=4"):
        list(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader)  # once
        list(stoker.Loader(Numbers(8), 2, workers=0, shuffle=False))  # each process evaluates all of it
        list(stoker.Loader(Numbers(8), 2, workers=0, rank=3, world_size=4))


def test_messages_say_what_to_write_instead(tmp_path):
    np.savez(tmp_path / "x.npz", images=np.zeros((8, 4, 4, 3), np.uint8), labels=np.arange(8))
    data = stoker.open(tmp_path / "x.npz")
    with pytest.raises(stoker.InvalidArgument, match=r"got None; batch_size=1 with collate_fn=operator.itemgetter\(0\)"):
        stoker.Loader(Numbers(8), batch_size=None)
    passed = stoker.Loader(["one", "two"], 1, workers=0, shuffle=False, collate_fn=operator.itemgetter(0))
    assert list(passed) == ["one", "two"]
    for ops in ([stoker.transforms.RandomHorizontalFlip()], [stoker.transforms.InPython(lambda image: image)]):
        with pytest.raises(stoker.InvalidArgument, match=r"got Subset; write data\[subset.indices\]"):
            stoker.Loader(Subset(data, [1, 2]), 2, ops=ops)
    with pytest.raises(TypeError, match=r"expected shuffle= and seed= for the order.*balance=True"):
        stoker.Loader(Numbers(8), 2, sampler=[1, 2])


class Graphs:
    """As batches of PyTorch Geometric, it moves its tensors itself."""

    def __init__(self, device="cpu"):
        self.device = device

    def to(self, device):
        return Graphs(str(device))


def test_objects_move_their_tensors_themselves():
    Pair = collections.namedtuple("Pair", "graphs x")
    batches = [Pair(Graphs(), torch.zeros(2)), {"packed": pack_sequence([torch.ones(2)])}]
    pair, packed = DevicePrefetcher(batches, "meta")
    assert pair.graphs.device == "meta" and pair.x.device.type == "meta"
    assert packed["packed"].data.device.type == "meta"
    assert map_tensors(lambda tensor: tensor + 1, Pair([torch.zeros(1)], "x")) == Pair([torch.ones(1)], "x")


# A user's data set around one of stoker.open, which the parent has read from before it forks.
REMOTE = """
import sys, stoker
class Remote:
    def __init__(self, url): self.data = stoker.open(url)
    def __len__(self): return len(self.data)
    def __getitem__(self, index): return self.data[index]["label"]
data = Remote(sys.argv[1])
print(data[5], flush=True)
sys.stdin.readline()
loader = stoker.Loader(data, 8, workers=2, shuffle=False, multiprocessing_context="fork", framework="numpy")
print([label for batch in loader for label in batch.tolist()] == list(range(64)), flush=True)
"""


def test_forked_workers_open_remote_data_again(tmp_path):
    np.savez(tmp_path / "x.npz", images=np.zeros((64, 8, 8, 3), np.uint8), labels=np.arange(64))
    stoker.pack(tmp_path / "x.npz", tmp_path / "x.tar")
    ports = set()

    class Handler(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def send_head(self):
            ports.add(self.client_address[1])
            return super().send_head()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    command = [sys.executable, "-c", REMOTE, f"http://127.0.0.1:{server.server_port}/x.tar"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={"PYTHONPATH": ":".join(sys.path)}, **pipes) as program:
        assert program.stdout.readline() == "5\n"
        parent = set(ports)
        ports.clear()
        out, _ = program.communicate("\n", timeout=120)
    server.shutdown()
    server.server_close()
    thread.join()
    assert out == "True\n" and program.returncode == 0
    assert ports and not ports & parent, "a worker used a connection of the parent"
