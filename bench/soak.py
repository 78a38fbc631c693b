"""Makes small data sets of drawn photos (a folder, stk with dct, WebDataset shards, LMDB) and reads each for many
epochs with many workers: memory and descriptors have to stop growing. Exit status 1 where they do not."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path


def make(stoker: Path, folder: Path, count: int) -> list[Path]:
    def run(*words: object) -> None:
        subprocess.run([str(stoker), *map(str, words)], check=True, stdout=subprocess.DEVNULL)

    photos = folder / "photos"
    run("synth", "photos", photos, "--count", count)
    run("pack", photos, folder / "photos.stk", "--codec", "dct")
    run("pack", photos, folder / "photos-{000000..}.tar")
    run("pack", photos, folder / "photos.lmdb")
    return [photos, folder / "photos.stk", folder / "photos-000000.tar", folder / "photos.lmdb"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build/release/bin"), help="where stoker and soak lie")
    parser.add_argument("--count", type=int, default=200, help="photos")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-soak-") as folder:
        data = make(arguments.build.resolve() / "stoker", Path(folder), arguments.count)
        numbers = ["--epochs", arguments.epochs, "--workers", arguments.workers]
        command = [arguments.build.resolve() / "soak", *numbers, *data]
        return subprocess.run([str(word) for word in command]).returncode


if __name__ == "__main__":
    sys.exit(main())
