"""Planted: a transform in pure Python that keeps all workers busy."""
import torch
from data import cores
from torch import nn
from torch.utils.data import DataLoader, Dataset
from training import fit


class Smoothed(Dataset):
    def __len__(self):
        return 400 * cores()

    def __getitem__(self, index):
        values = [((index + 1) * i) % 251 / 251 for i in range(256)]
        for _ in range(40):
            values = [0.5 * a + 0.5 * b for a, b in zip(values, values[1:] + values[:1])]
        return torch.tensor(values), index % 4


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Smoothed(), batch_size=20, num_workers=cores(), persistent_workers=True)
    model = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    fit(model, optimizer, loader, epochs=3)


if __name__ == "__main__":
    main()
