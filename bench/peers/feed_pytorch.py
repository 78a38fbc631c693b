"""Training on a GPU from a folder of photographs in plain Python PyTorch, written as people write it: the peer of
Stoker's trainer on the same photographs. Prints one JSON document with the images of a second, after a warm-up.

    python bench/peers/feed_pytorch.py --data photos --workers 16
"""

from __future__ import annotations

import argparse
import json
import time

import torch
import torchvision
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, RandomSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def loader(arguments: argparse.Namespace) -> tuple[DataLoader, int]:
    steps = [
        transforms.RandomResizedCrop(224, antialias=True),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD),
    ]
    photos = ImageFolder(arguments.data, transforms.Compose(steps))
    draws = RandomSampler(photos, replacement=True, num_samples=arguments.steps * arguments.batch)
    batches = DataLoader(
        photos, arguments.batch, sampler=draws, num_workers=arguments.workers, pin_memory=True, prefetch_factor=4
    )
    return batches, len(photos.classes)


def train(arguments: argparse.Namespace) -> float:
    batches, classes = loader(arguments)
    model = torchvision.models.get_model(arguments.model, num_classes=classes).cuda()
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    start = 0.0
    for step, (images, labels) in enumerate(batches):
        if step == arguments.warmup:
            torch.cuda.synchronize()
            start = time.perf_counter()
        images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
        labels = labels.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    return (arguments.steps - arguments.warmup) * arguments.batch / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--warmup", type=int, default=100)  # more than the workers prepare ahead
    arguments = parser.parse_args()
    print(json.dumps({**vars(arguments), "images_per_second": train(arguments)}))


if __name__ == "__main__":
    main()
