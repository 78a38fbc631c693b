"""Facts of the program's objects that the hooks have seen. None keeps a model, a data set or a loader alive."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Sized
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from stoker.watch.own_rate import ImageSource, image_source

_SAMPLERS = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)

Facts = dict[str, Any]
PLACE = "_stoker_place"  # on a loader or an optimizer: the line that made it (made.py)
SOURCE = "_stoker_source"  # likewise: file and number of a line of the program


def known(**values: Any) -> Facts:
    return {key: value for key, value in values.items() if value is not None and value != ""}


class LoaderNote:
    """A loader's settings. Its iterator holds this instead of the loader, which may hold the iterator."""

    name = "DataLoader"
    counts = False  # its batches when it is asked for its length
    per_batch = -1  # samples in a batch: 0 where each is measured; -1 before the first one
    sample_bytes: int | None = None  # of a sample in the first batch

    def __init__(self, loader: Any) -> None:
        batches = attribute_of(loader, "batch_sampler")
        self.dataset = loader.dataset
        self.unbatched = batches is None  # the data set gives batches, or single samples
        self.sampler = batches if batches is not None else attribute_of(loader, "sampler")
        self.batch_size = attribute_of(loader, "batch_size")
        self.workers = int(loader.num_workers)
        self.prefetch_factor = attribute_of(loader, "prefetch_factor")
        self.pinned: bool | None = bool(loader.pin_memory)
        self.persistent = bool(attribute_of(loader, "persistent_workers"))
        self.drop_last = bool(attribute_of(loader, "drop_last"))
        self.shuffled = _is_shuffled(batches)
        self.default_collate = attribute_of(loader, "collate_fn") is torch.utils.data.default_collate
        self.place = place_on(loader)

    @property
    def kind(self) -> str:
        """The types of its data set and sampler."""
        return f"{type(self.dataset)} {type(self.sampler)}"

    def expected(self) -> int:
        """Samples of the first batch. Asks the data set for its length."""
        size: int = self.batch_size
        return min(size, length_of(self.dataset) or size)

    @staticmethod
    def of_stoker(loader: Any) -> LoaderNote:
        """A note on a stoker.Loader."""
        note: LoaderNote = object.__new__(LoaderNote)
        note.dataset, note.sampler, note.batch_size = loader.dataset, loader, loader.batch_size
        note.workers, note.persistent, note.drop_last = loader.workers, True, loader.drop_last
        note.unbatched = False
        note.prefetch_factor, note.name, note.counts, note.place = None, "stoker.Loader", True, ""
        copies = loader._prefetcher is not None and loader._prefetcher.device.type == "cuda"
        note.shuffled, note.default_collate = None, True
        note.pinned = loader._given["pin_memory"] or copies or None  # a wrapper of the loader may also pin
        return note


