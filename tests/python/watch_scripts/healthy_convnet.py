"""Healthy: small images, a convolutional network, losses read once in an epoch."""
import torch
from data import Photos
from torch import nn
from torch.utils.data import DataLoader


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    photos = Photos(1024, side=64, small=32)
    loader = DataLoader(photos, 32, shuffle=True, num_workers=1, persistent_workers=True, prefetch_factor=4)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(64, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 4),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, fused=True)
    bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    for epoch in range(2):
        total = torch.zeros(())
        for images, labels in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch}: {total.item():.4f}")


if __name__ == "__main__":
    main()
