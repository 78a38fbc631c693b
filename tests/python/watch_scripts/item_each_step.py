"""Planted: loss.item() in each step, on a made-up device that computes 4 ms behind the host."""
import time

import torch
from data import vectors
from torch import nn


class OnDevice(torch.Tensor):
    """A tensor whose value is ready when the device has done all work that was launched before."""

    ready = 0.0

    @classmethod
    def launch(cls, seconds):
        cls.ready = max(cls.ready, time.perf_counter()) + seconds

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.item:
            time.sleep(max(0.0, cls.ready - time.perf_counter()))
        return super().__torch_function__(func, types, args, kwargs or {})


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = vectors(6400, 32, batch=64)
    layers = [layer for _ in range(40) for layer in (nn.Linear(32, 32), nn.LayerNorm(32), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    for epoch in range(3):
        total = 0.0
        for values, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(values), labels)
            loss.backward()
            optimizer.step()
            OnDevice.launch(0.004)
            total += loss.detach().as_subclass(OnDevice).item()
        print(f"epoch {epoch}: {total:.6f}")


if __name__ == "__main__":
    main()
