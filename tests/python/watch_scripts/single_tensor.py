"""Planted: an optimizer that updates 200 small tensors one after the other."""
import torch
from data import vectors
from torch import nn
from training import fit


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = vectors(6400, 64, batch=64)
    layers = [layer for _ in range(50) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    fit(model, optimizer, loader, epochs=3)


if __name__ == "__main__":
    main()
