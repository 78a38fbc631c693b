"""A recipe of Stoker's trained in plain Python PyTorch, written as people write it: the peer of `bench/recipes.py`.

Reads the recipe's TOML: IDX files or folders of images, torchvision's v2 transforms, a DataLoader with two workers,
torch.optim. Prints one JSON document with the seconds of the epochs, without evaluation, and the last accuracy.
"""

from __future__ import annotations

import argparse
import json
import time
import tomllib
from pathlib import Path

import torch
import torchvision
from mnist_pytorch import read_split
from PIL import Image
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

PRESETS = {
    "mnist": ((0.1307,), (0.3081,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


def transform_of(op: dict) -> list:
    match op["op"]:
        case "random_resized_crop":
            ranges = {key: op[key] for key in ("scale", "ratio") if key in op}
            return [v2.RandomResizedCrop(op["size"], antialias=True, **ranges)]
        case "horizontal_flip":
            return [v2.RandomHorizontalFlip()]
        case "resize":
            return [v2.Resize(op["size"], antialias=True)]
        case "center_crop":
            return [v2.CenterCrop(op["size"])]
        case "normalize":
            return [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(*PRESETS[op["preset"]])]
    raise SystemExit(f"[{op['op']}] expected an op that this script knows")


class Digits(Dataset):
    def __init__(self, folder: Path, split: str, transform: v2.Transform) -> None:
        self.images, self.labels = read_split(folder, split)
        self.transform = transform
        self.classes = [str(digit) for digit in range(10)]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


def data_set(folder: Path, split: str, ops: list[dict]) -> Dataset:
    transform = v2.Compose([step for op in ops for step in transform_of(op)])
    if any(folder.glob("*ubyte*")):
        return Digits(folder, "train" if split == "train" else "t10k", transform)
    return ImageFolder(str(folder), transform)


def make_model(recipe: dict, classes: int) -> nn.Module:
    options = recipe["model"]
    if options["name"] == "mlp":
        return nn.Sequential(
            nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, classes)
        )
    model = torchvision.models.get_model(options["name"], num_classes=classes)
    if options.get("stem") == "cifar":
        model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        model.maxpool = nn.Identity()
    return model.to(memory_format=torch.channels_last)


def make_optimizer(recipe: dict, model: nn.Module) -> torch.optim.Optimizer:
    options = dict(recipe["optimizer"])
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return kinds[options.pop("name")](model.parameters(), **options)


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader, layout: torch.memory_format) -> float:
    model.eval()
    hits = total = 0
    for images, labels in loader:
        hits += (model(images.to(memory_format=layout)).argmax(1) == labels).sum().item()
        total += len(labels)
    model.train()
    return hits / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--val", type=Path, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    recipe = tomllib.loads(arguments.recipe.read_text())
    torch.manual_seed(arguments.seed)
    train = data_set(arguments.train, "train", recipe["data"]["train_ops"])
    val = data_set(arguments.val, "test", recipe["data"]["val_ops"])
    batch = recipe["data"]["batch_size"]
    loader = DataLoader(train, batch, shuffle=True, num_workers=2, persistent_workers=True)
    val_loader = DataLoader(val, batch, num_workers=2)
    model = make_model(recipe, len(train.classes))
    layout = torch.contiguous_format if recipe["model"]["name"] == "mlp" else torch.channels_last
    optimizer = make_optimizer(recipe, model)
    schedule = None
    if recipe.get("schedule", {}).get("name") == "one_cycle":
        steps = arguments.epochs * len(loader)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, recipe["optimizer"]["lr"], total_steps=steps, cycle_momentum=False
        )
    seconds = []
    for _ in range(arguments.epochs):
        begin = time.perf_counter()
        for images, labels in loader:
            loss = cross_entropy(model(images.to(memory_format=layout)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule:
                schedule.step()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds, "accuracy": accuracy(model, val_loader, layout)}))


if __name__ == "__main__":
    main()
