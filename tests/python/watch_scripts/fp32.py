"""Planted: large matrix products in fp32. On a machine without fast bf16 this script is healthy."""
import torch
from data import vectors
from torch import nn
from training import fit


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = vectors(6400, 128, batch=128)
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    fit(model, optimizer, loader, epochs=2)


if __name__ == "__main__":
    main()
