"""Healthy: batches cost little compared with a wide MLP, which trains in bf16 if the machine has it."""
import torch
from data import vectors
from torch import nn


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = vectors(6400, 128, batch=128)
    test = vectors(640, 128, batch=128)
    model = nn.Sequential(nn.Linear(128, 1536), nn.ReLU(), nn.Linear(1536, 1536), nn.ReLU(), nn.Linear(1536, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    for epoch in range(4):
        for values, labels in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss = nn.functional.cross_entropy(model(values), labels)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = sum((model(values).argmax(1) == labels).sum().item() for values, labels in test)
        print(f"epoch {epoch}: {loss.item():.4f} {right}")


if __name__ == "__main__":
    main()
