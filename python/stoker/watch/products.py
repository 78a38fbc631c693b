"""Counts the floating-point operations of a model's linear layers and convolutions in one step."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class ProductCounter:
    """Hooks the layers of a model from `begin` to `end`. Products outside of such layers are not counted."""

    def __init__(self) -> None:
        self.flops = 0  # forward and backward
        self._handles: list[Any] = []

    def begin(self, model: nn.Module) -> None:
        for module in model.modules():
            if isinstance(module, (nn.Linear, *_CONVOLUTIONS)):
                self._handles.append(module.register_forward_hook(self._count))

    def end(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _count(self, module: Any, inputs: Any, output: Any) -> None:
        if not torch.is_grad_enabled() or not isinstance(output, torch.Tensor):  # a subclass may return anything
            return
        if isinstance(module, nn.Linear):
            inner = module.in_features
        else:
            inner = module.in_channels // module.groups * math.prod(module.kernel_size)
        with torch._C.DisableTorchFunction():
            outputs = output.numel()
        self.flops += 3 * 2 * outputs * inner  # the backward pass has two products for each one
