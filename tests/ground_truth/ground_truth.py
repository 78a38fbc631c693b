# Plants bottlenecks in real runs and counts how often `stoker diagnose` names them: `./dev ground-truth [--seeds N]
# [--only NAME]`. Ends with 1 if fewer than 95 % of the verdicts are right or a healthy run gets a finding above info.
import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent)]

from gpu_scenarios import GPU_SCENARIOS
from other_load import BUSY_MACHINE, OtherLoad
from scenarios import SCENARIOS, Data, compile_shim

PROGRAM = Path(os.environ.get("STOKER_BIN", "build/release/bin/stoker")).absolute()
ATTEMPTS = 3
TIMEOUT = 300


def run(*words, cwd, environment=None):
    return subprocess.run(
        [PROGRAM, *words], cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, **(environment or {})}
    )


def recipe_of(plan, seed, device="cpu"):
    val = f'val = "{plan.val}"\nval_ops = [{plan.ops}]\n' if plan.val else f"val_ops = [{plan.ops}]\n"
    data = f'[data]\ntrain = "{plan.train}"\n{val}{plan.data}\ntrain_ops = [{plan.ops}]\n'
    return f'seed = {seed}\ndevice = "{device}"\n{data}{plan.rest}'


def tight_memory(folder, out):
    """Bytes that are a little above what the run takes, mapped files left out."""
    free = run("train", "r.toml", "--out", f"{out}-free", "--json", cwd=folder)
    assert free.returncode == 0, free.stderr
    lines = (folder / f"{out}-free/metrics.jsonl").read_text().splitlines()
    return int(max(json.loads(line).get("rss_bytes", 0) for line in lines) * 1.03)


def train(plan, folder, out, shim):
    environment = dict(plan.environment)
    if environment:
        environment["LD_PRELOAD"] = str(shim)
    words = ["train", "r.toml", "--out", out, "--json"]
    if plan.memory == "tight":
        words += ["--set", f"data.memory={tight_memory(folder, out)}"]
    with plan.beside() if plan.beside else contextlib.nullcontext():
        if plan.rank_environment:
            return launch_two(words, plan.rank_environment, folder, shim)
        return run(*words, cwd=folder, environment=environment)


def launch_two(words, slow, folder, shim):
    """Two ranks on this host; the second gets the environment `slow`."""
    script = (
        'if [ "$RANK" = 1 ]; then export LD_PRELOAD="$SLOW_SHIM"; else unset SLOW_UNDER; fi; exec "$0" "$@"'
    )
    launch = ["launch", "--nproc-per-node", "2", "--", "bash", "-c", script, str(PROGRAM), *words]
    return run(*launch, cwd=folder, environment={**slow, "SLOW_SHIM": str(shim)})


@contextlib.contextmanager
def case_folder(keep, name):
    if keep is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        folder = keep.resolve() / name
        folder.mkdir(parents=True)
        yield folder


def judge(scenario, seed, data, shim, keep=None, device="cpu"):
    """(verdict, document) of one case; verdict None if other processes took the cores in every attempt."""
    document = {}
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([seed, zlib.crc32(scenario.name.encode())])
        plan = scenario.plan(rng, data)
        with case_folder(keep, f"{scenario.name.replace(': ', '-')}-{seed}-{attempt}") as folder:
            (folder / "r.toml").write_text(recipe_of(plan, seed, device))
            with OtherLoad() as load:
                trained = train(plan, folder, "run", shim)
            if trained.returncode != 0:
                return f"failed: {trained.stderr.strip().splitlines()[-1:]}", document
            told = run("diagnose", "run", "--json", cwd=folder)
            if told.returncode != 0:
                return f"failed: {told.stderr.strip()}", document
            document = json.loads(told.stdout)
        verdict = document["verdict"]["rule"]
        others = any(finding["rule"] in BUSY_MACHINE for finding in document["findings"])
        if not (others and load.high) or scenario.name == "other-processes":
            return verdict, document
    return None, document


def speed(done):
    """Samples a second over the whole run, evaluations and checkpoints included."""
    report = json.loads(done.stdout)
    samples = sum(epoch["images_per_second"] * epoch["seconds"] for epoch in report["epochs"])
    return samples / report["account"]["seconds"]


def fixed(plan, fix, folder):
    """The words of `stoker train` that apply a fix; None unless it is a recipe change or a packing."""
    if fix["recipe"]:
        values = ((key, "true" if value is True else value) for key, value in fix["recipe"].items())
        return [word for key, value in values for word in ("--set", f"{key}={value}")]
    words = shlex.split(fix["code"] or "", comments=True)
    if words[:2] == ["stoker", "pack"]:
        codec = words[words.index("--codec"):] if "--codec" in words else []
        packed = run("pack", str(plan.train), "packed.stk", *codec, cwd=folder)
        return ["--set", "data.train=packed.stk"] if packed.returncode == 0 else None
    return None


