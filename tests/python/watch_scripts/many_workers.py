"""Planted: eight workers for each core, started again in each of many short epochs."""
import torch
from data import Signals, cores
from torch import nn
from torch.utils.data import DataLoader
from training import fit


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Signals(200 * cores(), work=1), batch_size=20, shuffle=True, num_workers=8 * cores())
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    fit(model, optimizer, loader, epochs=5)


if __name__ == "__main__":
    main()
