# Photographs in MDS and in LitData: stoker.Loader against each library's own loader with torchvision's transforms, two
# workers each, interleaved; then the files' bytes alone. Each library runs in another environment (bench/peers/
# chunks.py). Run from the root:
# PYTHONPATH=build/release/python .venv/bin/python bench/chunks.py PHOTOS mds=PYTHON litdata=PYTHON
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import stoker
from stoker import transforms

COUNT, BATCH, WORKERS, ROUNDS = 1000, 64, 2, 7
PEER = Path(__file__).with_name("peers") / "chunks.py"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
OPS = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.Normalize(MEAN, STD)]


class Theirs:
    """The library's loader in another process, which reads an epoch for each line."""

    def __init__(self, python, library, folder, kind):
        command = [python, PEER, "read", library, folder, kind, BATCH, WORKERS]
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def epoch(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        samples, seconds = self.process.stdout.readline().split()
        return int(samples) / float(seconds)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Ours:
    def __init__(self, library, folder, kind):
        name = "data" if library == "mds" else "0"
        data = Path(folder) / kind
        if kind == "photos":
            self.loader = stoker.Loader(stoker.open(data, image=name), BATCH, ops=OPS, workers=WORKERS, framework="torch")
        else:
            opened = stoker.open(data, fields={"data": (name, "bytes")}, label="label" if library == "mds" else "1")
            self.loader = stoker.Loader(opened, BATCH, workers=WORKERS, framework="torch")

    def epoch(self):
        start = time.perf_counter()
        samples = sum(len(batch["label"]) for batch in self.loader)
        return samples / (time.perf_counter() - start)


def compare(python, library, folder, kind):
    theirs, ours = Theirs(python, library, folder, kind), Ours(library, folder, kind)
    pairs = [(ours.epoch(), theirs.epoch()) for _ in range(ROUNDS + 1)][1:]  # the first epoch starts workers
    theirs.close()
    ratios = sorted(a / b for a, b in pairs)
    print(
        f"{library} {kind}: stoker {statistics.median(a for a, _ in pairs):.0f}, its loader "
        f"{statistics.median(b for _, b in pairs):.0f} samples/s, {statistics.median(ratios):.2f}x "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f})",
        flush=True,
    )


def main(photographs, *peers):
    with tempfile.TemporaryDirectory() as scratch:
        for peer in peers:
            library, python = peer.split("=", 1)
            folder = Path(scratch) / library
            subprocess.run(list(map(str, [python, PEER, "write", library, photographs, folder, COUNT])), check=True)
            for kind in ("photos", "bytes"):
                compare(python, library, folder, kind)


if __name__ == "__main__":
    main(*sys.argv[1:])
