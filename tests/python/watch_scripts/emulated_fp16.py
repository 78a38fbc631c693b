"""Planted: autocast to fp16 on a CPU. If the processor computes fp16 itself, this script is healthy."""
import torch
from data import vectors
from torch import nn
from training import fit


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = vectors(960, 128, batch=64)
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    with torch.autocast("cpu", torch.float16):
        fit(model, optimizer, loader, epochs=2)


if __name__ == "__main__":
    main()
