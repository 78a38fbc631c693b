"""Planted: eight workers for each core, started again in each of many short epochs."""
import torch
from data import Signals, cores
from torch import nn
from torch.utils.data import DataLoader


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Signals(200 * cores(), work=1), batch_size=20, shuffle=True, num_workers=8 * cores())
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    for epoch in range(5):
        for signals, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(signals), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.6f}")


if __name__ == "__main__":
    main()
