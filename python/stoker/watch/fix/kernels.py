"""The implementations of an optimizer's step in torch: one tensor at a time, foreach, fused."""

from __future__ import annotations

from typing import Any

import torch

from stoker.watch.fix.same import is_same

_COMPARED = 1 << 20  # elements whose update is computed in both ways
Flags = list[tuple[Any, Any]]  # of each group: foreach and fused


def has_kernel(optimizer: Any, kernel: str) -> bool:
    """Only torch's own classes: one of the program's may read its groups otherwise."""
    own = type(optimizer).__module__.startswith("torch.optim")
    return own and all(kernel in group and not group.get("capturable") for group in optimizer.param_groups)


def set_kernel(optimizer: Any, kernel: str | Flags) -> None:
    """kernel: "foreach" or "fused", or the flags as they were."""
    flags = [(kernel == "foreach", kernel == "fused")] * len(optimizer.param_groups) if isinstance(kernel, str) else kernel
    for group, (foreach, fused) in zip(optimizer.param_groups, flags):
        group["foreach"], group["fused"] = foreach, fused
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            if fused and isinstance(state.get("step"), torch.Tensor):  # fused kernels read it on the device
                state["step"] = state["step"].to(device=parameter.device, dtype=torch.float32)


def updates_alike(optimizer: Any, kernel: str) -> bool:
    """Whether a step of copies of some parameters gives the same bits."""
    return all(_group_updates_alike(optimizer, group, kernel) for group in optimizer.param_groups)


def _group_updates_alike(optimizer: Any, group: dict[str, Any], kernel: str) -> bool:
    chosen: list[Any] = []
    for parameter in group["params"]:
        if parameter.grad is not None and sum(one.numel() for one in chosen) < _COMPARED:
            chosen.append(parameter)
    if not chosen:
        return True
    return is_same(_updated(optimizer, group, chosen, {}), _updated(optimizer, group, chosen, {kernel: True}))


def _updated(optimizer: Any, group: dict[str, Any], chosen: list[Any], changed: dict[str, Any]) -> Any:
    """Values and state of copies of `chosen` after a step."""
    copies = [parameter.detach().clone().requires_grad_() for parameter in chosen]
    options = {name: value for name, value in group.items() if name not in ("params", "foreach", "fused")}
    kept = {name: group[name] for name in ("foreach", "fused") if group.get(name)} if not changed else changed
    made = type(optimizer)([{"params": copies, **options, "foreach": None, "fused": None, **kept}])
    for parameter, one in zip(chosen, copies):
        one.grad = parameter.grad.detach().clone()
        made.state[one] = {
            name: value.clone() if isinstance(value, torch.Tensor) else value
            for name, value in optimizer.state.get(parameter, {}).items()
        }
    made.step()
    return [one.detach() for one in copies], [dict(made.state[one]) for one in copies]
