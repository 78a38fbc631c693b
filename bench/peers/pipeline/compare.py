"""Measures Stoker's input pipeline and its peers' on the same photographs: decode, RandomResizedCrop, flip, normalise
to float32 (N, 3, size, size), shuffled, and nothing else.

All pipelines are started and give a first batch; then they take turns, round by round, so that a machine that changes
speed changes it for all. Those whose turn it is not are stopped. What `stoker bench pipeline --peers` runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
from pathlib import Path

from entries import ENTRIES, Peer, Work
from environments import Skipped
from report import plot, skipped_list, table
from session import Session

# Fewer photographs are copied until there are as many: shuffle buffers, shards and caches then work as intended.
ENOUGH = 960


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def enough_photos(folder: Path, work: Path) -> tuple[Path, int]:
    """A folder with at least ENOUGH images, and how many copies of each it holds."""
    photos = [path for path in sorted(folder.glob("*/*")) if path.is_file()]
    if not photos:
        raise SystemExit(f"[{folder}] expected a folder of JPEGs with a subfolder for each class, got no files in it")
    copies = -(-ENOUGH // len(photos))
    if copies == 1:
        return folder, 1
    say(f"{len(photos)} photographs, {copies} copies of each in {work / 'photos'}")
    for path in photos:
        to = work / "photos" / path.parent.name
        to.mkdir(parents=True, exist_ok=True)
        for copy in range(copies):
            shutil.copyfile(path, to / f"{path.stem}-{copy}{path.suffix}")
    return work / "photos", copies


def start_all(entries: list, work: Work, workers: int, skipped: dict[str, str]) -> dict[str, Session]:
    sessions: dict[str, Session] = {}
    for entry in entries:
        if entry.name in skipped:
            continue
        say(f"{entry.name}: starting with {workers} worker{'s' if workers > 1 else ''}")
        try:
            sessions[entry.name] = Session(entry.command(work, workers))
        except Skipped as reason:
            skipped[entry.name] = str(reason)
            say(f"{entry.name}: SKIPPED: {reason}")
    return sessions


def measure(entries: list, work: Work, workers: int, arguments: argparse.Namespace, skipped: dict[str, str]) -> list:
    sessions = start_all(entries, work, workers, skipped)
    rounds: dict[str, list] = {name: [] for name in sessions}
    peaks: dict[str, float] = {}
    try:
        for number in range(arguments.rounds + 1):
            for name, session in list(sessions.items()):
                try:
                    if number == 0:
                        peaks[name] = session.peak_mb(arguments.batches)
                        say(f"memory, {workers}w: {name}: {peaks[name]:,.0f} MiB")
                        continue
                    rounds[name].append(session.round(arguments.batches))
                    rate = arguments.batches * work.batch / rounds[name][-1].seconds
                    say(f"round {number}/{arguments.rounds}, {workers}w: {name}: {rate:,.0f} images/s")
                except Skipped as reason:
                    skipped[name] = str(reason)
                    say(f"{name}: SKIPPED: {reason}")
                    sessions.pop(name).close()
        return [
            result(entry, workers, rounds[entry.name], peaks[entry.name], sessions[entry.name], arguments)
            for entry in entries
            if entry.name in sessions
        ]
    finally:
        for session in sessions.values():
            session.close()


def result(entry, workers: int, rounds: list, peak: float, session: Session, arguments: argparse.Namespace) -> dict:
    images = arguments.batches * arguments.batch
    rates = [images / one.seconds for one in rounds]
    middle = statistics.median(rates)
    return {
        "name": entry.name,
        "setting": entry.setting,
        "workers": workers,
        "images_per_second": middle,
        "rounds": rates,
        "spread": (max(rates) - min(rates)) / middle,
        "cpu_seconds_per_1000": statistics.median(1000 * one.cpu_seconds / images for one in rounds),
        "peak_mb": peak,
        "first_batch_ms": 1000 * session.first_seconds,
        "bytes_on_disk": session.bytes_on_disk,
    }


def choose(names: list[str]) -> list:
    if not names:
        return ENTRIES
    unknown = [name for name in names if name not in [entry.name for entry in ENTRIES if isinstance(entry, Peer)]]
    if unknown:
        known = ", ".join(f'"{entry.name}"' for entry in ENTRIES if isinstance(entry, Peer))
        raise SystemExit(f'[--peer] expected one of {known}, got "{unknown[0]}"')
    return [entry for entry in ENTRIES if entry.name in names or not isinstance(entry, Peer)]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoker", type=Path, default=Path("build/release/bin/stoker"), help="the program")
    parser.add_argument("--data", type=Path, required=True, help="a folder of JPEGs, one subfolder a class")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--batches", type=int, default=100, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, action="append", help="repeatable; default: 1 and 2")
    parser.add_argument("--peer", action="append", default=[], help="repeatable: only these, and Stoker")
    parser.add_argument("--work", type=Path, help="for copies and packed files, kept; default: a temporary folder")
    parser.add_argument("--plot", type=Path, help="write a picture (SVG)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the tables")
    return parser.parse_args()


def compare(arguments: argparse.Namespace, folder: Path) -> dict:
    photos, copies = enough_photos(arguments.data.resolve(), folder)
    work = Work(arguments.stoker.resolve(), photos, folder, arguments.size, arguments.batch)
    entries, skipped, results = choose(arguments.peer), {}, []
    for workers in arguments.workers or [1, 2]:
        results += measure(entries, work, workers, arguments, skipped)
    return {
        "data": str(arguments.data),
        "copies": copies,
        "size": arguments.size,
        "batch": arguments.batch,
        "batches": arguments.batches,
        "cores": len(os.sched_getaffinity(0)),
        "results": results,
        "skipped": [{"name": name, "reason": reason} for name, reason in skipped.items()],
    }


def main() -> None:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that all is ended and removed
    if arguments.work is not None:
        arguments.work.mkdir(parents=True, exist_ok=True)
        document = compare(arguments, arguments.work.resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="stoker-pipelines-") as folder:
            document = compare(arguments, Path(folder))
    if arguments.plot is not None and document["results"]:
        arguments.plot.write_text(plot(document["results"]))
    if arguments.json:
        print(json.dumps(document, indent=2))
        return
    print(table(document["results"]) + skipped_list(document["skipped"]), end="")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
