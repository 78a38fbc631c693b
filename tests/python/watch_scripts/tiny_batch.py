"""Planted: two samples a step."""
import torch
from data import vectors
from torch import nn
from training import fit


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = vectors(2000, 64, batch=2)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    fit(model, optimizer, loader, epochs=3)


if __name__ == "__main__":
    main()
