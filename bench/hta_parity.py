# Compares `stoker diagnose --json` with HTA (HolisticTraceAnalysis) on each trace of a folder: compute, non-compute and
# idle time, and the causes of idle time on each stream. Exit status 1 if one differs by more than 1 %.
#
#   python -m venv hta && hta/bin/pip install HolisticTraceAnalysis==0.5.0 pandas==2.2.3    # it fails with pandas 3
#   hta/bin/python bench/hta_parity.py FOLDER --stoker build/release/bin/stoker
#
# HTA's own repository has real traces in tests/data.
import argparse
import json
import logging
import subprocess
import sys
import warnings
from collections import defaultdict
from pathlib import Path

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis  # noqa: E402

NAMES = {"compute_us": "compute_time(us)", "non_compute_us": "non_compute_time(us)", "idle_us": "idle_time(us)"}


def hta_numbers(path):
    """HTA's numbers of one trace by name, or None where HTA cannot read it."""
    try:
        analysis = TraceAnalysis(trace_files={0: str(path)})
        times = analysis.get_temporal_breakdown(visualize=False).iloc[0]
        idle, _ = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    except Exception as error:  # HTA raises what pandas raises
        return None, f"{type(error).__name__}: {error}"
    numbers = {name: float(times[column]) for name, column in NAMES.items()}
    for row in idle.itertuples():
        numbers[f"stream {row.stream} {row.idle_category}_us"] = float(row.idle_time)
    return numbers, None


def stoker_numbers(program, path):
    done = subprocess.run([program, "diagnose", path, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip()
    gpu = json.loads(done.stdout)["ranks"][0]["gpu"]
    if gpu is None:
        return None, "no GPU"
    gpu = gpu["hta"]
    numbers = {name: gpu[name] for name in NAMES}
    for idle in gpu["idle"]:
        for cause in ("host_wait", "kernel_wait", "other"):
            numbers[f"stream {idle['stream']} {cause}_us"] = idle[f"{cause}_us"]
    return numbers, None


def differences(ours, theirs):
    # Categories that HTA leaves out are 0. A microsecond is HTA's resolution.
    names = defaultdict(float, theirs)
    pairs = {name: (ours.get(name, 0), names[name]) for name in {*ours, *theirs}}
    return {name: (a, b) for name, (a, b) in pairs.items() if abs(a - b) > max(1, 0.01 * abs(b))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stoker", default="build/release/bin/stoker")
    options = parser.parse_args()
    compared = failed = 0
    for path in sorted(p.resolve() for p in options.folder.rglob("*") if p.name.endswith((".json", ".json.gz"))):
        theirs, failure = hta_numbers(path)
        ours, reason = stoker_numbers(options.stoker, path)
        if theirs is None and ours is None:
            print(f"skipped {path.name}: {reason}, and HTA: {failure}")
            continue
        compared += 1
        if theirs is None:
            wrong = {"all": ("numbers", f"HTA's error {failure}")}
        else:
            wrong = {"all": (reason, "numbers")} if ours is None else differences(ours, theirs)
        failed += bool(wrong)
        print(f"{'DIFFERS' if wrong else 'equal  '} {path.name}: {len(theirs or {})} numbers {wrong or ''}")
    print(f"{compared} traces compared, {failed} differ")
    return 1 if failed or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
