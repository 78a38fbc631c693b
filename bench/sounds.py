# Sounds of 10 s at 16 kHz to 80 mel bands in decibels: stoker.Loader against torch's DataLoader with torchaudio, which
# reads with soundfile or with torchaudio.load; interleaved, two workers each. The sounds are tones that glide, in noise.
# Run from the root: PYTHONPATH=build/release/python .venv/bin/python bench/sounds.py [ending]
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
import stoker
import torch
import torchaudio
from second_epoch import rate
from stoker import transforms
from torch.utils.data import DataLoader, Dataset

COUNT, SECONDS, RATE, BATCH, WORKERS, ROUNDS = 256, 10, 16000, 32, 2, 7


def write(folder, ending):
    draw = np.random.default_rng(0)
    t = np.arange(SECONDS * RATE) / RATE
    for n in range(COUNT):
        place = folder / f"class{n % 4}"
        place.mkdir(parents=True, exist_ok=True)
        pitch = 150 + 100 * np.sin(2 * np.pi * (0.5 + 0.01 * n) * t)
        voice = sum(np.sin(k * 2 * np.pi * np.cumsum(pitch) / RATE) / k for k in range(1, 12))
        loudness = 0.5 + 0.5 * np.sin(2 * np.pi * 3 * t)
        soundfile.write(place / f"s{n:03}.{ending}", 0.1 * voice * loudness + 0.003 * draw.standard_normal(t.size), RATE)


class Sounds(Dataset):
    def __init__(self, folder, read):
        self.files, self.read = sorted(map(str, folder.rglob("s*.*"))), read
        self.mel = torch.nn.Sequential(torchaudio.transforms.MelSpectrogram(RATE, n_fft=400, hop_length=160, n_mels=80),
                                       torchaudio.transforms.AmplitudeToDB())

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.mel(self.read(self.files[index]))


def with_soundfile(path):
    return torch.from_numpy(soundfile.read(path, dtype="float32")[0])[None]


def with_torchaudio(path):
    return torchaudio.load(path)[0]


def theirs(folder, read):
    return DataLoader(Sounds(folder, read), BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True)


def ours(folder):
    ops = [transforms.MelSpectrogram(n_fft=400, hop_length=160, n_mels=80), transforms.AmplitudeToDB()]
    return stoker.Loader(folder, BATCH, sample_rate=RATE, ops=ops, workers=WORKERS, framework="torch")


def main(ending="flac"):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write(folder, ending)
        loaders = {"soundfile": lambda: theirs(folder, with_soundfile), "torchaudio.load": lambda: theirs(folder, with_torchaudio),
                   "stoker": lambda: ours(folder)}
        rates = {name: [] for name in loaders}
        for _ in range(ROUNDS):
            for name, make in loaders.items():
                rates[name].append(rate(make(), COUNT))
            print(", ".join(f"{name} {found[-1]:.0f}" for name, found in rates.items()), "sounds/s", flush=True)
        for other in ("soundfile", "torchaudio.load"):
            print(f"stoker / {other}: median {statistics.median(a / b for a, b in zip(rates['stoker'], rates[other])):.2f}x")


if __name__ == "__main__":
    main(*sys.argv[1:])
