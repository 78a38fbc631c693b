# Photographs from Parquet: stoker.Loader against datasets with its torch format in torch's DataLoader, and against
# stoker.Loader over the same files in a folder; then bytes alone, without decoding. Interleaved, two workers each, 1,000
# photographs, RandomResizedCrop(224), flip, normalise. Run from the root:
# PYTHONPATH=build/release/python .venv/bin/python bench/parquet.py PHOTOS
import statistics
import sys
import tempfile
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import stoker
import torch
from second_epoch import rate
from stoker import transforms
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

COUNT, BATCH, WORKERS, ROUNDS = 1000, 64, 2, 5
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def write(folder, photos):
    """The same photographs as a folder, as datasets writes Parquet, and as pyarrow does (Snappy, dictionary)."""
    names = sorted(path for path in Path(photos).rglob("*") if path.is_file())
    for n in range(COUNT):
        place = folder / "files" / f"class{n % 10}"
        place.mkdir(parents=True, exist_ok=True)
        # A comment after the first marker makes each file another one, as those of a data set are.
        content = names[n % len(names)].read_bytes()
        (place / f"{n:04}.jpg").write_bytes(content[:2] + b"\xff\xfe\x00\x08" + b"%06d" % n + content[2:])
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=10)})
    files = sorted((folder / "files").rglob("*.jpg"))
    rows = [{"image": {"bytes": file.read_bytes(), "path": file.name}, "label": int(file.parent.name[5:])} for file in files]
    made = datasets.Dataset.from_list(rows, features=features)
    made.to_parquet(folder / "datasets.parquet")
    pq.write_table(made.data.table, folder / "pyarrow.parquet", row_group_size=200)


class Theirs(Dataset):
    def __init__(self, path):
        self.rows = datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(path.parent / "cache")).with_format("torch")
        self.ops = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True),
                               v2.Normalize(MEAN, STD)])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return self.ops(row["image"]), row["label"]


class TheirBytes(Theirs):
    def __init__(self, path):
        super().__init__(path)
        self.rows = self.rows.with_format(None).cast_column("image", datasets.Image(decode=False))

    def __getitem__(self, index):
        return self.rows[index]["image"]["bytes"]


def theirs(rows, **settings):
    torch.set_num_threads(1)
    return DataLoader(rows, BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True, **settings)


def ours(path):
    ops = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.Normalize(MEAN, STD)]
    return stoker.Loader(path, BATCH, ops=ops, workers=WORKERS, framework="torch")


def our_bytes(path):
    data = stoker.open(path, fields={"file": ("image", "bytes")})
    return stoker.Loader(data, BATCH, workers=WORKERS, framework="numpy")


def main(photos):
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write(folder, photos)
        loaders = {
            "datasets": lambda: theirs(Theirs(folder / "datasets.parquet")),
            "folder": lambda: ours(folder / "files"),
            "stoker": lambda: ours(folder / "datasets.parquet"),
            "stoker, Snappy": lambda: ours(folder / "pyarrow.parquet"),
            "datasets, bytes": lambda: theirs(TheirBytes(folder / "datasets.parquet"), collate_fn=list),
            "stoker, bytes": lambda: our_bytes(folder / "datasets.parquet"),
        }
        rates = {name: [] for name in loaders}
        for _ in range(ROUNDS):
            for name, make in loaders.items():
                rates[name].append(rate(make(), COUNT))
            print(", ".join(f"{name} {found[-1]:.0f}" for name, found in rates.items()), "samples/s", flush=True)
        for a, b in (("stoker", "datasets"), ("stoker", "folder"), ("stoker, Snappy", "folder"), ("stoker, bytes", "datasets, bytes")):
            print(f"{a} / {b}: median {statistics.median(x / y for x, y in zip(rates[a], rates[b])):.2f}x")


if __name__ == "__main__":
    main(*sys.argv[1:])
