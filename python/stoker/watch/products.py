"""Counts the floating-point operations of a model's linear layers and convolutions in one step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Layer:
    """Shapes and settings of a layer in one call."""

    flops: int  # forward
    inputs: tuple[int, ...]
    weight: tuple[int, ...]
    settings: dict[str, Any]  # of a convolution

    def call(self, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        if len(self.weight) == 2:
            return nn.functional.linear(inputs, weight)
        function = (nn.functional.conv1d, nn.functional.conv2d, nn.functional.conv3d)[len(self.weight) - 3]
        return function(inputs, weight, **self.settings)


class ProductCounter:
    """Hooks the layers of a model while it runs, so that what a program copies, saves or scripts has no hook of ours.

    Products outside of such layers are not counted.
    """

    def __init__(self) -> None:
        self.flops = 0  # forward and backward
        self.largest: Layer | None = None  # the one with most operations in a call
        self._handles: list[Any] = []

    def begin(self, model: nn.Module) -> None:
        for module in model.modules():
            if isinstance(module, (nn.Linear, *_CONVOLUTIONS)):
                backward = any(parameter.requires_grad for parameter in module.parameters())
                self._handles.append(module.register_forward_hook(self._count_with if backward else self._count))

    def end(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _count_with(self, module: Any, inputs: Any, output: Any) -> None:
        """The layer learns, if not now, then where checkpointing computes it again: there are two products more."""
        self._count(module, inputs, output, 3)

    def _count(self, module: Any, inputs: Any, output: Any, products: int = 0) -> None:
        if not isinstance(output, torch.Tensor):  # a subclass may return anything
            return
        try:
            if isinstance(module, nn.Linear):
                inner = int(module.in_features)
            else:
                inner = int(module.in_channels // module.groups * math.prod(module.kernel_size))
        except (AttributeError, TypeError):  # a subclass with another constructor need not have them
            return
        with torch._C.DisableTorchFunction():
            outputs = output.numel()
            products = products or (2 if output.requires_grad else 1)  # a frozen layer passes gradients on at most
            flops = 2 * outputs * inner
            if self.largest is None or flops > self.largest.flops:
                self.largest = _layer_of(module, inputs, flops) or self.largest
        self.flops += products * flops


def _layer_of(module: Any, inputs: Any, flops: int) -> Layer | None:
    """None of a call with other inputs than one strided tensor, of other padding, or of a program's odd subclass.

    The weight itself is not read: it may be computed anew each time, as by spectral_norm, which then differs.
    """
    try:
        (given,) = inputs
        if given.is_nested or given.layout is not torch.strided or getattr(module, "padding_mode", "zeros") != "zeros":
            return None
        if isinstance(module, nn.Linear):
            return Layer(flops, tuple(given.shape), (module.out_features, module.in_features), {})
        weight = (module.out_channels, module.in_channels // module.groups, *module.kernel_size)
        settings = {name: getattr(module, name) for name in ("stride", "padding", "dilation", "groups")}
        return Layer(flops, tuple(given.shape), weight, settings)
    except Exception:
        return None