class Seen:
    """Facts are read when an object is first used, because it may be gone when the watch ends."""

    def __init__(self) -> None:
        self.data: Facts = {}  # of the training loader
        self.loader: Facts = {}
        self.checkpoint_place = ""  # of the first torch.save after the first step
        self.images: ImageSource | None = None
        self.optimizer: Facts = {}
        self.model: Facts = {}
        self.sample_bytes: int | None = None  # of a sample in the training loader's first batch
        self.autocast: torch.dtype | None = None
        self.dtype: torch.dtype | None = None  # of the model's first parameter
        self.device: torch.device | None = None
        self.parallel = False  # DataParallel
        self.compiled = False
        self._model: weakref.ref[Any] | None = None  # the outermost module with the most parameters
        self._model_size = 0
        self.single: set[str] = set()  # kinds of loaders that give samples, not batches
        self.fed = 0  # samples that the model gets in a training step, if no loader's batches tell them

    @property
    def module(self) -> Any:
        """The model; None before it was seen, and when it is gone."""
        return self._model() if self._model is not None else None

    def note_loader(self, note: LoaderNote) -> None:
        dataset = note.dataset
        while isinstance(dataset, torch.utils.data.Subset):
            dataset = dataset.dataset
        opened = type(dataset).__module__ == "stoker.dataset"  # by stoker.open
        self.data = known(
            path=_folder_of(note.dataset) if not opened else dataset.path if dataset is note.dataset else None,
            format=dataset.format if opened else type(dataset).__name__,
            samples=length_of(note.dataset),
            sample_bytes=_mean_file_bytes(attribute_of(dataset, "samples")),
            loader=note.name,
            place=note.place,
            iterable=isinstance(dataset, torch.utils.data.IterableDataset) and not _divides_itself(dataset) or None,
            workers=note.workers,
            prefetch=note.workers * (note.prefetch_factor or 0) if note.workers else None,
            pinned=note.pinned,
            persistent=note.persistent if note.workers else None,
            shuffle=note.shuffled,
            drop_last=note.drop_last or None,
        )
        self.sample_bytes = note.sample_bytes
        self.images = image_source(note) if note.name == "DataLoader" else None
        self.loader = known(batch_size=note.batch_size, steps_per_epoch=_steps_of(note, self.data.get("samples")))

    def note_module(self, module: Any) -> bool:
        """Called when an outermost module runs first. Returns whether it has parameters."""
        if isinstance(module, torch.nn.DataParallel):
            self.parallel = True
        size = _size_of(module)
        if size > self._model_size:
            self._model = weakref.ref(module)
            self.read_model()
        return size > 0

    def read_model(self) -> None:
        """Reads the model's facts again: lazy layers get their sizes in the first step."""
        module = self.module
        if module is None:
            return
        first = next(module.parameters(), None)
        if first is None:
            return
        self.compiled = any(_is_compiled(part) for part in module.modules())
        self.device, self.dtype = first.device, first.dtype
        inner = getattr(module, "_orig_mod", getattr(module, "module", module))  # compiled, or within DDP
        inner = inner if isinstance(inner, torch.nn.Module) else module
        self._model_size = _size_of(module)
        self.model = {"model": type(inner).__name__, "parameters": _size_of(inner)}

    def note_optimizer(self, optimizer: Any) -> None:
        self.optimizer = known(
            optimizer=type(optimizer).__name__,
            optimizer_kernel=optimizer_kernel(optimizer),
            optimizer_place=place_on(optimizer),
        )

    @property
    def precision(self) -> str:
        """fp32, tf32, bf16 or fp16: what matrix products are computed in."""
        names = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}
        dtype = self.autocast or self.dtype
        if dtype in names:
            return names[dtype]
        on_gpu = self.device is not None and self.device.type == "cuda"
        return "tf32" if on_gpu and _allows_tf32() else "fp32"


def _is_shuffled(batches: Any) -> bool | None:
    """None where a sampler or a batch sampler of the program's own decides, or one that draws with replacement."""
    if type(batches) is not torch.utils.data.BatchSampler:
        return None
    sampler: Any = batches.sampler
    if type(sampler) is torch.utils.data.SequentialSampler:
        return False
    whole = type(sampler) is torch.utils.data.RandomSampler and not sampler.replacement and sampler._num_samples is None
    return True if whole else None


def _allows_tf32() -> bool:
    matmul = torch.backends.cuda.matmul
    try:
        precision = getattr(matmul, "fp32_precision", None)  # PyTorch 2.9 and later
        return bool(matmul.allow_tf32) if precision is None else precision == "tf32"
    except RuntimeError:  # the program has set it in two ways
        return False


def optimizer_kernel(optimizer: Any) -> str:
    """single, foreach or fused, as torch.optim chooses it where the program does not. Empty where it has no choice:
    LBFGS, optimizers that torch does not have, and gradients that are sparse."""
    group = optimizer.param_groups[0]
    if group.get("fused"):
        return "fused"
    if "foreach" not in group or any(_has_sparse(parameter) for parameter in group["params"]):
        return ""
    foreach = group.get("foreach")
    if foreach is None:
        foreach = all(parameter.is_cuda for parameter in group["params"])
    return "foreach" if foreach else "single"


