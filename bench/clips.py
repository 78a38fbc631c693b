# Clips of 16 frames, random_resized_crop 112, flip, normalise: stoker.Loader from H.264 files and from packed dct frames,
# against torch's DataLoader with torchcodec's and with PyAV's decoder; interleaved, two workers each. Photographs that
# move, 10 s at 25 frames/s, 340 x 256, x264's defaults. Run from the root:
# PYTHONPATH=build/release/python .venv/bin/python bench/clips.py PHOTOS
import random
import statistics
import sys
import tempfile
from pathlib import Path

import av
import numpy as np
import stoker
import torch
from PIL import Image
from second_epoch import rate
from stoker import transforms
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

COUNT, FRAMES, HEIGHT, WIDTH, CLIP, BATCH, WORKERS, ROUNDS = 48, 250, 256, 340, 16, 8, 2, 5
MEAN, STD = [0.43216, 0.394666, 0.37645], [0.22803, 0.22145, 0.216989]


def write(folder, photos):
    """A window that wanders over each photograph, with a little noise."""
    draw = np.random.default_rng(0)
    for n in range(COUNT):
        photo = np.asarray(Image.open(photos[n % len(photos)]).convert("RGB").resize((2 * WIDTH, 2 * HEIGHT)))
        place = folder / f"class{n % 4}"
        place.mkdir(exist_ok=True)
        with av.open(str(place / f"v{n:03}.mp4"), "w") as file:
            stream = file.add_stream("libx264", rate=25)
            stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            corner, speed = draw.uniform(0, [HEIGHT, WIDTH]), draw.uniform(-2, 2, 2)
            for _ in range(FRAMES):
                corner = corner + speed + draw.normal(0, 0.3, 2)
                speed = np.where((corner < 0) | (corner > [HEIGHT, WIDTH]), -speed, speed)
                y, x = np.clip(corner, 0, [HEIGHT, WIDTH]).astype(int)
                window = photo[y : y + HEIGHT, x : x + WIDTH] + draw.integers(-3, 4, (HEIGHT, WIDTH, 3))
                file.mux(stream.encode(av.VideoFrame.from_ndarray(np.clip(window, 0, 255).astype(np.uint8), format="rgb24")))
            file.mux(stream.encode())


class Clips(Dataset):
    """Random clips, as torchvision's references read them."""

    def __init__(self, folder):
        self.files = sorted(map(str, folder.rglob("*.mp4")))
        self.transform = v2.Compose([
            v2.RandomResizedCrop(112, antialias=True), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)
        ])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.transform(self.frames(self.files[index], random.randint(0, FRAMES - CLIP)))


class TorchCodec(Clips):
    def frames(self, path, begin):
        from torchcodec.decoders import VideoDecoder

        return VideoDecoder(path, num_ffmpeg_threads=1, seek_mode="approximate").get_frames_in_range(begin, begin + CLIP).data


class PyAv(Clips):
    def frames(self, path, begin):
        with av.open(path) as file:
            stream = file.streams.video[0]
            stream.thread_count = 1
            wanted = int(begin / 25 / stream.time_base)
            file.seek(wanted, stream=stream)
            found = []
            for frame in file.decode(stream):
                if frame.pts >= wanted:
                    found.append(torch.from_numpy(frame.to_ndarray(format="rgb24")))
                if len(found) == CLIP:
                    break
        return torch.stack(found).permute(0, 3, 1, 2)


def theirs(kind, folder):
    return DataLoader(kind(folder), BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True)


def ours(source):
    ops = [transforms.RandomResizedCrop(112), transforms.RandomHorizontalFlip(), transforms.Normalize(MEAN, STD)]
    return stoker.Loader(source, BATCH, ops=ops, frames=CLIP, workers=WORKERS, framework="torch")


def main(photos):
    with tempfile.TemporaryDirectory() as scratch:
        folder, packed = Path(scratch) / "videos", Path(scratch) / "clips.stk"
        folder.mkdir()
        write(folder, sorted(path for path in Path(photos).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg")))
        stoker.pack(stoker.open(folder, clips=True), packed, codec="dct", quality=90)
        loaders = {"torchcodec": lambda: theirs(TorchCodec, folder), "PyAV": lambda: theirs(PyAv, folder),
                   "stoker": lambda: ours(folder), "stoker, dct": lambda: ours(packed)}
        rates = {name: [] for name in loaders}
        for _ in range(ROUNDS):
            for name, make in loaders.items():
                rates[name].append(rate(make(), COUNT))
            print(", ".join(f"{name} {found[-1]:.1f}" for name, found in rates.items()), "clips/s", flush=True)
        for name in ("stoker", "stoker, dct"):
            for other in ("torchcodec", "PyAV"):
                print(f"{name} / {other}: median {statistics.median(a / b for a, b in zip(rates[name], rates[other])):.2f}x")


if __name__ == "__main__":
    main(sys.argv[1])
