"""The training loop of those watched scripts whose loop has nothing planted in it."""
from torch import nn


def fit(model, optimizer, loader, epochs):
    for epoch in range(epochs):
        for values, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(values), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.6f}")
