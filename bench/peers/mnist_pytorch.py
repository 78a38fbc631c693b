"""The published MNIST experiment in plain Python PyTorch, written as people write it.

The peer that `stoker bench ladder --peer` runs beside its own rungs: an MLP 784-128-64-10 with Adam, once per way
of feeding it. One JSON document on stdout, progress on stderr; only training is timed, not evaluation.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

MEAN, STD = 0.1307, 0.3081
BATCH_SIZE = 64
LEARNING_RATE = 1e-3
RUNGS = {
    "python workers=0": {"workers": 0},
    "python workers=2": {"workers": 2},
    "python workers=8": {"workers": 8},
    "python in-memory": {},
    "python in-memory fused": {"fused": True},
}


def read_idx(directory: Path, name: str) -> np.ndarray:
    """One IDX file of bytes, plain or gzip: big-endian magic (its last byte is the rank), sizes, data."""
    plain, packed = directory / name, directory / f"{name}.gz"
    if not plain.exists() and not packed.exists():
        raise SystemExit(f"[{directory}] expected {name} or {name}.gz, got neither; pass a directory of IDX files")
    content = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    rank = content[3]
    shape = np.frombuffer(content, ">i4", rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def read_split(directory: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 28, 28) and labels (N), uint8; split is "train" or "t10k"."""
    return read_idx(directory, f"{split}-images-idx3-ubyte"), read_idx(directory, f"{split}-labels-idx1-ubyte")


class Digits(Dataset[tuple[Tensor, int]]):
    """A per-sample data set as torchvision's MNIST is: a PIL image, then the transforms."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images = images
        self.labels = labels
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


class LoaderFeed:
    """Shuffled batches from a DataLoader, copied to the device as they come."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, workers: int, device: torch.device) -> None:
        self.device = device
        self.loader = DataLoader(
            Digits(images, labels),
            batch_size=BATCH_SIZE,
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=device.type == "cuda",
        )

    def epoch(self) -> Iterator[tuple[Tensor, Tensor]]:
        for images, labels in self.loader:
            yield images.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)


class MemoryFeed:
    """Shuffled batches indexed out of one normalised tensor on the device."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, device: torch.device) -> None:
        self.images, self.labels = as_tensors(images, labels, device)

    def epoch(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self.labels), device=self.labels.device)
        for index in order.split(BATCH_SIZE):
            yield self.images[index], self.labels[index]


def as_tensors(images: np.ndarray, labels: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor]:
    """Normalised images (N, 1, 28, 28) float32 and labels (N) int64 on the device."""
    pixels = torch.tensor(images).unsqueeze(1).float().div_(255).sub_(MEAN).div_(STD)
    return pixels.to(device), torch.tensor(labels, dtype=torch.int64).to(device)


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def train_epoch(model: nn.Module, feed: LoaderFeed | MemoryFeed, optimizer: torch.optim.Optimizer) -> None:
    criterion = nn.CrossEntropyLoss()
    model.train()
    for images, labels in feed.epoch():
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    model.eval()
    return (model(images).argmax(1) == labels).float().mean().item()


def run_rung(name: str, data: Path, epochs: int, seed: int, device: torch.device) -> dict:
    options = RUNGS[name]
    images, labels = read_split(data, "train")
    test = as_tensors(*read_split(data, "t10k"), device)
    torch.manual_seed(seed)
    model = make_model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=options.get("fused"))
    if "workers" in options:
        feed: LoaderFeed | MemoryFeed = LoaderFeed(images, labels, options["workers"], device)
    else:
        feed = MemoryFeed(images, labels, device)

    epoch_seconds: list[float] = []
    for epoch in range(epochs):
        begin = time.perf_counter()
        train_epoch(model, feed, optimizer)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        epoch_seconds.append(time.perf_counter() - begin)
        print(f"{name}: epoch {epoch + 1}/{epochs}, {epoch_seconds[-1]:.2f} s", file=sys.stderr, flush=True)
    seconds = sum(epoch_seconds)
    return {
        "name": name,
        "seconds": seconds,
        "epoch_seconds": epoch_seconds,
        "accuracy": accuracy(model, *test),
        "images_per_second": len(labels) * epochs / seconds,
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a directory of MNIST's IDX files, plain or .gz")
    parser.add_argument("--rung", action="append", choices=list(RUNGS), help="repeatable; default: all of them")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="PyTorch's intra-op threads; default: PyTorch's own choice")
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:N, or auto: CUDA where it works")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    arguments = parser.parse_args()
    if arguments.epochs < 1 or (arguments.threads is not None and arguments.threads < 1):
        parser.error("expected --epochs and --threads of at least 1")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    found = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(found if arguments.device == "auto" else arguments.device)
    names = arguments.rung or list(RUNGS)
    rungs = [run_rung(name, arguments.data, arguments.epochs, arguments.seed, device) for name in names]
    if arguments.json:
        document = {"rungs": rungs, "torch": torch.__version__, "threads": torch.get_num_threads()}
        print(json.dumps({**document, "device": str(device)}))
        return
    for rung in rungs:
        print(f"{rung['name']:24} {rung['seconds']:8.2f} s {rung['images_per_second']:10.0f} images/s "
              f"accuracy {rung['accuracy']:.4f}")


if __name__ == "__main__":
    main()
