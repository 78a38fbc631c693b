"""The loader: threads of the C++ engine or worker processes prepare batches, Python takes them without a copy."""

import inspect
import json
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from stoker import _stoker, _waiting
from stoker._arguments import one_of, printable, whole
from stoker._frameworks import chosen, converter, delivery, dtype_name
from stoker._keywords import explain_keywords, explained_attribute
from stoker._torchvision_data import InCpp, in_cpp
from stoker.dataset import OPEN_EACH, Dataset
from stoker.dataset import joined as joined_datasets
from stoker.dataset import open as open_dataset
from stoker.engine import BadTuples, EngineSource, late_normalize
from stoker.errors import InvalidArgument
from stoker.transforms.base import Transform, op_tables, split_python

if TYPE_CHECKING:
    from stoker.processes.source import IndexedSource, StreamSource

Ops = Sequence[Transform | Mapping[str, Any]]

# Which loaders take an argument, if not all do: those of data sets of stoker.open, of these those without ops in Python
# ("engine"), or those whose samples Python makes.
_OF = {name: of for *_, name, of in _stoker.settings() if name}
_OF |= dict.fromkeys(("dtype", "channels_last", "pad", "field_ops"), "engine")
_OF |= dict.fromkeys(("collate_fn", "multiprocessing_context"), "python")


@dataclass(frozen=True)
class BadSample:
    """A sample that could not be read or decoded."""

    index: int
    key: str
    reason: str
    replaced_by: int | None  # the index of the sample in its place


class BadSampleWarning(UserWarning):
    """A sample could not be read or decoded, and another one was taken in its place."""


def _require_labels(dataset: Dataset) -> None:
    """Without labels, each of a batch's is -1: a loss over them means nothing."""
    if dataset.classes or any(dataset.label(index) != -1 for index in range(min(len(dataset), 100))):
        return
    fields = [field.name for field in dataset.fields]
    way = f'as_tuple=["image", "{fields[0]}"]' if fields else "stoker.open(..., label=NAME) names the field of the labels"
    raise InvalidArgument(f"[as_tuple] expected data with labels for True, got {dataset!r}; {way}")



