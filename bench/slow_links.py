"""Trains over slow links: network namespaces, each a host with one rank, whose links have a rate (tc's token bucket)
and some a delay (a relay). Overlap: how much of the gradients' averaging the backward pass hides, by the trace of
`stoker profile`. Cost model: what `stoker plan` predicts for a step, as processes that measure at once, and how long a
step takes. Repeats go through all points in turn; figures are medians. Needs root, iproute2 and tc."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
from namespaces import Hosts, address, why_not  # noqa: E402

PORT = 29600
UNTIMED = 2  # steps at the beginning of a run
RECIPE = """
seed = 1
device = "cpu"
[data]
train = "synth:digits?count=20000"
batch_size = {batch}
workers = 1
train_ops = [{ops}]
val_ops = [{ops}]
[model]
{model}
[optimizer]
name = "sgd"
lr = 0.001
[train]
epochs = 1
threads = 1
precision = "fp32"
"""
NORMALIZE = '{op = "normalize", preset = "mnist"}'
MODELS = {
    "deep": "hidden = [" + "2560, " * 10 + "]",  # ten buckets of gradients
    "wide": "hidden = [1024, 1024, 1024]",
    "resnet18": 'name = "resnet18"\nstem = "cifar"',
    "vit_s_16": 'name = "vit_s_16"',
    "small": "hidden = [512]",
}


@dataclass
class Point:
    """A case of the cost model."""

    model: str
    ranks: int
    mbit: float
    batch: int  # samples of a rank
    latency_ms: float = 0
    predicted: list[float] = field(default_factory=list)  # seconds, of each repeat
    measured: list[float] = field(default_factory=list)
    communication: float = 0  # predicted seconds; the step waits for a part of them
    exposed: float = 0

    def medians(self) -> tuple[float, float]:
        return statistics.median(self.predicted), statistics.median(self.measured)

    def error(self) -> float:
        predicted, measured = self.medians()
        return predicted / measured - 1

    def document(self) -> dict[str, object]:
        predicted, measured = self.medians()
        return {**asdict(self), "predicted_seconds": predicted, "measured_seconds": measured, "error": self.error()}


@dataclass
class Overlap:
    """What the traces have of a step: seconds in which buckets are sent, and of them those in which a rank computes
    nothing."""

    buckets: int
    batch: int
    link: float  # seconds that the bytes take
    communication: float
    exposed: float

    @property
    def share(self) -> float:
        """The share of the shorter of the two: waits for another rank's gradients are not communication."""
        return self.exposed / min(self.link, self.communication)


POINTS = [
    Point("wide", 2, 50, 64),
    Point("wide", 4, 100, 64),
    Point("resnet18", 2, 100, 8),
    Point("resnet18", 3, 100, 8),
    Point("resnet18", 4, 100, 4),
    Point("resnet18", 2, 200, 16),  # a step that spends half its time on the link
    Point("vit_s_16", 2, 100, 32),
    Point("vit_s_16", 2, 200, 32),
    Point("vit_s_16", 3, 100, 16),
    Point("wide", 2, 50, 64, latency_ms=20),
    Point("resnet18", 3, 100, 8, latency_ms=5),
]
QUICK = [Point("small", 2, 20, 8), Point("small", 2, 50, 8, latency_ms=10)]


