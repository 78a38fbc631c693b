# Compares `stoker tune` with an exhaustive search: every point of a grid of workers, threads, prefetch and cache is
# trained for a few seconds, five times in turn with all others, by the same trials. Prints one JSON document with the
# best point, the point that tune found (both measured again in turn), the errors of the predictions, and the times.
#
#   .venv/bin/python bench/tune_grid.py decode --points 36 --seconds 1.5
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("STOKER_BIN", ROOT / "build/release/bin/stoker")).resolve()
OPS = '{{op = "{0}", size = {1}}}, {{op = "horizontal_flip"}}, {{op = "normalize", preset = "imagenet"}}'

# Bound by decoding, by the step, and by both about equally.
WORKLOADS = {
    "decode": ("mlp", "", OPS.format("random_resized_crop", 64), 32),
    "step": ("resnet18", 'stem = "cifar"', OPS.format("random_resized_crop", 32), 32),
    "both": ("mlp", "hidden = [512]", OPS.format("random_resized_crop", 64), 32),
}


def write_recipe(folder, name):
    model, more, ops, batch = WORKLOADS[name]
    path = folder / f"{name}.toml"
    path.write_text(
        f'device = "cpu"\n[data]\ntrain = "{folder}/photos"\nbatch_size = {batch}\nworkers = 0\nprefetch = 1\n'
        f'train_ops = [{ops}]\n[model]\nname = "{model}"\n{more}\n[train]\nthreads = 1\n'
    )
    return path


def grid(points):
    """Points of workers x threads x prefetch x cache, at most so many, with the largest numbers of workers left out."""
    cores = len(os.sched_getaffinity(0))
    workers = [0, 1, *range(2, 2 * cores + 1, max(1, cores // 2))]
    threads = sorted({1, max(1, cores // 2), cores})
    rest = list(itertools.product(threads, [1, 3], ["none", "ram"]))
    workers = workers[: max(1, points // len(rest))]
    return [
        {"data.workers": w, "train.threads": t, "data.prefetch": p, "data.cache": c}
        for w in workers
        for t, p, c in rest
    ]


class Trial:
    def __init__(self, recipe, sets, samples):
        words = [f"--set={key}={value}" for key, value in sets.items()]
        env = {"GOMP_SPINCOUNT": "1000", **os.environ}
        self.process = subprocess.Popen(
            [BIN.parent / "stoker-engine", "trial", recipe, *words, "--samples", str(samples)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        facts = json.loads(self.process.stdout.readline())
        if "error" in facts:
            sys.exit(facts["error"])

    def rate(self, seconds):
        self.process.stdin.write(f"measure {seconds} 0\n")
        self.process.stdin.flush()
        measured = json.loads(self.process.stdout.readline())
        return measured["images"] / measured["seconds"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure_points(recipe, points, rounds, seconds, samples):
    """The median rate of each point. Each round measures all points, in separate processes."""
    rates = [[] for _ in points]
    for _ in range(rounds):
        for point, found in zip(points, rates):
            trial = Trial(recipe, point, samples)
            found.append(trial.rate(seconds))
            trial.close()
    return [statistics.median(found) for found in rates]


def paired_ratio(recipe, a, b, rounds, seconds, samples):
    """The median of b's rate over a's, measured in turn."""
    one, two = Trial(recipe, a, samples), Trial(recipe, b, samples)
    ratios = []
    for _ in range(rounds):
        before = one.rate(seconds)
        ratios.append(two.rate(seconds) / before)
    one.close()
    two.close()
    return statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--points", type=int, default=36)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--count", type=int, default=600, help="photos")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([BIN, "synth", "photos", folder / "photos", "--count", str(options.count)], check=True)
        recipe = write_recipe(folder, options.workload)
        start = time.time()
        tuned = json.loads(
            subprocess.run(
                [BIN, "tune", recipe, "-o", folder / "tuned.toml", "--json"],
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            ).stdout
        )
        tune_seconds = time.time() - start
        kept = {key: value for change in tuned["kept"] for key, value in change["change"].items()}
        points = grid(options.points)
        start = time.time()
        rates = measure_points(recipe, points, options.rounds, options.seconds, options.count)
        grid_seconds = time.time() - start
        best = points[max(range(len(points)), key=rates.__getitem__)]
        ratio = paired_ratio(recipe, best, kept, 9, options.seconds, options.count)
    tried = [change for change in tuned["kept"] + tuned["rolled_back"] if change["measured"]]
    print(
        json.dumps(
            {
                "workload": options.workload,
                "points": len(points),
                "baseline": tuned["baseline"],
                "tuned": tuned["tuned"],
                "kept": kept,
                "best": best,
                "best_rate": max(rates),
                "tuned_over_best": ratio,
                "tune_seconds": tune_seconds,
                "grid_seconds": grid_seconds,
                "share_of_time": tune_seconds / grid_seconds,
                "predicted_over_measured": [change["predicted"] / change["measured"] for change in tried],
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
