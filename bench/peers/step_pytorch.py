"""One training step in plain Python PyTorch, written as people write it: the peer of `stoker bench step --peer`.

torchvision's model, SGD with momentum, autocast where asked, random images that lie on the device already. On a GPU
with cuDNN's search, the fused optimizer and, where asked, torch.compile. Prints one JSON document with the median
milliseconds of a step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import nullcontext

import torch
import torchvision
from torch import nn
from torch.nn.functional import cross_entropy


def small_images(model: nn.Module) -> nn.Module:
    """The stem that ResNets have for CIFAR."""
    model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    model.maxpool = nn.Identity()
    return model


def make_model(name: str, size: int, classes: int) -> nn.Module:
    if name == "vit_s_16":
        return torchvision.models.VisionTransformer(size, 16, 12, 6, 384, 1536, num_classes=classes)
    model = torchvision.models.get_model(name, num_classes=classes)
    return small_images(model) if size <= 64 else model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", choices=["none", "default", "reduce-overhead"], default="none")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    device = torch.device(options.device)
    cuda = device.type == "cuda"
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.precision != "fp32"
    model = make_model(options.model, options.size, options.classes).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=cuda or None)
    network = model if options.compile == "none" else torch.compile(model, mode=options.compile)
    shape = (options.batch, 3, options.size, options.size)
    images = torch.randn(shape).to(device, memory_format=torch.channels_last)
    labels = (torch.arange(options.batch) % options.classes).to(device)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16) if options.precision == "bf16" else nullcontext():
            loss = cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def seconds_per_step(steps: int) -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        if cuda:
            torch.cuda.synchronize(device)
        return (time.perf_counter() - begin) / steps

    at_once = 20 if cuda else 1  # a GPU runs behind the host
    seconds_per_step(5)
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < options.seconds:
        times.append(seconds_per_step(at_once))
    print(json.dumps({"milliseconds": 1e3 * statistics.median(times), "steps": at_once * len(times)}))


if __name__ == "__main__":
    main()
