"""From the arguments of stoker.Loader to a source of Python samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker._arguments import one_of
from stoker import _stoker
from stoker.errors import InvalidArgument
from stoker.processes.collate import collate
from stoker.processes.fetch import Job, is_stream
from stoker.processes.source import IndexedSource, StreamSource


def make_source(
    dataset: Any, given: Mapping[str, Any], to_tensor: Callable[..., Any]
) -> IndexedSource | StreamSource:
    """Raises InvalidArgument for impossible arguments."""
    stream = is_stream(dataset)
    rank, world_size = given["rank"], given["world_size"]
    if rank >= world_size:
        raise InvalidArgument(f"[rank] expected a rank from 0 to {world_size - 1}, got {rank}")
    size = 0 if stream else len(dataset)
    budget = _stoker.bad_sample_budget(given, size)  # checks all settings
    workers = given["workers"]
    if workers == "auto":
        workers = 1 if stream else _stoker.auto_workers()
    method = one_of("multiprocessing_context", given["multiprocessing_context"], (None, "fork", "spawn", "forkserver"))
    job = Job(
        dataset=dataset,
        collate=given["collate_fn"] or collate,
        seed=given["seed"],
        shuffle=bool(given["shuffle"]),
        batch_size=int(given["batch_size"]),
        drop_last=bool(given["drop_last"]),
        rank=rank,
        world_size=world_size,
        budget=budget,
        workers=int(workers),
        size=size,
    )
    prefetch = int(given["prefetch"])
    if stream:
        return StreamSource(job, method, prefetch, to_tensor)
    return IndexedSource(job, method, prefetch, to_tensor, str(given["bad_samples"]))
