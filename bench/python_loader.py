"""images/s of stoker.Loader in Python beside those of the C++ loader (`stoker bench pipeline --serve`), round by round in
turn on the same data with the same ops. Exit status 1 where the median share is below 95 %.

    PYTHONPATH=build/release/python .venv/bin/python bench/python_loader.py ../shared/data/photos
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import stoker
from stoker.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop

LEAST_SHARE = 0.95
PREFETCH = 3


class CppLoader:
    """The program that takes a number of batches a line, and says when a round begins and ends."""

    def __init__(self, program: Path, arguments: argparse.Namespace) -> None:
        numbers = ["--size", arguments.size, "--batch", arguments.batch, "--workers", arguments.workers]
        command = [program, "bench", "pipeline", "--serve", "--data", arguments.data, "--prefetch", PREFETCH, *numbers]
        words = [str(word) for word in command]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._expect("open")
        self._expect("first")

    def round(self, batches: int) -> float:
        """Seconds."""
        assert self.process.stdin is not None
        print(batches, file=self.process.stdin, flush=True)
        self._expect("begin")
        begin = time.perf_counter()
        self._expect("end")
        return time.perf_counter() - begin

    def close(self) -> None:
        self.process.communicate()

    def _expect(self, event: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith(event):
            sys.exit(f"expected {event!r} of the program, got {line!r}")


class PythonLoader:
    def __init__(self, arguments: argparse.Namespace) -> None:
        imagenet = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
        self.loader = stoker.Loader(
            arguments.data,
            arguments.batch,
            ops=[RandomResizedCrop(arguments.size), RandomHorizontalFlip(), imagenet],
            workers=arguments.workers,
            prefetch=PREFETCH,
            drop_last=True,
            framework=arguments.framework,
        )
        self.batches = self._endless()
        next(self.batches)

    def _endless(self):
        while True:
            yield from self.loader

    def round(self, batches: int) -> float:
        """Seconds. Begins without a stock of finished batches, as the program's rounds do."""
        for _ in range(PREFETCH + 2):
            next(self.batches)
        begin = time.perf_counter()
        for _ in range(batches):
            next(self.batches)
        return time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a folder of images with at least one batch")
    parser.add_argument("--program", type=Path, default=Path("build/release/bin/stoker"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batches", type=int, default=20, help="in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--framework", choices=["torch", "numpy"], default="torch")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cpp = CppLoader(arguments.program, arguments)
    python = PythonLoader(arguments)
    images = arguments.batches * arguments.batch
    rates: dict[str, list[float]] = {"cpp": [], "python": []}
    for _ in range(arguments.rounds):
        rates["cpp"].append(images / cpp.round(arguments.batches))
        rates["python"].append(images / python.round(arguments.batches))
    cpp.close()
    shares = [mine / its for mine, its in zip(rates["python"], rates["cpp"])]
    share = statistics.median(shares)
    if arguments.json:
        print(json.dumps({**rates, "share": share, "shares": shares}))
    else:
        medians = {name: statistics.median(of) for name, of in rates.items()}
        print(f"C++ {medians['cpp']:,.0f} images/s, Python {medians['python']:,.0f} images/s, in pairs {100 * share:.1f} %")
    return 0 if share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
