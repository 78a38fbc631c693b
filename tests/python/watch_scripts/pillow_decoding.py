"""Planted: large JPEG files, decoded whole by Pillow."""
import torch
from data import Photos, cores
from torch import nn
from torch.utils.data import DataLoader
from training import fit


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Photos(40 * cores(), side=1280), batch_size=4, num_workers=cores(), persistent_workers=True)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    fit(model, optimizer, loader, epochs=4)


if __name__ == "__main__":
    main()