class Loader:
    """Iterates over batches of a data set: one epoch for each `for` loop.

    A batch of a data set of stoker.open is a dict of tensors: "image" (N, C, H, W), of clips (N, T, C, H, W), "label" int64 (N), "index"
    int64 (N), "key" (a list of str), and the data set's further fields: masks uint8 (N, H, W), other fields of a fixed
    shape (N, shape...), fields of any length as a list of N tensors (or with `pad` as one tensor (N, pad, ...) and
    NAME_length int64 (N)), bytes as a list. A tensor lies in the loader's memory and may be changed in place; the memory
    is reused when all tensors of its batch above 64 KiB are gone.

    Order and random ops depend on (seed, epoch, sample) alone: any number of workers gives the same bytes, which are
    those of `stoker train`. Workers are threads and never wait for Python. While an epoch ends they already prepare the
    next one.

    The source may also be a Python object: a data set with `__getitem__` and `__len__`, or an iterable (a stream). Then
    workers are processes, a batch has the form of a sample, as in torch's DataLoader, and the order is the same one. The
    global generators of `random`, NumPy and torch are seeded before each sample. docs/python.md has the rules.

    source: a data set of stoker.open, what stoker.open takes, a list of data sets of stoker.open (of the same classes),
        a Python data set, or a stream.

    Settings, which recipes also have:
    batch_size: samples in a batch of this rank, as in torch's DataLoader.
    seed: another order in each epoch; a stream keeps its own.
    workers: threads or processes; 0 works in the thread that asks for a batch; `auto`: the cores that this process may
        use, for a stream 1.
    prefetch: batches in flight beyond the one in use, and beyond those that processes work at.
    weights: for a list of data sets: how often samples of each are drawn, such as [3, 1]; None: by their sizes.
    balance: draws every class equally often.
    epoch_samples: samples in an epoch of all ranks, which continues where the one before ended; None or 0: all.
    bad_samples: how many samples of an epoch may be replaced because they cannot be decoded, or their share; each is
        warned of once and kept in loader.bad_samples. Of a Python data set: samples that raise.
    cache: keep samples for the next epochs in memory or on a local disk.
    cache_bytes: size limit of the cache.
    shuffle: a new order every epoch, given by `seed`.
    shuffle_window: shuffles the shards, then samples only within windows of this many, so that reading stays almost
        sequential; 0: shuffles everything. `auto`: 0, and for remote data as many samples as 128 MiB hold.
    drop_last: drop an epoch's last batch if it is not full.
    jpeg_index: keeps an index in the user's cache folder, so that later epochs and runs decode only a crop's part of a
        JPEG.
    exif: rotate images by their EXIF orientation.
    first_frame: read the first frame of an animation, which is a bad sample otherwise.
    channels: 1: image files become grey; 3: grey arrays get three equal channels; None: image files become RGB.
    decode: `fast`: images that a resize makes smaller may be decoded at 1/2, 1/4 or 1/8 of their size.
    frames: clips and volumes: the frames of a sample, (T, C, H, W), from a random place on, in evaluation and without
        `shuffle` from the middle; arrays of three sides are then (T, H, W), and a folder of images within its class is
        a clip; 0: images, or all frames of clips.
    stride: the distance of neighbouring frames: 8 frames with a stride of 4 are i, i + 4, ... i + 28; a shorter video
        repeats its last frame.
    clips_per_video: clips of each video or sound in an epoch: at random places, in evaluation and without `shuffle`
        evenly spread; `index` counts them.
    sample_rate: sounds: the rate in Hz that they are resampled to; needed for sounds alone.
    seconds: sounds: the length of a sample, from a random place on, in evaluation and without `shuffle` from the
        middle; a shorter sound ends with zeros; 0: all of it.
    views: images of each sample, such as the two views of contrastive learning: the ops run on each with random numbers
        of its own; the batch has `image`, `image_2`, ...
    ops: stoker.transforms, or tables as in a recipe's train_ops; they run on the image, on masks and on boxes. Images
        are divided by 255 also without Normalize, unless dtype is uint8. InPython as the last op: see there.
    bucket_by: a field of any length: a batch has samples of similar length, padded to the length of that batch;
        `image`: a batch has images of one of the sizes of `aspect_crop`.
    batch_tokens: with `bucket_by`: a batch has as many samples as this many entries hold, padding included, in place of
        `batch_size`; 0: off.

    Others:
    rank, world_size: this process's part of each batch of world_size * batch_size samples.
    dtype: of images: "float32", "float16", "bfloat16", "uint8" (not normalised), or the same of torch or NumPy.
    channels_last: images (N, C, H, W) in channels-last memory.
    as_tuple: names of fields: batches are tuples of these; True: ("image", "label").
    framework: of the tensors; "auto": torch where it is installed, otherwise NumPy.
    pad: entries in the batch of fields of any length, by name.
    field_ops: other ops for a further image or a mask, by name.
    collate_fn: joins a list of samples of a Python data set to a batch.
    multiprocessing_context: "fork", "spawn" or "forkserver"; None: Python's default.
    pin_memory: tensors in pinned memory, where there is a CUDA device.
    device: copy batches there, one ahead of their use (stoker.torch.DevicePrefetcher), through pinned memory. To a GPU
        images go as bytes and are divided by 255 and normalised there, with the bits that they have without `device`.

    Raises InvalidArgument for impossible arguments, and the error of the first sample if that cannot be read.
    """

    @explain_keywords
    def __init__(
        self,
        source: Any,
        batch_size: int = 64, *, seed: int = 0, workers: int | Literal["auto"] = "auto", prefetch: int = 3,
        weights: Sequence[float] | None = None, balance: bool = False, epoch_samples: int | None = None,
        bad_samples: int | str = "0.1%", cache: Literal["none", "ram", "disk"] = "none", cache_bytes: int = 4 << 30,
        shuffle: bool = True, shuffle_window: int | Literal["auto"] = "auto", drop_last: bool = False,
        jpeg_index: bool = True, exif: bool = False, first_frame: bool = False, channels: int | None = None,
        decode: Literal["exact", "fast"] = "exact", frames: int = 0, stride: int = 1, clips_per_video: int = 1,
        sample_rate: int = 0, seconds: float = 0, views: int = 1, ops: Ops = (), bucket_by: str = "",
        batch_tokens: int = 0,
        # others
        rank: int = 0, world_size: int = 1, dtype: Any = "float32", channels_last: bool = False,
        as_tuple: bool | Sequence[str] = False, framework: Literal["auto", "torch", "numpy", "jax"] = "auto",
        pad: Mapping[str, int] | None = None, field_ops: Mapping[str, Ops] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        multiprocessing_context: Literal["fork", "spawn", "forkserver"] | None = None,
        pin_memory: bool = False, device: Any = None,
    ) -> None:
        self._given = {name: value for name, value in locals().items() if name not in ("self", "source")}
        for name, least, bits in (("seed", 0, 64), ("rank", 0, 31), ("world_size", 1, 31)):
            self._given[name] = whole(name, self._given[name], least, bits)
        if batch_size is None:  # as in DataLoader, for a source whose samples are batches
            raise InvalidArgument(
                "[batch_size] expected an integer of at least 1, got None; batch_size=1 with "
                "collate_fn=operator.itemgetter(0) passes samples on unchanged"
            )
        used = chosen(framework, dtype)
        self.dataset = _opened(source, clips=frames > 0)
        found = None if collate_fn or multiprocessing_context else in_cpp(self.dataset, ops)
        self.bad_samples: dict[int, BadSample] = {}
        if isinstance(as_tuple, str):
            raise InvalidArgument(f"[as_tuple] expected True or a list of names, got {as_tuple!r}")
        as_tuple = as_tuple or found is not None  # as the samples of the data set are
        self._names = ("image", "label") if as_tuple is True else tuple(as_tuple) if as_tuple else None
        if as_tuple is True and isinstance(self.dataset, Dataset):
            _require_labels(self.dataset)
        self._deliver = delivery(device, pin_memory, used)
        self._late: Callable[[Any], Any] | None = None  # the work on batches that are on their device
        delivers = device is not None or pin_memory
        self._source = self._make_source(converter(used, keeps_arrays=framework == "auto" and not delivers), found)
        weakref.finalize(self, self._source.collected)  # also when the interpreter ends
        self._prefetcher: Any = None
        self._shown_epoch: int | None = None  # of the loop, while batches of the next epoch are fetched ahead
        if device is not None:
            from stoker.torch import DevicePrefetcher

            self._prefetcher = DevicePrefetcher(_Undelivered(weakref.proxy(self)), device)
        self._epoch = 0
        self._begun = False  # a batch was asked for since the epoch began or a state was loaded
        self._passes = 0
        self._asked_for_ranks = False

    def _make_source(
        self, to_tensor: Callable[..., Any], found: InCpp | None
    ) -> "EngineSource | IndexedSource | StreamSource":
        ops, in_python = split_python(self._given["ops"] if found is None else found.ops)
        dataset = self.dataset if found is None else found.dataset
        if isinstance(dataset, Dataset) and in_python is None:
            self._refuse(("python",), "a Python data set, or ops that run in Python")
            dtype = self._given["dtype"]
            if found and found.dtype and dtype_name(dtype) == "float32":
                dtype = found.dtype
            settings = _engine_arguments({**self._given, "ops": ops, "dtype": dtype})
            self._late = late_normalize(dataset, settings, self._names, self._given["device"])
            source = EngineSource(dataset, settings, self._names, to_tensor)
            for name in self._names or ():
                one_of("as_tuple", name, source.fields)
            return source
        from stoker.processes.opened import OpenedSamples
        from stoker.processes.source import make_source

        if not isinstance(self.dataset, Dataset):
            self._refuse(("opened", "engine"), "a data set of stoker.open")
            return make_source(self.dataset, self._given, to_tensor)
        assert in_python is not None
        self._refuse(("engine",), "ops that run in C++ alone", "ops that run in Python (InPython)")
        opened = {name: self._given[name] for name, of in _OF.items() if of == "opened"} | {"ops": op_tables(ops)}
        return make_source(OpenedSamples(self.dataset, opened, in_python.parts), self._given | opened, to_tensor)

    def _refuse(self, kinds: tuple[str, ...], expected: str, got: str = "") -> None:
        for name, parameter in inspect.signature(Loader).parameters.items():
            if _OF.get(name) in kinds and not _is_default(name, self._given[name], parameter.default):
                raise InvalidArgument(f"[{name}] expected {expected} for this argument, got {got or self._told()}")

    def _told(self) -> str:
        """The data set, for a message, and what to write where it is a folder of images of torchvision."""
        if isinstance(self.dataset, Dataset):
            return "a data set of stoker.open"
        if isinstance(self.dataset, (list, tuple)) and isinstance(next(iter(self.dataset), None), (str, os.PathLike)):
            return f"a list of paths or text; {OPEN_EACH}"
        if isinstance(getattr(self.dataset, "dataset", None), Dataset) and hasattr(self.dataset, "indices"):
            return f"{type(self.dataset).__name__}; write data[subset.indices] in place of the subset"
        root = getattr(self.dataset, "root", None)
        name = type(self.dataset).__name__
        return f"{name}; write stoker.Loader({os.fspath(root)!r}, ...)" if name == "ImageFolder" and root else name

    def __repr__(self) -> str:
        workers = f"{self.workers} worker{'' if self.workers == 1 else 's'}"
        return f"stoker.Loader({self.dataset!r}, batch_size={self.batch_size}, {workers}, epoch {self.epoch})"

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self._source.batches()

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch, or its rest after load_state_dict. Only the newest iterator of a loader is valid."""
        return self._pass() if self._prefetcher is None else self._prefetched()

    def _prefetched(self) -> Iterator[Any]:
        for batch in self._prefetcher:  # and keeps the loader meanwhile
            yield batch if self._late is None else self._late(batch)
        self._shown_epoch = None

    def _pass(self) -> Iterator[Any]:
        if not self._asked_for_ranks:
            self._asked_for_ranks = True
            if hasattr(self.dataset, "__len__"):  # a stream divides itself, or not
                _warn_of_ranks(self._given)
        if self._begun and not self._ends():  # the loop before was left early
            self._go_to(self._epoch + 1)
        self._shown_epoch = self._epoch
        self._passes += 1
        return self._batches(self._passes)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Loader, self.dataset, **self._given), (), self.state_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.load_state_dict(state)

    def __getattr__(self, name: str) -> Any:
        if isinstance(getattr(type(self), name, None), property):  # the data set lacks this attribute
            return object.__getattribute__(self, name)
        raise AttributeError(explained_attribute(name))

    @property
    def batch_size(self) -> int:
        """Samples in a batch of this rank. Another batch size needs another loader."""
        return self._given["batch_size"]  # type: ignore[no-any-return]

    @property
    def drop_last(self) -> bool:
        """Whether the last batch of an epoch is left out where it is smaller than the others."""
        return self._given["drop_last"]  # type: ignore[no-any-return]

    @property
    def classes(self) -> list[str]:
        """The names of the classes by label, as the data set has them: also of a Python data set that has `classes`."""
        return self.dataset.classes  # type: ignore[no-any-return]

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class by name."""
        return {name: label for label, name in enumerate(self.classes)}

    @property
    def epoch(self) -> int:
        """The epoch of the next batch. Within a loop it is that of the loop, also in its last batch."""
        return self._epoch if self._prefetcher is None or self._shown_epoch is None else self._shown_epoch

    @property
    def workers(self) -> int:
        """The number of worker threads or processes."""
        return self._source.workers()

    def set_epoch(self, epoch: int) -> None:
        """The next loop gives this epoch. A loaded position inside of the same epoch stays."""
        if whole("epoch", epoch, 0) != self._epoch or self._begun:
            self._go_to(epoch)
        self._shown_epoch = None

    def state_dict(self) -> dict[str, Any]:
        """The position of the next batch, as a small dict for JSON."""
        return self._state() if self._prefetcher is None else dict(self._prefetcher.state_dict())

    def _state(self) -> dict[str, Any]:
        return dict(json.loads(self._source.state()))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop continues exactly there, with any number of workers, and of ranks if the whole batch is equal.

        Raises InvalidArgument for a state of other data, another seed or another batch size.
        """
        if not isinstance(state, Mapping) or not {"epoch", "batch", "order"} <= set(state):
            got = type(state).__name__
            if isinstance(state, Mapping):
                got = f"a dict of {', '.join(map(str, state)) or 'nothing'}"
            raise InvalidArgument(f"[loader state] expected what state_dict of a stoker.Loader has returned, got {got}")
        self._check_batch_size(state.get("batch_size"))
        self._source.restore(json.dumps(dict(state)))
        if self._prefetcher is not None:
            self._prefetcher.forget_state()
        self._epoch = int(state["epoch"])
        self._shown_epoch = None
        self._begun = False
        self._passes += 1

    def _check_batch_size(self, whole: Any) -> None:
        """Refuses a state that counts the samples of all ranks with a message of one rank's, as batch_size counts."""
        ranks = self._given["world_size"]
        by_length = bool(self._given["bucket_by"])  # the state then has the most samples of a batch
        if isinstance(whole, int) and not by_length and whole != self.batch_size * ranks and whole % ranks == 0:
            raise InvalidArgument(
                f"[batch_size] expected {whole // ranks}, as when the run began, got {self.batch_size}; "
                "make the loader with the arguments that the state comes from"
            )

    def close(self) -> None:
        """Ends the workers. Batches that are in use stay valid."""
        self._source.close()

    def _go_to(self, epoch: int) -> None:
        self.load_state_dict({**self._state(), "epoch": epoch, "batch": 0, "bad_samples": 0})

    def _ends(self) -> bool:
        """Takes the end of an epoch whose batches were all taken, by a loop that counts them: the workers go on."""
        state = self._state()
        if (int(state["epoch"]), int(state["batch"])) != (self._epoch + 1, 0) or self._source.next() is not None:
            return False
        self._epoch += 1
        self._begun = False
        return True

    def _batches(self, number: int) -> Iterator[Any]:
        while True:
            if number != self._passes:
                raise InvalidArgument("[loader] expected one iterator at a time, got a newer one or another position")
            take = self._source.next
            try:
                taken = take() if _waiting.around is None else _waiting.around(self, take)
            except Exception:  # not Ctrl-C, after which the same batch comes
                self._begun = True
                raise
            if taken is None:
                self._epoch += 1
                self._begun = False
                return
            self._begun = True
            batch, bad = taken
            if bad:
                self._warn(bad)
            yield self._deliver(self._named(batch))

    def _named(self, batch: Any) -> Any:
        """The fields that as_tuple names."""
        if self._names is None:
            return batch
        if self._given["as_tuple"] is True and isinstance(batch, (tuple, list)):
            return tuple(batch)
        if not isinstance(batch, Mapping) or not all(name in batch for name in self._names):
            got = f"a dict of {', '.join(map(str, batch))}" if isinstance(batch, Mapping) else type(batch).__name__
            raise InvalidArgument(f"[as_tuple] expected batches with {', '.join(self._names)}, got {got}")
        return tuple(batch[name] for name in self._names)

    def _warn(self, found: BadTuples) -> None:
        for index, key, reason, replaced_by in found:
            bad = BadSample(index, key, reason, replaced_by)
            if bad.index not in self.bad_samples:
                self.bad_samples[bad.index] = bad
                text = f"[{bad.key}] replaced: {bad.reason}"  # a key may have any character of a file name
                warnings.warn(printable(text), BadSampleWarning, stacklevel=3)