def run(hosts: Hosts, folder: Path, *words: object) -> str:
    """The command on each host, as one rank of all. What rank 0 prints."""
    ranks = []
    for rank in range(len(hosts.names)):
        env = {"RANK": rank, "WORLD_SIZE": len(hosts.names), "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
        env |= {"MASTER_ADDR": address(0), "MASTER_PORT": PORT, "STOKER_DIST_TIMEOUT": 600}
        program = os.environ.get("STOKER_BIN", ROOT / "build/release/bin/stoker")
        ranks.append(
            subprocess.Popen(
                hosts.inside(rank, Path(program).resolve(), *words),
                cwd=folder,
                env={**os.environ, **{key: str(value) for key, value in env.items()}},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    outputs = [rank.communicate() for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{' '.join(map(str, words))}: {' / '.join(err.strip() for _, err in outputs)}")
    return outputs[0][0]


def write_recipe(folder: Path, model: str, batch: int) -> None:
    ops = '{op = "resize", size = [32, 32]}, ' * (model == "vit_s_16") + NORMALIZE
    (folder / "r.toml").write_text(RECIPE.format(batch=batch, ops=ops, model=MODELS[model]))


def plan(hosts: Hosts, folder: Path, mbit: float, latency_ms: float = 0) -> dict:
    link = ["--ranks", len(hosts.names), "--link", f"{mbit:g}Mb"]
    link += ["--latency", latency_ms * 1e3] if latency_ms else []
    return json.loads(run(hosts, folder, "plan", "r.toml", "--json", *link))


def measure(point: Point, steps: int) -> None:
    """One repeat: the prediction, then a run."""
    with tempfile.TemporaryDirectory() as name, Hosts(point.ranks, point.latency_ms / 1e3) as hosts:
        folder = Path(name)
        hosts.set_rate(point.mbit * 1e6)
        write_recipe(folder, point.model, point.batch * point.ranks)
        row = plan(hosts, folder, point.mbit, point.latency_ms)["plans"][0]
        point.predicted.append(row["step_seconds"])
        point.communication, point.exposed = row["communication_seconds"], row["exposed_seconds"]
        samples = point.batch * point.ranks * (steps + UNTIMED)
        run(hosts, folder, "train", "r.toml", "--out", "run", "--set", f"data.epoch_samples={samples}")
        lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
        seconds = [sum(line["us"].values()) / 1e6 for line in lines if line["type"] == "step"]
        point.measured.append(statistics.median(seconds[UNTIMED:]))


def joined(spans: list[tuple[float, float]]) -> list[list[float]]:
    ranges: list[list[float]] = []
    for start, end in sorted(spans):
        if ranges and start <= ranges[-1][1]:
            ranges[-1][1] = max(ranges[-1][1], end)
        else:
            ranges.append([start, end])
    return ranges


def length(spans: list[tuple[float, float]], window: tuple[float, float]) -> float:
    """Seconds of the window that the spans cover."""
    begin, end = window
    return sum(max(min(last, end) - max(first, begin), 0) for first, last in joined(spans))


def steps_of(trace: Path) -> list[tuple[int, float, float]]:
    """Of each step of a rank: how many buckets are sent, for how many seconds, and in how many of them the training
    thread runs no operator."""
    events = [event for event in json.loads(gzip.open(trace).read())["traceEvents"] if event.get("ph") == "X"]
    sent, operators, windows = [], [], []
    thread = next(event["tid"] for event in events if event["name"] == "c10d::allreduce_")
    for event in events:
        span = event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6
        if event["name"] == "gloo:all_reduce" and event["args"]["Input Dims"] != [[1]]:  # not a vote
            sent.append(span)
        elif event["tid"] == thread and event.get("cat") == "cpu_op":
            operators.append(span)
        elif event["name"].startswith("ProfilerStep#"):
            windows.append(span)
    steps = []
    for window in sorted(windows):
        count = sum(window[0] <= begin < window[1] for begin, _ in sent)
        beside = length(sent + operators, window) - length(operators, window)
        steps.append((count, length(sent, window), beside))
    return steps


def read_overlap(traces: list[Path], batch: int, link: float) -> Overlap:
    """Means over the steps. A rank that computes faster also waits for the gradients of the others, so the rank that
    waits least says what communication costs."""
    steps = list(zip(*(steps_of(trace) for trace in traces)))
    least = [tuple(map(min, zip(*ranks))) for ranks in steps]
    buckets, communication, exposed = (statistics.mean(values) for values in zip(*least))
    return Overlap(round(buckets), batch, link, communication, exposed)


def overlap(model: str, mbit: float, steps: int, batch: int | None) -> Overlap:
    """`batch` of a rank; None: such that the backward pass takes a quarter longer than the communication."""
    base = batch or 256
    with tempfile.TemporaryDirectory() as name, Hosts(2) as hosts:
        folder = Path(name)
        hosts.set_rate(mbit * 1e6)
        write_recipe(folder, model, 2 * base)
        found = plan(hosts, folder, mbit)
        link = found["plans"][0]["communication_seconds"]
        if batch is None:
            wanted = 1.25 * link / found["one_process"]["backward_seconds"]
            base = max(round(base * wanted), 1)
            write_recipe(folder, model, 2 * base)
        words = ["profile", "r.toml", "--out", "profile", "--wait", 0, "--warmup", 1, "--steps", steps]
        run(hosts, folder, *words)
        traces = sorted((folder / "profile/trace").glob("*.pt.trace.json.gz"))
        return read_overlap(traces, base, link)


def overlap_line(title: str, found: Overlap) -> str:
    return (
        f"{title}: {found.buckets} buckets, {found.batch} samples a rank; {found.communication:.2f} s of communication "
        f"in a step, by the link's rate {found.link:.2f} s; exposed {found.exposed:.2f} s, {100 * found.share:.0f} %"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--steps", type=int, default=6, help="timed steps of each run")
    options.add_argument("--mbit", type=float, default=200, help="the link of the overlap")
    options.add_argument("--quick", action="store_true", help="a small case of each")
    options.add_argument("--only", choices=["overlap", "model"])
    options.add_argument("--json", action="store_true")
    arguments = options.parse_args()
    if missing := why_not(rates=True):
        sys.exit(missing)
    points = QUICK if arguments.quick else POINTS
    hidden: list[Overlap] = []
    control: list[Overlap] = []
    for repeat in range(1 if arguments.quick else arguments.repeats):
        if arguments.only != "model":
            model, mbit = ("small", 20) if arguments.quick else ("deep", arguments.mbit)
            hidden.append(overlap(model, mbit, 2, 64 if arguments.quick else None))
            print(overlap_line("overlap", hidden[-1]), file=sys.stderr, flush=True)
            if not arguments.quick:
                control.append(overlap(model, mbit, 1, 8))
                print(overlap_line("control, hardly a backward pass", control[-1]), file=sys.stderr, flush=True)
        for point in points if arguments.only != "overlap" else []:
            measure(point, arguments.steps)
            print(f"{repeat}: {point.document()}", file=sys.stderr, flush=True)
    report(arguments.json, hidden, control, points if arguments.only != "overlap" else [])


def report(as_json: bool, hidden: list[Overlap], control: list[Overlap], points: list[Point]) -> None:
    if as_json:
        shares = [[{**asdict(one), "share": one.share} for one in runs] for runs in (hidden, control)]
        print(json.dumps({"overlap": shares[0], "control": shares[1], "points": [p.document() for p in points]}))
        return
    for title, runs in (("overlap", hidden), ("control", control)):
        for found in runs:
            print(overlap_line(title, found))
    print("| model | ranks | Mbit/s | latency ms | samples a rank | predicted ms | measured ms | error |")
    print("|---|---|---|---|---|---|---|---|")
    for point in points:
        predicted, measured = point.medians()
        cells = [point.model, point.ranks, f"{point.mbit:g}", f"{point.latency_ms:g}", point.batch]
        cells += [f"{1e3 * predicted:.0f}", f"{1e3 * measured:.0f}", f"{100 * point.error():+.1f} %"]
        print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
