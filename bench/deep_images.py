# uint16 images of 512 x 512 in chunks of an HDF5 file with gzip, and with shuffle before it, cropped to 448:
# stoker.Loader against h5py in a DataLoader, interleaved, two workers each. Run from the root:
# PYTHONPATH=build/release/python .venv/bin/python bench/deep_images.py
import statistics
import tempfile
from pathlib import Path

import h5py
import numpy as np
import stoker
import torch
from second_epoch import rate
from stoker import transforms
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

COUNT, SIDE, CROP, BATCH, WORKERS, ROUNDS = 240, 512, 448, 16, 2, 5


def write(path, shuffle):
    """Waves with noise, 12 bits in 16, one chunk an image."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE]
    with h5py.File(path, "w") as file:
        stored = {"chunks": (1, SIDE, SIDE), "compression": "gzip", "shuffle": shuffle}
        images = file.create_dataset("images", (COUNT, SIDE, SIDE), np.uint16, **stored)
        for i in range(COUNT):
            wave = 1500 + 900 * np.sin(x / (20 + i % 7)) * np.cos(y / (30 + i % 5))
            images[i] = np.clip(wave + random.normal(0, 30, (SIDE, SIDE)), 0, 4095)
        file["labels"] = np.arange(COUNT) % 2


class Images(Dataset):
    def __init__(self, path):
        self.path, self.file = path, None
        self.transform = v2.Compose([v2.RandomCrop(CROP), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)])

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        self.file = self.file or h5py.File(self.path)
        return self.transform(torch.from_numpy(self.file["images"][index])[None]), int(self.file["labels"][index])


def compare(shuffle):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.h5"
        write(path, shuffle)
        ratios = []
        for _ in range(ROUNDS):
            peer = DataLoader(Images(path), BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True)
            theirs = rate(peer, COUNT)
            ops = [transforms.RandomCrop(CROP), transforms.RandomHorizontalFlip()]
            ours = rate(stoker.Loader(path, BATCH, ops=ops, workers=WORKERS, framework="torch"), COUNT)
            ratios.append(ours / theirs)
            print(f"h5py {theirs:.0f}, stoker {ours:.0f} images/s: {ratios[-1]:.2f}x", flush=True)
        print(f"gzip{' and shuffle' if shuffle else ''}: median {statistics.median(ratios):.2f}x")


if __name__ == "__main__":
    for shuffle in (False, True):
        compare(shuffle)
