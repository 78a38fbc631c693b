"""Explains keywords that stoker.Loader does not have: those of DataLoader, its samplers and ImageFolder, and typos."""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

P = ParamSpec("P")

_IN_C = "images are found and decoded in C++; a Python data set as the first argument decodes by itself"
_FIRST = ("the data set as the first argument", "")
_SAMPLER = (
    "rank= and world_size= replace a DistributedSampler, and balance=True, for a data set of stoker.open, a "
    "WeightedRandomSampler by class; stoker.open(path)[indices] or torch's Subset is a data set of some of the samples"
)

# For each keyword the expectation ({value} is the given value), and a hint. `no NAME`: Stoker lacks an equal.
_FOREIGN: dict[str, tuple[str, str]] = {
    "num_workers": ("workers={value}", ""),
    "prefetch_factor": ("prefetch={value}", "it counts the batches of all workers together"),
    "num_replicas": ("world_size={value}", ""),
    "generator": ("seed=, an integer", "the order and all random ops follow from it"),
    "sampler": ("shuffle= and seed= for the order", _SAMPLER),
    "batch_sampler": ("batch_size=, drop_last=, and shuffle= and seed= for the order", _SAMPLER),
    "persistent_workers": ("no persistent_workers", "leave it out: workers always stay for all epochs"),
    "worker_init_fn": (
        "no worker_init_fn",
        "leave it out: random, NumPy and torch are seeded before each sample; open files in the data set's __getitem__",
    ),
    "timeout": (
        "no timeout",
        "leave it out: a worker that has ended is reported at once, and after a minute without a batch a warning names "
        "the workers",
    ),
    "in_order": ("no in_order", "leave it out: batches always come in order"),
    "pin_memory_device": ("pin_memory=True", "or device=, which copies the batches there"),
    "snapshot_every_n_steps": ("no snapshot_every_n_steps", "leave it out: state_dict is exact at every batch"),
    "dataset": _FIRST,
    "root": _FIRST,
    "transform": ("ops=stoker.transforms.from_torchvision(transform)", ""),
    "transforms": ("ops=stoker.transforms.from_torchvision(transforms)", ""),
    "target_transform": (
        "no target_transform",
        "change the labels of a batch in the loop, or take stoker.open(path, labels=table)",
    ),
    "loader": ("no loader", _IN_C),
    "allow_empty": ("no allow_empty", "leave it out: subfolders without images are refused, and named"),
    "is_valid_file": ("no is_valid_file", "stoker.open(path)[indices] keeps some of the samples"),
}

# Attributes of a DataLoader that programs read.
_ATTRIBUTES = {
    "num_workers": "loader.workers is their number",
    "sampler": "loader.set_epoch(epoch) takes the place of that of its sampler",
    "batch_sampler": "loader.batch_size, loader.drop_last and loader.set_epoch(epoch) take its place",
    "prefetch_factor": "prefetch= is given to the loader",
    "generator": "seed= is given to the loader",
}


def explain_keywords(function: Callable[P, None]) -> Callable[P, None]:
    """A decorator: what `function` does not take ends with a TypeError of one line that says what to write instead."""
    parameters = inspect.signature(function).parameters
    own = [name for name in parameters if name != "self"]
    unnamed = [name for name in own if parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        if len(args) > len(unnamed) + 1:  # and self
            wanted = " and ".join(unnamed)
            hint = "write the others as in shuffle=True"
            raise TypeError(f"[Loader] expected no more than {wanted} without a name, got {len(args) - 1}; {hint}")
        unknown = [name for name in kwargs if name not in parameters]
        if unknown:
            raise TypeError("; ".join(_explained(name, kwargs[name], own) for name in unknown))
        return function(*args, **kwargs)

    return checked


def explained_attribute(name: str) -> str:
    """Why stoker.Loader lacks an attribute `name`, which a DataLoader may have."""
    hint = _ATTRIBUTES.get(name, "")
    return f"stoker.Loader has no {name}{f'; {hint}' if hint else ''}"


def _explained(name: str, value: Any, own: list[str]) -> str:
    plain = value is None or isinstance(value, (bool, int, float, str))
    shown = repr(value) if plain else f"a {type(value).__name__}"
    got = f"{name}={shown}" if plain else shown
    near = difflib.get_close_matches(name, [*own, *_FOREIGN], 1, 0.75)
    meant = name if name in _FOREIGN or not near else near[0]
    if meant in _FOREIGN:
        expected, hint = _FOREIGN[meant]
        text = f"[{name}] expected {expected.format(value=shown)}, got {got}"
        return f"{text}; {hint}" if hint else text
    hint = "help(stoker.Loader) lists them" if meant == name else f"did you mean {meant}=?"
    return f"[{name}] expected an argument of stoker.Loader, got {got}; {hint}"
