"""Data of the watched scripts: tensors in memory, a costly data set, JPEG files."""
import os
import tempfile

import numpy as np
import torch
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset


def cores():
    return len(os.sched_getaffinity(0))


def vectors(count, size, batch):
    """A loader over tensors in memory that takes each batch in one piece, which costs next to nothing."""
    values = torch.randn(count, size, generator=torch.Generator().manual_seed(1))
    data = TensorDataset(values, torch.arange(count) % 4)
    return DataLoader(data, sampler=BatchSampler(RandomSampler(data), batch, drop_last=True), batch_size=None)


class Signals(Dataset):
    """`work` passes of a filter in NumPy over each signal: about 0.1 ms each."""

    def __init__(self, count, work, size=256):
        self.count, self.work, self.size = count, work, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        signal = np.random.default_rng(index).normal(size=8192)
        for _ in range(self.work):
            signal = np.sort(signal)[::-1] * 0.5
        return torch.from_numpy(signal[: self.size].astype(np.float32)), index % 4


class Photos(Dataset):
    """JPEG files, drawn into a temporary folder, decoded with Pillow."""

    def __init__(self, count, side, small=64):
        self.folder = tempfile.TemporaryDirectory()
        self.small = small
        rng = np.random.default_rng(0)
        self.paths = []
        for i in range(count):
            coarse = rng.integers(0, 256, (side // 8, side // 8, 3), dtype=np.uint8)
            self.paths.append(os.path.join(self.folder.name, f"{i}.jpg"))
            Image.fromarray(coarse).resize((side, side), Image.BILINEAR).save(self.paths[-1], quality=92)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB").resize((self.small, self.small), Image.NEAREST)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        return pixels.float() / 255, index % 4
