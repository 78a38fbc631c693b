"""From the arguments of stoker.Loader to a source of Python samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stoker._arguments import one_of, whole
from stoker import _stoker
from stoker.dataset import Dataset
from stoker.errors import InvalidArgument
from stoker.processes.collate import collate
from stoker.processes.fetch import Job, is_stream
from stoker.processes.opened import OpenedSamples, Tables
from stoker.processes.source import IndexedSource, StreamSource


def make_source(
    dataset: Any, given: Mapping[str, Any], to_tensor: Callable[..., Any]
) -> IndexedSource | StreamSource:
    """Raises InvalidArgument for impossible arguments."""
    stream = is_stream(dataset)
    world_size = whole("world_size", given["world_size"], 1)
    rank = whole("rank", given["rank"], 0)
    if rank >= world_size:
        raise InvalidArgument(f"[rank] expected a rank from 0 to {world_size - 1}, got {rank}")
    workers = given["workers"]
    if workers == "auto":
        workers = 1 if stream else _stoker.auto_workers()
    bad_samples = str(given["bad_samples"])
    size = 0 if stream else len(dataset)
    method = one_of("multiprocessing_context", given["multiprocessing_context"], (None, "fork", "spawn", "forkserver"))
    job = Job(
        dataset=dataset,
        collate=given["collate_fn"] or collate,
        seed=whole("seed", given["seed"], 0, 64),
        shuffle=bool(given["shuffle"]),
        batch_size=whole("batch_size", given["batch_size"], 1),
        drop_last=bool(given["drop_last"]),
        rank=rank,
        world_size=world_size,
        budget=_stoker.bad_sample_budget(bad_samples, size),
        workers=whole("workers", workers, 0),
        size=size,
    )
    prefetch = whole("prefetch", given["prefetch"], 1)
    if stream:
        return StreamSource(job, method, prefetch, to_tensor)
    return IndexedSource(job, method, prefetch, to_tensor, bad_samples)


def opened_samples(
    dataset: Dataset, ops: Tables, parts: Sequence[Callable[[Any], Any]], given: Mapping[str, Any]
) -> OpenedSamples:
    channels = one_of("channels", given["channels"], (None, 1, 3))
    return OpenedSamples(dataset, ops, parts, bool(given["exif"]), bool(given["first_frame"]), channels or 0)
