"""What each recipe reaches, in accuracy and seconds, beside the same training in plain Python PyTorch.

    python bench/recipes.py --data FOLDER [--stoker build/release/bin/stoker] [--only mnist]

FOLDER has mnist/ (IDX files), photos/ (a folder for each class) and cifar10/{train,test}.tar.zst; what is missing is
left out and said so. The two sides take turns, recipe by recipe. Prints the table of bench/results/pipeline.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Row:
    recipe: str
    what: str  # the data, in words
    train: Path
    val: Path
    epochs: int


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def synth(stoker: Path, kind: str, folder: Path, count: int, seed: int) -> Path:
    if not folder.exists():
        run(stoker, "synth", kind, folder, "--count", str(count), "--seed", str(seed))
    return folder


def subset(tar: Path, folder: Path, per_class: int) -> Path:
    """The first images of each class of a packed folder of classes."""
    if not folder.exists():
        names = sorted(run("tar", "--zstd", "-tf", tar).split())
        chosen: dict[str, list[str]] = {}
        for name in names:
            if not name.endswith("/"):
                images = chosen.setdefault(str(Path(name).parent), [])
                if len(images) < per_class:
                    images.append(name)
        folder.mkdir(parents=True)
        listed = folder.with_suffix(".list")
        listed.write_text("\n".join(name for images in chosen.values() for name in images))
        run("tar", "--zstd", "-xf", tar, "-C", folder, "-T", listed)
    while len(children := list(folder.iterdir())) == 1:
        folder = children[0]
    return folder


def every_eighth(photos: Path, folder: Path) -> tuple[Path, Path]:
    """Links to the photographs: every eighth of a class for validation, the others for training."""
    for kind in sorted(path for path in photos.iterdir() if path.is_dir()):
        for i, photo in enumerate(sorted(kind.iterdir())):
            link = folder / ("val" if i % 8 == 7 else "train") / kind.name / photo.name
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(photo.resolve())
    return folder / "train", folder / "val"


def rows(data: Path, work: Path, stoker: Path) -> list[Row]:
    found = []
    digits = synth(stoker, "digits", work / "digits", 60000, 7)
    found.append(Row("digits", "60,000 synthetic digits", digits, digits, 5))
    if (data / "mnist").exists():
        found.append(Row("mnist", "MNIST", data / "mnist", data / "mnist", 5))
    if (data / "cifar10/train.tar.zst").exists():
        train = subset(data / "cifar10/train.tar.zst", work / "cifar-train", 300)
        val = subset(data / "cifar10/test.tar.zst", work / "cifar-test", 100)
        found.append(Row("cifar10_resnet18", "CIFAR-10, 300 images of each class", train, val, 3))
    shapes = [synth(stoker, "photos", work / f"shapes-{seed}", count, seed) for seed, count in ((1, 640), (2, 160))]
    found.append(Row("imagefolder_resnet18", "640 synthetic photos", *shapes, 3))
    if (data / "photos").exists():
        found.append(Row("imagefolder_resnet18", "84 photographs of 8 classes", *every_eighth(data / "photos", work / "photos"), 3))
    return found


def train_with_stoker(row: Row, stoker: Path, out: Path) -> tuple[float, float]:
    val = [] if row.val == row.train else ["--set", f"data.val={row.val}"]
    report = json.loads(
        run(stoker, "train", f"recipes/{row.recipe}.toml", "--set", f"data.train={row.train}", *val, "--set",
            f"train.epochs={row.epochs}", "--out", out, "--json")
    )  # fmt: skip
    return sum(epoch["seconds"] for epoch in report["epochs"]), report["epochs"][-1]["val_accuracy"]


def train_with_python(row: Row) -> tuple[float, float]:
    report = json.loads(
        run(sys.executable, "bench/peers/recipe_pytorch.py", f"recipes/{row.recipe}.toml", "--train", row.train,
            "--val", row.val, "--epochs", str(row.epochs))
    )  # fmt: skip
    return sum(report["seconds"]), report["accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--stoker", type=Path, default=ROOT / "build/release/bin/stoker")
    parser.add_argument("--only", help="recipes whose name has this in it")
    arguments = parser.parse_args()
    print("| recipe | data | epochs | Stoker, s | Python, s | Python / Stoker | accuracy | Python's |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        for row in rows(arguments.data.resolve(), Path(work), arguments.stoker.resolve()):
            if arguments.only and arguments.only not in row.recipe:
                continue
            print(f"{row.recipe}: {row.what}", file=sys.stderr)
            name = f"run-{row.recipe}-{row.train.name}"
            ours, accuracy = train_with_stoker(row, arguments.stoker.resolve(), Path(work) / name)
            theirs, their_accuracy = train_with_python(row)
            print(
                f"| {row.recipe} | {row.what} | {row.epochs} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.2f} | "
                f"{100 * accuracy:.1f} % | {100 * their_accuracy:.1f} % |",
                flush=True,
            )


if __name__ == "__main__":
    main()