def gain_of(scenario, seed, data, shim, device):
    """(predicted, measured) gain of the first finding, measured in turns with the unchanged run; None without a fix."""
    verdict, document = judge(scenario, seed, data, shim, device=device)
    if verdict is None or not above_info(document):
        return None
    finding = document["findings"][0]
    rng = np.random.default_rng([seed, zlib.crc32(scenario.name.encode())])
    plan = scenario.plan(rng, data)
    if plan.rank_environment or plan.beside or plan.memory:
        return None
    with case_folder(None, "") as folder:
        (folder / "r.toml").write_text(recipe_of(plan, seed, device))
        change = fixed(plan, finding["fix"], folder)
        if change is None:
            return None
        environment = {**plan.environment, "LD_PRELOAD": str(shim)} if plan.environment else {}
        ratios = []
        for turn in range(3):
            before = run("train", "r.toml", "--out", f"a{turn}", "--json", cwd=folder, environment=environment)
            after = run("train", "r.toml", *change, "--out", f"b{turn}", "--json", cwd=folder, environment=environment)
            if before.returncode or after.returncode:
                return f"failed: {before.stderr}{after.stderr}"
            ratios.append(speed(after) / speed(before))
    return finding["gain"], float(np.median(ratios))


def compare_gains(options, data, shim):
    """Predicted against measured gains; 1 if fewer than 80 % of the predictions are within 15 %."""
    near = compared = 0
    for scenario in scenarios_of(options.device):
        if scenario.healthy or options.only not in (None, scenario.name):
            continue
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            found = gain_of(scenario, seed, data, shim, options.device)
            if found is None or isinstance(found, str):
                print(f"{scenario.name:22} seed {seed}: {found or 'no change to measure'}", flush=True)
                compared += isinstance(found, str)  # a run that failed counts as a wrong prediction
                continue
            gain, measured = found
            error = gain["expected"] / measured - 1
            compared += 1
            near += abs(error) <= 0.15
            interval = f"[{gain['low']:.2f}, {gain['high']:.2f}]"
            print(f"{scenario.name:22} seed {seed}: predicted {gain['expected']:.2f} {interval}, measured {measured:.2f}, "
                  f"error {100 * error:+.0f} %", flush=True)  # fmt: skip
    print(f"\nwithin 15 %: {near} of {compared}")
    return 0 if compared > 0 and near >= 0.8 * compared else 1


def above_info(document):
    return [f["rule"] for f in document.get("findings", []) if f["severity"] != "info"]


def scenarios_of(device):
    return SCENARIOS if device == "cpu" else GPU_SCENARIOS


def read_arguments(words):
    parser = argparse.ArgumentParser(prog="./dev ground-truth", description="plants bottlenecks and judges the diagnosis")
    parser.add_argument("--seeds", type=int, default=5, help="cases of each scenario (5)")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--only", help="one scenario")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--gains", action="store_true", help="applies each fix, and compares predicted with measured gain")
    parser.add_argument("--keep", type=Path, help="keeps the runs in this folder")
    parser.add_argument("--markdown", type=Path, help="writes the table into this file")
    options = parser.parse_args(words)
    names = [scenario.name for scenario in scenarios_of(options.device)]
    if options.only and options.only not in names:
        parser.error(f"--only: expected one of {', '.join(names)}, got {options.only}")
    return options


def main(words):
    options = read_arguments(words)
    rows, right, judged, false_alarms, healthy = [], 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        data, shim = Data(Path(folder)), compile_shim(Path(folder))
        if options.gains:
            return compare_gains(options, data, shim)
        for scenario in scenarios_of(options.device):
            if options.only not in (None, scenario.name):
                continue
            verdicts = []
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                begin = time.monotonic()
                verdict, document = judge(scenario, seed, data, shim, options.keep, options.device)
                good = "findings" in document and verdict is not None and scenario.accepts(document)
                verdicts.append((verdict, good))
                print(f"{scenario.name:22} seed {seed}: {verdict}  {above_info(document)}  {time.monotonic() - begin:.0f} s", flush=True)
                if verdict is None:
                    continue
                if scenario.healthy:
                    healthy += 1
                    false_alarms += bool(above_info(document))
                else:
                    judged += 1
                    right += good
            rows.append((scenario.name, sum(v is not None for v, _ in verdicts), sum(good for _, good in verdicts)))
    table = "| run | judged | right |\n|---|---|---|\n" + "".join(f"| {n} | {j} | {r} |\n" for n, j, r in rows)
    print(f"\n{table}\nright: {right} of {judged}; false alarms: {false_alarms} of {healthy} healthy runs")
    if options.markdown:
        options.markdown.write_text(table)
    enough = sum(judged for _, judged, _ in rows) >= 0.8 * options.seeds * len(rows)
    if not enough:
        print("too few cases were judged: other processes take the cores")
    return 0 if enough and right >= 0.95 * judged and false_alarms == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
