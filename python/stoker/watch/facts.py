"""The facts of docs/records.md, read off the program's own objects: host, device, data and settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Sized
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from stoker.watch.counters import allowed_cores, allowed_memory
from stoker.watch.fetch_clock import CODECS
from stoker.watch.hooks import Seen
from stoker.watch.ranks import Rank

Facts = dict[str, Any]


def _known(**values: Any) -> Facts:
    return {key: value for key, value in values.items() if value is not None and value != ""}


def host_facts(rank: Rank) -> Facts:
    return _known(
        cores=allowed_cores(),
        affinity=len(os.sched_getaffinity(0)),
        ranks=rank.local_world_size,
        memory_bytes=allowed_memory(),
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


def _length(of: Any) -> int | None:
    if not isinstance(of, Sized):
        return None
    try:
        return len(of)
    except TypeError:  # of an iterable data set
        return None


def _mean_file_bytes(files: Any) -> float | None:
    """Of at most 32 files of an image folder's list of (path, label)."""
    if not isinstance(files, list) or not files or not isinstance(files[0], tuple):
        return None
    sizes = []
    for entry in files[:: max(1, len(files) // 32)][:32]:
        try:
            sizes.append(os.stat(entry[0]).st_size)
        except (OSError, TypeError):
            return None
    return sum(sizes) / len(sizes)


def _folder_of(dataset: Any) -> str:
    root = getattr(dataset, "root", None)
    return str(Path(root).absolute()) if isinstance(root, (str, os.PathLike)) else ""


def data_facts(seen: Seen, codec: int, images: int) -> Facts:
    loader = seen.loader
    if loader is None:
        return {}
    dataset = loader.dataset
    while type(dataset).__name__ == "Subset":
        dataset = dataset.dataset
    workers = int(loader.num_workers)
    return _known(
        path=_folder_of(dataset),
        format=type(dataset).__name__,
        codec=CODECS[codec],
        samples=_length(loader.dataset),
        sample_bytes=_mean_file_bytes(getattr(dataset, "samples", None)),
        image_bytes=seen.sample_bytes,
        workers=workers,
        prefetch=workers * (loader.prefetch_factor or 0) if workers else None,
        pinned=bool(loader.pin_memory),
        persistent=bool(loader.persistent_workers) if workers else None,
        decode="Pillow" if images else None,
    )


def optimizer_kernel(optimizer: Any) -> str:
    """single, foreach or fused, as torch.optim chooses it where the program does not."""
    group = optimizer.param_groups[0]
    if group.get("fused"):
        return "fused"
    foreach = group.get("foreach")
    if foreach is None:
        foreach = all(parameter.is_cuda for parameter in group["params"])
    return "foreach" if foreach else "single"


def precision(seen: Seen) -> str:
    """fp32, tf32, bf16 or fp16: what matrix products are computed in."""
    dtype = seen.autocast
    if dtype is None and seen.model is not None:
        dtype = next(seen.model.parameters()).dtype
    names = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}
    if dtype in names:
        return names[dtype]
    on_gpu = seen.device is not None and seen.device.type == "cuda"
    return "tf32" if on_gpu and torch.backends.cuda.matmul.allow_tf32 else "fp32"


def train_facts(seen: Seen, rank: Rank, accumulate: int, flops: int) -> Facts:
    loader, model, optimizer = seen.loader, seen.model, seen.optimizer
    model = getattr(model, "_orig_mod", getattr(model, "module", model))  # compiled, or within DDP
    batch = getattr(loader, "batch_size", None) or seen.batch_length
    return _known(
        model=type(model).__name__ if model is not None else None,
        parameters=sum(parameter.numel() for parameter in model.parameters()) if model is not None else None,
        batch_size=batch * rank.world_size * accumulate if batch else None,
        steps_per_epoch=_length(loader),
        val_samples=_length(getattr(seen.eval_loader, "dataset", None)),
        precision=precision(seen),
        optimizer=type(optimizer).__name__ if optimizer is not None else None,
        optimizer_kernel=optimizer_kernel(optimizer) if optimizer is not None else None,
        compiled="compile" if hasattr(seen.model, "_orig_mod") else None,
        accumulate=accumulate,
        threads=torch.get_num_threads(),
        matmul_flops=float(flops) if flops else None,
    )


def measure_products(device: torch.device | None) -> Facts:
    """How fast this device multiplies matrices of 512 x 512, and how many times as fast it is in bf16.

    Takes some hundredths of a second on a CPU, and is called after the program has ended. Empty where bf16 is not supported.
    """
    if device is not None and device.type == "cuda":
        if not torch.cuda.is_bf16_supported():
            return {}
    elif not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return {}
    generator = torch.Generator().manual_seed(0)  # the program's own generator stays as it is
    matrix = torch.rand(512, 512, generator=generator).to(device or "cpu")
    fp32, bf16 = (_product_seconds(matrix.to(dtype)) for dtype in (torch.float32, torch.bfloat16))
    return {"fp32_flops": 2 * 512**3 / fp32, "bf16_speedup": fp32 / bf16}


def _product_seconds(matrix: torch.Tensor) -> float:
    wait: Callable[[], Any] = torch.cuda.synchronize if matrix.is_cuda else lambda: None
    times = []
    with torch.no_grad():
        for _ in range(8):
            wait()
            start = perf_counter()
            matrix @ matrix
            wait()
            times.append(perf_counter() - start)
    return min(times)