class _Undelivered:
    """A loader whose batches stay where they are, for the prefetcher of the same loader."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader  # a weak reference

    def __iter__(self) -> Iterator[Any]:
        return self._loader._pass()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self._loader)

    def state_dict(self) -> dict[str, Any]:
        return self._loader._state()  # type: ignore[no-any-return]


def _is_default(name: str, given: Any, default: Any) -> bool:
    if name == "dtype":
        return bool(dtype_name(given) == default)
    try:
        return bool((tuple(given) if isinstance(given, list) else given) == default)
    except (RuntimeError, ValueError):  # of an array, which cannot be a default
        return False


def _engine_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the C++ loader."""
    ops, dtype = op_tables(given["ops"]), dtype_name(given["dtype"])
    if dtype == "uint8" and any(op["op"] == "normalize" for op in ops):
        hint = "of a float dtype they are copied to a GPU as uint8, too, and normalised there (device=)"
        warnings.warn(
            f"[dtype] uint8 images are not normalised: Normalize has no effect; {hint}", UserWarning, stacklevel=5
        )
    one_of("cache", given["cache"], ("none", "ram", "disk"))
    return {
        "settings": {**given, "ops": ops},
        "rank": given["rank"],
        "world_size": given["world_size"],
        "dtype": dtype,
        "channels_last": bool(given["channels_last"]),
        "pad": {name: whole(f"pad[{name!r}]", entries, 1) for name, entries in (given["pad"] or {}).items()},
        "field_ops": {name: op_tables(own) for name, own in (given["field_ops"] or {}).items()},
    }


