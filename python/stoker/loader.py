"""The loader: worker threads of the C++ engine prepare batches, Python takes them without a copy."""

import importlib
import importlib.util
import json
import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stoker import _stoker
from stoker._arguments import one_of, whole
from stoker.dataset import Dataset
from stoker.dataset import open as open_dataset
from stoker.errors import InvalidArgument
from stoker.transforms import Transform, op_tables

Ops = Sequence[Transform | Mapping[str, Any]]


@dataclass(frozen=True)
class BadSample:
    """A sample that could not be read or decoded."""

    index: int
    key: str
    reason: str
    replaced_by: int | None  # the index of the sample in its place


class BadSampleWarning(UserWarning):
    """A sample could not be read or decoded, and another one was taken in its place."""


class Loader:
    """Iterates over batches of a data set: one epoch for each `for` loop.

    A batch is a dict of tensors: "image" (N, C, H, W), "label" int64 (N), "index" int64 (N), "key" (a list of str), and
    the data set's further fields: masks uint8 (N, H, W), other fields of a fixed shape (N, shape...), fields of any
    length as a list of N tensors (or with `pad` as one tensor (N, pad, ...) and NAME_length int64 (N)), bytes as a list.
    A tensor lies in the loader's memory and may be changed in place; the memory is reused when all tensors of its batch
    are gone.

    Order and random ops depend on (seed, epoch, sample) alone: any number of workers gives the same bytes, which are
    those of `stoker train`. Workers are threads and never wait for Python. While an epoch ends they already prepare the
    next one.

    source: a data set of stoker.open, or what stoker.open takes.
    batch_size: samples in a batch of this rank, as in torch's DataLoader.
    ops: stoker.transforms, or tables as in a recipe's train_ops; they run on the image, on masks and on boxes. Images
        are divided by 255 also without Normalize, unless dtype is "uint8".
    workers: threads; 0 works in the thread that asks for a batch; "auto": the cores that this process may use.
    shuffle, seed: another order in each epoch.
    drop_last: leave out the last batch of an epoch where it is smaller than the others.
    rank, world_size: this process's part of each batch of world_size * batch_size samples.
    prefetch: batches in flight beyond the one in use.
    dtype: of images: "float32", "float16", "bfloat16", "uint8" (not normalised), or the same of torch or NumPy.
    channels_last: images (N, C, H, W) in channels-last memory.
    as_tuple: names of fields: batches are tuples of these; True: ("image", "label").
    framework: of the tensors; "auto": torch where it is installed, otherwise NumPy.
    views: images of each sample, each with random ops of its own: "image", "image_2", ...
    balance: draw every class equally often.
    pad: entries in the batch of fields of any length, by name.
    field_ops: other ops for a further image or a mask, by name.
    bad_samples: how many samples of an epoch may be replaced because they cannot be decoded, or their share ("0.1%");
        each is warned of once and kept in `loader.bad_samples`.
    cache, cache_bytes: keep samples for the next epochs in "ram" or on "disk".
    decode: "fast" decodes JPEGs at 1/2, 1/4 or 1/8 where they are reduced anyway, with slightly other pixels.
    exif: rotate images by their EXIF orientation. channels: 1 for grey images.

    Raises InvalidArgument for impossible arguments, and the error of the first sample if that cannot be read.
    """

    def __init__(
        self,
        source: Dataset | str | os.PathLike[str],
        batch_size: int = 64,
        *,
        ops: Ops = (),
        workers: int | Literal["auto"] = "auto",
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
        prefetch: int = 3,
        dtype: Any = "float32",
        channels_last: bool = False,
        as_tuple: bool | Sequence[str] = False,
        framework: Literal["auto", "torch", "numpy", "jax"] = "auto",
        views: int = 1,
        balance: bool = False,
        pad: Mapping[str, int] | None = None,
        field_ops: Mapping[str, Ops] | None = None,
        bad_samples: int | str = "0.1%",
        cache: Literal["none", "ram", "disk"] = "none",
        cache_bytes: int = 4 << 30,
        decode: Literal["exact", "fast"] = "exact",
        exif: bool = False,
        channels: int | None = None,
    ) -> None:
        self._given = {name: value for name, value in locals().items() if name not in ("self", "source")}
        arguments: dict[str, Any] = {
            "batch_size": whole("batch_size", batch_size, 1) * whole("world_size", world_size, 1),
            "ops": op_tables(ops),
            "workers": None if workers == "auto" else whole("workers", workers, 0),
            "shuffle": bool(shuffle),
            "seed": whole("seed", seed, 0, 64),
            "drop_last": bool(drop_last),
            "rank": whole("rank", rank, 0),
            "world_size": whole("world_size", world_size, 1),
            "prefetch": whole("prefetch", prefetch, 1),
            "dtype": str(dtype).rpartition(".")[2] if not isinstance(dtype, type) else dtype.__name__,
            "channels_last": bool(channels_last),
            "views": whole("views", views, 1),
            "balance": bool(balance),
            "pad": {name: whole(f"pad[{name!r}]", entries, 1) for name, entries in (pad or {}).items()},
            "field_ops": {name: op_tables(own) for name, own in (field_ops or {}).items()},
            "bad_samples": str(bad_samples),
            "cache": one_of("cache", cache, ("none", "ram", "disk")),
            "cache_bytes": whole("cache_bytes", cache_bytes, 0, 63),
            "decode": one_of("decode", decode, ("exact", "fast")),
            "exif": bool(exif),
            "channels": one_of("channels", channels, (None, 1, 3)),
        }
        self.dataset = _opened(source)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.bad_samples: dict[int, BadSample] = {}
        self._names = ("image", "label") if as_tuple is True else tuple(as_tuple) if as_tuple else None
        self._to_tensor = _converter(one_of("framework", framework, ("auto", "torch", "numpy", "jax")))
        self._byte_fields = {field.name for field in self.dataset.fields if field.kind == "bytes"}
        self._handle = _stoker.Loader(self.dataset._handle, arguments)
        for name in self._names or ():
            one_of("as_tuple", name, tuple(self._handle.fields()))
        self._close = weakref.finalize(self, self._handle.close)  # also when the interpreter ends
        self._epoch = 0
        self._begun = False  # a batch of this epoch was taken since the epoch began or a state was loaded
        self._passes = 0

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self._handle.batches()

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch, or its rest after load_state_dict. Only the newest iterator of a loader is valid."""
        if self._begun:  # the loop before was left early
            self._go_to(self._epoch + 1)
        self._passes += 1
        return self._batches(self._passes)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.dataset, self._given, self.state_dict())

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._epoch

    @property
    def workers(self) -> int:
        """The number of worker threads."""
        return self._handle.workers()

    def set_epoch(self, epoch: int) -> None:
        """The next loop gives this epoch. A loaded position inside of the same epoch stays."""
        if whole("epoch", epoch, 0) != self._epoch or self._begun:
            self._go_to(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The position of the next batch, as a small dict for JSON."""
        return dict(json.loads(self._handle.state()))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop continues exactly there, with any number of workers, and of ranks if the whole batch is equal.

        Raises InvalidArgument for a state of other data, another seed or another batch size.
        """
        self._handle.restore(json.dumps(dict(state)))
        self._epoch = int(state["epoch"])
        self._begun = False
        self._passes += 1

    def close(self) -> None:
        """Ends the worker threads. Batches that are in use stay valid."""
        self._close()

    def _go_to(self, epoch: int) -> None:
        self.load_state_dict({**self.state_dict(), "epoch": epoch, "batch": 0, "bad_samples": 0})

    def _batches(self, number: int) -> Iterator[Any]:
        while True:
            if number != self._passes:
                raise InvalidArgument("[loader] expected one iterator at a time, got a newer one or another position")
            taken = self._handle.next(self._names)
            if taken is None:
                self._epoch += 1
                self._begun = False
                return
            self._begun = True
            fields, bad = taken
            if bad:
                self._warn(bad)
            yield self._batch(fields)

    def _batch(self, fields: dict[str, Any]) -> Any:
        batch = {name: self._value(name, value) for name, value in fields.items()}
        return batch if self._names is None else tuple(batch[name] for name in self._names)

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, list):  # the keys
            return value
        if not isinstance(value, tuple):
            return self._to_tensor(value)
        values, offsets = value  # of any length
        ranges = zip(offsets, offsets[1:])
        if name in self._byte_fields:
            memory = memoryview(values)
            return [memory[begin:end].tobytes() for begin, end in ranges]
        tensor = self._to_tensor(values)
        return [tensor[begin:end] for begin, end in ranges]

    def _warn(self, found: list[tuple[int, str, str, int | None]]) -> None:
        for bad in (BadSample(*fields) for fields in found):
            if bad.index not in self.bad_samples:
                self.bad_samples[bad.index] = bad
                warnings.warn(f"[{bad.key}] replaced: {bad.reason}", BadSampleWarning, stacklevel=3)


def _unpickle(dataset: Dataset, given: dict[str, Any], state: dict[str, Any]) -> Loader:
    loader = Loader(dataset, **given)
    loader.load_state_dict(state)
    return loader


def _opened(source: Any) -> Dataset:
    if isinstance(source, Dataset):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidArgument(f"[source] expected a path, a URL or a data set of stoker.open, got {type(source).__name__}")
    return open_dataset(source)


def _converter(framework: str) -> Callable[[Any], Any]:
    """Makes a tensor over the memory of an array of the extension."""
    if framework == "auto":
        framework = "torch" if importlib.util.find_spec("torch") else "numpy"
    if framework == "numpy":
        numpy = importlib.import_module("numpy")
        return lambda array: numpy.asarray(array)
    module = importlib.import_module("torch" if framework == "torch" else "jax.dlpack")
    from_dlpack: Callable[[Any], Any] = module.from_dlpack
    return from_dlpack
