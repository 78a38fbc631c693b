"""The implementations of an optimizer's step in torch: one tensor at a time, foreach, fused."""

from __future__ import annotations

from typing import Any

import torch

Flags = list[tuple[Any, Any, Any]]  # groups, and their foreach and fused


def has_kernel(optimizer: Any, kernel: str) -> bool:
    """Only torch's own classes, whose groups are read as torch does, and parameters that each kernel takes."""
    if not type(optimizer).__module__.startswith("torch.optim"):
        return False
    for group in optimizer.param_groups:
        if kernel not in group or group.get("capturable") or group.get("differentiable"):
            return False
        if not all(_is_plain(parameter) for parameter in group["params"]):
            return False
    return True


def _is_plain(parameter: torch.Tensor) -> bool:
    dense = parameter.layout is torch.strided and (parameter.grad is None or parameter.grad.layout is torch.strided)
    return dense and parameter.is_floating_point() and parameter.device.type in ("cpu", "cuda")


def kernels_of(optimizer: Any) -> Flags:
    return [(group, group.get("foreach"), group.get("fused")) for group in optimizer.param_groups]


def set_kernel(optimizer: Any, kernel: str | Flags) -> None:
    """kernel: "foreach" or "fused", or the flags as they were: groups that came since have the first one's."""
    if isinstance(kernel, str):
        flags = [(group, kernel == "foreach", kernel == "fused") for group in optimizer.param_groups]
    else:
        known = {id(group): (foreach, fused) for group, foreach, fused in kernel}
        flags = [(group, *known.get(id(group), kernel[0][1:])) for group in optimizer.param_groups]
    for group, foreach, fused in flags:
        group["foreach"], group["fused"] = foreach, fused
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            if fused and isinstance(state.get("step"), torch.Tensor):  # fused kernels read it on the device
                state["step"] = state["step"].to(device=parameter.device, dtype=torch.float32)
