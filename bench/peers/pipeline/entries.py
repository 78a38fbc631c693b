"""The entries of a comparison: the peers and their settings, and Stoker on a folder and on its own packed files."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from environments import HERE, Skipped, interpreter, last_line


@dataclass
class Work:
    """Shared by all entries of one comparison."""

    stoker: Path
    photos: Path  # a folder of JPEGs
    folder: Path  # for what entries write
    size: int
    batch: int


@dataclass
class Peer:
    name: str
    environment: str
    script: str
    setting: str
    variant: str = ""

    def command(self, work: Work, workers: int) -> list[str]:
        numbers = {"--size": work.size, "--batch": work.batch, "--workers": workers}
        words = [str(word) for pair in numbers.items() for word in pair]
        place = ["--data", str(work.photos), "--work", str(work.folder), "--variant", self.variant]
        return [str(interpreter(self.environment)), str(HERE / self.script), *place, *words]


@dataclass
class Stoker:
    name: str
    codec: str  # of the packed file; empty: the unpacked folder
    setting: str
    indexed: bool = False  # with the index of JPEGs, as in training after the first epochs

    def command(self, work: Work, workers: int) -> list[str]:
        data = self.packed(work) if self.codec else work.photos
        numbers = {"--size": work.size, "--batch": work.batch, "--workers": workers}
        words = [str(word) for pair in numbers.items() for word in pair]
        if self.indexed:
            self.run(work, "index", str(data))
            words.append("--jpeg-index")
        return [str(work.stoker), "bench", "pipeline", "--serve", "--data", str(data), *words]

    def run(self, work: Work, *words: str) -> None:
        done = subprocess.run([str(work.stoker), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise Skipped(f"stoker {words[0]}: {last_line(done.stderr)}")

    def packed(self, work: Work) -> Path:
        data = work.folder / f"{self.codec}.stk"
        if not data.exists():
            self.run(work, "pack", str(work.photos), str(data), "--codec", self.codec)
        return data


ENTRIES = [
    Peer("torch + Pillow", "torch", "torch_loader.py", "ImageFolder, antialiased", "pillow"),
    Peer("torch + OpenCV", "torch", "torch_loader.py", "INTER_LINEAR, not antialiased", "opencv"),
    Peer("torchvision", "torch", "torch_loader.py", "decode_jpeg, v2 transforms, antialiased", "torchvision"),
    Peer("torchcodec", "torch", "torch_loader.py", "decode_jpeg, v2 transforms, antialiased", "torchcodec"),
    Peer("WebDataset + OpenCV", "torch", "webdataset_loader.py", "tar shards, not antialiased"),
    Peer("SPDL + OpenCV", "spdl", "spdl_loader.py", "threads, not antialiased"),
    Peer("Grain + OpenCV", "grain", "grain_loader.py", "threads, not antialiased"),
    Peer("DALI, CPU", "dali", "dali_loader.py", "image_random_crop, antialiased"),
    Peer("tf.data", "tf_data", "tf_data_loader.py", "decode_and_crop_jpeg, not antialiased"),
    Peer("FFCV, jpg", "ffcv", "ffcv_loader.py", "quality 90, area resize, channels-last", "jpg"),
    Peer("FFCV, raw", "ffcv", "ffcv_loader.py", "at most 500 a side, area resize, channels-last", "raw"),
    Peer("TurboLoader, tar", "turboloader", "turbo_loader.py", "train_aug, not antialiased", "tar"),
    Peer("TurboLoader, tar, antialiased", "turboloader", "turbo_loader.py", "train_aug, antialiased", "antialiased"),
    Peer("TurboLoader, tbl", "turboloader", "turbo_loader.py", "pixels of 256 a side, not antialiased", "tbl"),
    Stoker("Stoker, folder", "", "original JPEGs, antialiased"),
    Stoker("Stoker, folder, indexed", "", "original JPEGs, antialiased", indexed=True),
    Stoker("Stoker, stk keep", "keep", "original JPEGs, antialiased"),
    Stoker("Stoker, stk dct", "dct", "lossless coefficients, antialiased"),
    Stoker("Stoker, stk dct-zstd", "dct-zstd", "the same, compressed, antialiased"),
    Stoker("Stoker, stk dct-ans", "dct-ans", "the same, smaller than the JPEGs"),
    Stoker("Stoker, stk raw", "raw", "pixels at full size, antialiased"),
]
