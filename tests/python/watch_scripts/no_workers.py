"""Planted: num_workers=0, with samples that take a millisecond to make."""
import torch
from data import Signals
from torch import nn
from torch.utils.data import DataLoader
from training import fit


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Signals(800, work=3), batch_size=20, shuffle=True)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    fit(model, optimizer, loader, epochs=3)


if __name__ == "__main__":
    main()
