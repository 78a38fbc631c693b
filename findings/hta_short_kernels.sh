#!/usr/bin/env bash
# HTA (HolisticTraceAnalysis 0.5.0) rounds the begin of a kernel up and its end down to whole microseconds before it
# computes idle time. If a GPU is never idle, and its kernels take 1.9 us, half of the time counts as computation;
# kernels of 0.9 us end before they begin, and get_temporal_breakdown raises AssertionError. pandas 2.2.3, since HTA
# fails on many traces with pandas 3. Seen with Python 3.11.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check HolisticTraceAnalysis==0.5.0 pandas==2.2.3
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import json
import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis


def event(cat, name, ts, dur, tid, **arguments):
    pid = 0 if cat == "kernel" else 9
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": arguments}


def trace(us):
    """A step with 1,000 kernels of `us` microseconds, one after the other."""
    events = [event("user_annotation", "ProfilerStep#1", 1000, 10_000, 9)]
    for i in range(1000):
        events.append(event("cuda_runtime", "cudaLaunchKernel", 1000 + i * 0.1, 0.1, 9, correlation=i + 1))
        at = round(2000.05 + i * us, 3)
        events.append(event("kernel", "gemm", at, us, 7, stream=7, device=0, correlation=i + 1))
    return {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {"rank": 0}, "traceEvents": events}


shares = {}
for us in (0.9, 1.9, 100.0):
    path = f"{sys.argv[1]}/{us}.json"
    json.dump(trace(us), open(path, "w"))
    try:
        times = TraceAnalysis(trace_files={0: path}).get_temporal_breakdown(visualize=False).iloc[0]
        shares[us] = round(float(times["compute_time(us)"]) / (1000 * us), 2)
    except AssertionError:
        shares[us] = None
    print(f"kernels of {us} us back to back: share of computation {shares[us]}")  # None, 0.47, 0.99
sys.exit(0 if shares[0.9] is None and 0.4 < shares[1.9] < 0.6 and shares[100.0] > 0.98 else 1)
PYTHON