def _has_sparse(parameter: Any) -> bool:
    return parameter.grad is not None and parameter.grad.layout is not torch.strided


def length_of(of: Any) -> int | None:
    try:
        return len(of) if isinstance(of, Sized) else None
    except Exception:  # the program's own code, which it may never call itself
        return None


def _counts(sampler: Any) -> bool:
    """Whether its length is PyTorch's own code, or ours. The program's may draw random numbers."""
    kind = type(sampler)
    if kind is BatchSampler:
        return _counts(sampler.sampler)
    return kind in _SAMPLERS


def attribute_of(of: Any, name: str) -> Any:
    try:
        return getattr(of, name, None)
    except Exception:  # likewise of a property
        return None


def place_on(made: Any) -> str:
    """The line on which the program made a loader or an optimizer; empty if that is not known."""
    place = attribute_of(made, PLACE)
    return place if isinstance(place, str) else ""


def _divides_itself(dataset: Any) -> bool:
    """Whether a stream gives each worker process a share: whether its methods, or functions that they call, ask for
    get_worker_info and use num_workers; or whether it wraps a stream that does."""
    kinds = [kind for kind in type(dataset).__mro__ if kind.__module__.partition(".")[0] not in ("torch", "builtins")]
    if any(kind.__module__.partition(".")[0] == "webdataset" and kind.__name__ == "WebDataset" for kind in kinds):
        return True  # by a stage of its pipeline
    functions = [value for kind in kinds for value in vars(kind).values()]
    seen: set[CodeType] = set()
    names: set[str] = set()
    for _ in range(3):
        called: list[Any] = []
        for function in map(inspect.unwrap, filter(callable, functions)):
            if isinstance(function, FunctionType):
                found = _names_in(function.__code__, seen)
                names.update(found)
                called += [function.__globals__.get(name) for name in found]
        if torch.utils.data.get_worker_info in called:
            names.add("get_worker_info")
        functions = [value for value in called if isinstance(value, FunctionType)]
    if {"get_worker_info", "num_workers"} <= names:
        return True
    inner = [value for value in vars(dataset).values() if isinstance(value, torch.utils.data.IterableDataset)]
    return any(_divides_itself(one) for one in inner if one is not dataset)


def _names_in(code: CodeType, seen: set[CodeType]) -> list[str]:
    """The global and attribute names of a function and those within it, once for each code."""
    if code in seen:
        return []
    seen.add(code)
    inner = [name for value in code.co_consts if isinstance(value, CodeType) for name in _names_in(value, seen)]
    return [*code.co_names, *inner]


def _steps_of(note: LoaderNote, samples: int | None) -> int | None:
    if not isinstance(note.dataset, torch.utils.data.IterableDataset):
        return length_of(note.sampler) if note.counts or _counts(note.sampler) else None
    if not samples or not note.batch_size:
        return None
    batch = int(note.batch_size)
    return samples // batch if note.drop_last else -(-samples // batch)


def _is_compiled(module: Any) -> bool:
    """By torch.compile(module) or module.compile()."""
    return "_orig_mod" in module._modules or vars(module).get("_compiled_call_impl") is not None


def _size_of(module: Any) -> int:
    """Its parameters; a lazy one without a size yet counts as 1."""
    lazy = torch.nn.parameter.UninitializedParameter
    return sum(1 if isinstance(parameter, lazy) else int(parameter.numel()) for parameter in module.parameters())


def _mean_file_bytes(files: Any) -> float | None:
    """The mean over at most 32 files of an image folder's list of (path, label)."""
    if not isinstance(files, list) or not files or not isinstance(files[0], tuple):
        return None
    sizes = []
    for entry in files[:: max(1, len(files) // 32)][:32]:
        try:
            sizes.append(os.stat(entry[0]).st_size)
        except (OSError, TypeError, ValueError):
            return None
    return sum(sizes) / len(sizes)


def _folder_of(dataset: Any) -> str:
    root = attribute_of(dataset, "root")
    return str(Path(root).absolute()) if isinstance(root, (str, os.PathLike)) else ""