def _opened(source: Any, clips: bool) -> Any:
    """A data set of stoker.open, or a Python object that is one."""
    if isinstance(source, (str, os.PathLike)):
        return open_dataset(source, clips=clips)
    if isinstance(source, (list, tuple)) and any(isinstance(part, Dataset) for part in source):
        return joined_datasets(source)
    indexed = hasattr(source, "__getitem__") and hasattr(source, "__len__") and not isinstance(source, (Mapping, bytes))
    if hasattr(source, "__next__"):  # after a break nobody knows where it stands
        raise InvalidArgument(
            "[source] expected a stream whose __iter__ makes a new iterator for each epoch, got a "
            f"{type(source).__name__}, which is an iterator itself; write its __iter__ with `yield`"
        )
    if not indexed and (not hasattr(source, "__iter__") or isinstance(source, (Mapping, bytes))):
        raise InvalidArgument(
            "[source] expected a path, a URL, a data set of stoker.open, an object with __getitem__ and __len__, or one "
            f"with __iter__, got {type(source).__name__}"
        )
    return source


def _warn_of_ranks(given: Mapping[str, Any]) -> None:
    """In a process group without `rank`, each process would train on the same batches."""
    distributed = sys.modules.get("torch.distributed")
    if not given["shuffle"] or given["world_size"] != 1 or distributed is None or not distributed.is_available():
        return
    if distributed.is_initialized() and distributed.get_world_size() > 1:
        ranks = distributed.get_world_size()
        warnings.warn(
            f"[rank] the process group has {ranks} processes, and each takes the same batches unless its data or seed "
            f"differ; rank={distributed.get_rank()} and world_size={ranks} (dist.get_rank(), dist.get_world_size()) divide them",
            UserWarning,
            stacklevel=4,
        )
