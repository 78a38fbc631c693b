"""The facts of docs/records.md: host, device, data and settings."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from stoker.watch.counters import allowed_cores, allowed_memory, processor_name
from stoker.watch.fetch_clock import CODECS
from stoker.watch.products import Layer
from stoker.watch.ranks import Rank
from stoker.watch.seen import Facts, Seen, known


def program_name() -> str:
    """The name of the program's file; empty in a notebook and for code of a command line."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return "" if name.startswith("-") or name.endswith("kernel_launcher.py") else name


def host_facts(rank: Rank) -> Facts:
    return known(
        cores=allowed_cores(),
        affinity=len(os.sched_getaffinity(0)),
        ranks=rank.local_world_size,
        memory_bytes=allowed_memory(),
        processor=processor_name(),
    )


@functools.cache
def software_facts() -> Facts:
    """The releases that run. That of stoker is unknown where it is not installed."""
    try:
        own: str | None = importlib.metadata.version("stoker")
    except importlib.metadata.PackageNotFoundError:
        own = None
    return known(
        stoker=own,
        torch=str(torch.__version__),
        cuda=torch.version.cuda,
        python=".".join(map(str, sys.version_info[:3])),
    )


def device_facts(seen: Seen, rates: Facts) -> Facts:
    device = seen.device
    if device is None or device.type != "cuda":
        return {"type": "cpu", **rates}
    properties = torch.cuda.get_device_properties(device)
    return {
        "type": "cuda",
        "name": properties.name,
        "count": torch.cuda.device_count() if seen.parallel else 1,
        "memory_bytes": properties.total_memory,
        "tensor_cores": properties.major >= 7,
        **rates,
    }


def data_facts(seen: Seen, codec: int, decoder: str | None) -> Facts:
    if not seen.data:
        return {}
    return seen.data | known(
        codec=CODECS[codec],
        image_bytes=seen.sample_bytes,
        decode=decoder,
    )


_LARGE = 512  # columns and rows of a matrix that keeps a CPU's cores busy
_LARGE_ON_GPU = 4096  # a product of 512 x 512 takes a GPU as long as its launch
_LONGEST_PASS = 0.5  # seconds, of the model's largest layer


def train_facts(seen: Seen, evaluation: Facts, rank: Rank, batch: int, accumulate: int, flops: int) -> Facts:
    """batch: samples of one; 0 where that is not known."""
    return {**seen.model, **seen.loader, **seen.optimizer} | known(
        batch_size=batch * rank.world_size * accumulate if batch else None,
        **evaluation,
        checkpoint_place=seen.checkpoint_place,
        precision=seen.precision,
        compiled="compile" if seen.compiled else None,
        accumulate=accumulate,
        threads=torch.get_num_threads(),
        matmul_flops=float(flops) if flops else None,
    )


def measure_products(device: torch.device | None, precision: str, layer: Layer | None) -> Facts:
    """How fast this device multiplies large matrices in fp32, and how many times as fast the program's largest layer is
    under autocast in bf16, forward and backward; without a layer, that product. On a CPU also how fast a product of
    256 x 256 is in the 16 bits of `precision`.

    Takes some tenths of a second, with large layers a second or two, and is called after the program has ended. Where
    bf16 is not supported, only the last is measured; on other devices than CPUs and CUDA's nothing.
    """
    on_gpu = device is not None and device.type == "cuda"
    if device is not None and device.type not in ("cpu", "cuda"):
        return {}
    facts: Facts = {}
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    if half is not None and not on_gpu:
        facts["half_speedup"] = _product_seconds(256, torch.float32, rounds=3) / _product_seconds(256, half, rounds=3)
    if torch.cuda.is_bf16_supported() if on_gpu else torch.ops.mkldnn._is_mkldnn_bf16_supported():
        size = _LARGE_ON_GPU if on_gpu else _LARGE
        fp32 = _product_seconds(size, torch.float32, device)
        facts["fp32_flops"] = 2 * size**3 / fp32
        speedup = None if layer is None else _layer_speedup(layer, device, facts["fp32_flops"])
        facts["bf16_speedup"] = speedup or fp32 / _product_seconds(size, torch.bfloat16, device)
    return facts


def _layer_speedup(layer: Layer, device: torch.device | None, rate: float) -> float | None:
    """None if a pass would take too long, and if memory for one is missing."""
    if 3 * layer.flops > rate * _LONGEST_PASS:  # the backward pass has two products of the forward one's size
        return None
    try:
        return _layer_seconds(layer, device, False) / _layer_seconds(layer, device, True)
    except RuntimeError:
        return None


def _layer_seconds(layer: Layer, device: torch.device | None, half: bool) -> float:
    """The time of a forward and a backward pass. Under autocast the layer before gave bf16; the weight is converted."""
    place = device or torch.device("cpu")
    inputs = torch.full(layer.inputs, 0.5, device=place, dtype=torch.bfloat16 if half else torch.float32)
    weight = torch.full(layer.weight, 0.5, device=place, dtype=torch.float32, requires_grad=True)
    inputs.requires_grad_()
    wait: Callable[[], Any] = (lambda: torch.cuda.synchronize(place)) if place.type == "cuda" else (lambda: None)
    times: list[float] = []
    while len(times) < 2 or (len(times) < 8 and sum(times) < 0.2):
        wait()
        start = perf_counter()
        with torch.enable_grad(), torch.autocast(place.type, torch.bfloat16, enabled=half):
            output = layer.call(inputs, weight)
        torch.autograd.grad(output, (inputs, weight), torch.ones_like(output))
        wait()
        times.append(perf_counter() - start)
    return min(times)


def _product_seconds(size: int, dtype: torch.dtype, device: torch.device | None = None, rounds: int = 8) -> float:
    generator = torch.Generator("cpu").manual_seed(0)  # does not use the program's generator
    matrix = torch.rand(size, size, generator=generator, dtype=torch.float32, device="cpu").to(device or "cpu", dtype)
    wait: Callable[[], Any] = (lambda: torch.cuda.synchronize(matrix.device)) if matrix.is_cuda else (lambda: None)
    times = []
    with torch.no_grad():
        for _ in range(rounds):
            wait()
            start = perf_counter()
            matrix @ matrix
            wait()
            times.append(perf_counter() - start)
    return min(times)
