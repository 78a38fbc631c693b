"""Planted: two samples a step."""
import torch
from data import vectors
from torch import nn


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = vectors(2000, 64, batch=2)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(3):
        for values, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(values), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.6f}")


if __name__ == "__main__":
    main()
