# `stoker profile`: the files it writes, read by the tools that they are for. Perfetto's trace processor,
# torch-tb-profiler and HolisticTraceAnalysis are checked by bench/profile_tools.py, which says how to install them.
import gzip
import json
import pstats
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import run_program

RECIPE = """
device = "cpu"
seed = 3
[data]
train = "synth:digits"
batch_size = 32
workers = 2
train_ops = [{op = "normalize", preset = "mnist"}]
[model]
name = "mlp"
[optimizer]
name = "adam"
[train]
epochs = 1
compile = "none"
threads = 1
"""
STEPS = 4
WAIT = 9


def profile(here, *options, status=0):
    (here / "r.toml").write_text(RECIPE)
    return run_program(
        "profile", "r.toml", "-o", "out", "--wait", WAIT, "--steps", STEPS, *options, cwd=here, status=status
    )


@pytest.fixture(scope="module")
def profiled(program, tmp_path_factory):
    here = tmp_path_factory.mktemp("profiled")
    report = profile(here)
    return here, report


@pytest.fixture(scope="module")
def trace(profiled):
    (path,) = (profiled[0] / "out/trace").iterdir()
    assert re.fullmatch(r"(.*?)(\.\d+)?\.pt\.trace\.json(?:\.gz)?", path.name), "the name that torch-tb-profiler expects"
    text = gzip.decompress(path.read_bytes()).decode()
    assert re.search(r'"rank":\s+(\d+)', text).group(1) == "0"
    return json.loads(text)


def slices(trace, **wanted):
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and all(e[key] == value for key, value in wanted.items())]


def test_says_first_what_matters_and_where_the_files_are(profiled):
    here, report = profiled
    lines = report.out.splitlines()
    assert lines[0].strip()
    assert "where the training thread spent" in report.out
    assert re.search(r"operators of 4 steps", report.out)
    assert "aten::addmm" in report.out
    for name in ["report.html", "metrics.jsonl", "operators.json", "memory.json", "speedscope.json", "stacks.txt", "profile.pstats"]:
        assert f"out/{name}: " in report.out
        assert (here / "out" / name).stat().st_size > 0
    assert sorted(p.name for p in here.iterdir()) == ["out", "r.toml"], "no run folder, no checkpoint"
    assert not (here / "out/checkpoints").exists()


def test_the_trace_has_steps_phases_and_workers(trace):
    steps = [e["name"] for e in slices(trace, cat="user_annotation") if e["name"].startswith("ProfilerStep#")]
    assert steps == [f"ProfilerStep#{n}" for n in range(WAIT + 3, WAIT + 3 + STEPS)], "after WAIT steps and 2 of warm-up"
    for phase in ["wait", "forward", "backward", "optimizer", "Optimizer.step#Adam.step"]:
        assert len(slices(trace, name=phase, cat="user_annotation")) == STEPS, phase
    assert len(slices(trace, name="enumerate(DataLoader)#Loader.__next__", cat="cpu_op")) == STEPS
    workers = {e["tid"] for e in slices(trace, cat="loader")}
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {names[tid] for tid in workers} <= {"worker 0", "worker 1"} and workers
    assert any(e["ph"] == "C" and e["name"] == "batches ready" for e in trace["traceEvents"])
    assert any(e["ph"] == "s" and e["cat"] == "fwdbwd" for e in trace["traceEvents"])


def test_no_slices_overlap_on_a_thread(trace):
    """Perfetto drops a slice that begins within another and ends after it."""
    threads = {}
    for e in slices(trace):
        threads.setdefault((e["pid"], e["tid"]), []).append((e["ts"], -e["dur"], e["name"]))
    for thread, found in threads.items():
        ends = []
        for start, negative, name in sorted(found):
            end = start - negative
            while ends and ends[-1] <= start + 1e-6:
                ends.pop()
            assert not ends or end <= ends[-1] + 1e-6, (thread, name)
            ends.append(end)


def test_flops_equal_a_count_by_hand(profiled):
    here, _ = profiled
    operators = json.loads((here / "out/operators.json").read_text())
    layers = [(784, 128), (128, 64), (64, 10)]
    forward = sum(2 * 32 * a * b for a, b in layers)
    rows = [row for row in operators["operators"] if row["name"] == "aten::addmm"]
    assert sum(row["flops"] for row in rows) == STEPS * forward
    assert sum(row["count"] for row in rows) == STEPS * len(layers)
    assert {json.dumps(json.loads(row["shapes"])[1:3]) for row in rows} == {
        json.dumps([[32, a], [a, b]]) for a, b in layers
    }
    gradients = [row for row in operators["operators"] if row["name"] == "aten::mm"]
    # The gradient of each weight, and of each layer's input but the first's.
    assert sum(row["flops"] for row in gradients) == STEPS * (2 * forward - 2 * 32 * 784 * 128)


def test_memory_rises_and_falls(profiled):
    (device,) = json.loads((profiled[0] / "out/memory.json").read_text())["devices"]
    levels = [allocated for _, allocated, _ in device["points"]]
    assert device["device"] == "cpu"
    assert device["peak_bytes"] == max(levels) > 32 * 128 * 4
    assert min(b - a for a, b in zip(levels, levels[1:])) < 0


def test_pstats_reads_the_call_stacks(profiled):
    stats = pstats.Stats(str(profiled[0] / "out/profile.pstats")).stats
    times = {name: (calls, own, total) for (_, _, name), (_, calls, own, total, _) in stats.items()}
    called = [entry[4] for entry in stats.values()]
    inside = sum(time[3] for callers in called for (_, _, caller), time in callers.items() if caller == "training thread")
    assert inside > 0
    assert times["training thread"][2] == pytest.approx(times["training thread"][1] + inside)
    assert times["aten::addmm"][0] == STEPS * 3
    assert times["forward"][2] >= times["aten::addmm"][2] > 0
    callers = {name: {caller for (_, _, caller) in entry[4]} for (_, _, name), entry in stats.items()}
    assert callers["aten::addmm"] == {"aten::linear"}
    assert callers["forward"] == {"training thread"}


def test_collapsed_stacks_and_speedscope_agree(profiled):
    out = profiled[0] / "out"
    collapsed = {}
    for line in (out / "stacks.txt").read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        collapsed[stack] = int(count)
    assert any(stack.startswith("training thread;forward;aten::linear;aten::addmm") for stack in collapsed)
    speedscope = json.loads((out / "speedscope.json").read_text())
    assert speedscope["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = speedscope["shared"]["frames"]
    for thread in speedscope["profiles"]:
        assert thread["type"] == "evented" and thread["unit"] == "microseconds"
        own, stack, now = {}, [thread["name"]], 0
        for event in thread["events"]:
            own[";".join(stack)] = own.get(";".join(stack), 0) + event["at"] - now
            now = event["at"]
            if event["type"] == "O":
                stack.append(frames[event["frame"]]["name"])
            else:
                assert frames[event["frame"]]["name"] == stack.pop()
        assert stack == [thread["name"]] and now <= thread["endValue"]
        for name, us in own.items():
            if name != thread["name"] and us > 5:
                assert collapsed.get(name, 0) == pytest.approx(us, abs=2), name


def test_json_is_the_document_of_diagnose(tmp_path, program):
    report = profile(tmp_path, "--json").json()
    assert report["kind"] == "run"
    again = run_program("diagnose", "out", "--json", cwd=tmp_path).json()
    assert again["verdict"] == report["verdict"] and again["findings"] == report["findings"]
    (rank,) = report["ranks"]
    assert rank["rank"] == 0 and rank["gpu"] is None
    assert sum(rank["account"].values()) == pytest.approx(1)
    assert report["verdict"]["rule"] and report["verdict"]["text"]
    assert rank["steps"] == WAIT - 4, "from step 5 on: neither the first ones nor those with the profiler"


def test_diagnose_reads_the_trace_and_the_folder(profiled):
    here, _ = profiled
    trace = run_program("diagnose", "out/trace", "--json", cwd=here).json()
    assert trace["kind"] == "trace" and trace["ranks"][0]["steps"] == STEPS
    account = trace["ranks"][0]["account"]
    assert all(account[phase] > 0 for phase in ["wait", "forward", "backward", "optimizer"]), account
    run = run_program("diagnose", "out", "--json", cwd=here).json()
    assert run["kind"] == "run" and run["ranks"][0]["steps"] == WAIT - 4, "those that the profiler did not slow"
    assert run["ranks"][0]["operators"], "of its trace"


def test_the_report_is_one_page_without_a_network(profiled):
    page = (profiled[0] / "out/report.html").read_text()
    assert "aten::addmm" in page and "training thread" in page
    assert not re.search(r'(src|href)="https?://', page)


def test_the_table_sorts_and_groups(tmp_path, program):
    by_shape = profile(tmp_path, "--sort", "flops", "--group-by", "shape", "--rows", 4).out
    assert "[[128], [32, 784], [784, 128]" in by_shape
    by_stack = profile(tmp_path, "--sort", "count", "--group-by", "stack", "--rows", 1000).out
    assert "forward;aten::linear" in by_stack
    assert "--sort" in profile(tmp_path, "--sort", "colour", status=2).err


def test_an_earlier_trace_is_replaced(tmp_path, program):
    profile(tmp_path)
    profile(tmp_path, "--repeat", 2)
    (path,) = (tmp_path / "out/trace").iterdir()
    trace = json.loads(gzip.decompress(path.read_bytes()))
    assert len([e for e in slices(trace) if e["name"].startswith("ProfilerStep#")]) == 2 * STEPS


def test_every_repetition_drops_its_first_steps(tmp_path, program):
    (rank,) = profile(tmp_path, "--repeat", 2, "--json").json()["ranks"]
    assert rank["steps"] == 2 * (WAIT - 4)


def test_ctrl_c_keeps_the_steps_that_were_recorded(tmp_path, program):
    (tmp_path / "r.toml").write_text(RECIPE)
    command = [program, "profile", "r.toml", "-o", "out", "--wait", "0", "--warmup", "0", "--steps", "100000"]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in run.stderr:  # "r.toml: 0 steps without the profiler, ..."
        if "with it" in line:
            break
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 128 + signal.SIGINT
    recorded = int(re.search(r"stopped by signal 2 after (\d+) recorded steps; the profile has these", err).group(1))
    (path,) = (tmp_path / "out/trace").iterdir()
    trace = json.loads(gzip.decompress(path.read_bytes()))
    assert len([e for e in slices(trace) if e["name"].startswith("ProfilerStep#")]) == recorded > 0
    assert (tmp_path / "out/report.html").stat().st_size > 0
    assert f"operators of {recorded} steps" in out


def test_ctrl_c_before_the_first_recorded_step_leaves_the_earlier_profile(tmp_path, program):
    profile(tmp_path)
    (path,) = (tmp_path / "out/trace").iterdir()
    command = [program, "profile", "r.toml", "-o", "out", "--wait", "1000000"]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in run.stderr:
        if "with it" in line:
            break
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=120)
    assert run.returncode == 128 + signal.SIGINT
    assert "before a step was recorded; nothing is written" in err
    assert list((tmp_path / "out/trace").iterdir()) == [path]


def test_a_failed_training_is_judged_by_its_steps(tmp_path, program, drawn):
    shutil.copytree(drawn, tmp_path / "photos")
    photos = sorted(path for path in (tmp_path / "photos").rglob("*") if path.is_file())
    photos[-1].write_bytes(b"broken")
    (tmp_path / "r.toml").write_text(RECIPE)
    ops = '[{op = "resize", size = 8}, {op = "center_crop", size = 8}]'
    keys = ["train=photos", "shuffle=false", "batch_size=2", "bad_samples=0", f"train_ops={ops}"]
    sets = [word for key in keys for word in ("--set", f"data.{key}")]
    command = ["profile", "r.toml", "-o", "out", "--wait", 0, "--warmup", 0, "--steps", 90, "--json", *sets]
    report = run_program(*command, cwd=tmp_path, status=1)
    steps = len(photos) // 2 - 1
    assert f"training failed after {steps} recorded steps" in report.err
    (rank,) = report.json()["ranks"]
    assert rank["steps"] == steps


def test_a_recording_ends_before_it_fills_the_memory(tmp_path, program):
    (tmp_path / "r.toml").write_text(RECIPE)
    report = run_program("profile", "r.toml", "-o", "out", "--steps", 100_000, "--set", 'data.memory="2GiB"', cwd=tmp_path)
    assert re.search(r"the recording ended after \d+ recorded steps: the events", report.err)
    assert (tmp_path / "out/report.html").stat().st_size > 0


def test_a_fused_step_says_how_to_see_its_operators(tmp_path, program):
    report = profile(tmp_path, "--set", "train.compile=auto")
    assert "aten::addmm" not in report.out
    assert "the step is fused and has no operators" in report.out and "--set train.compile=none" in report.out


def test_phases_are_nvtx_ranges_while_a_tool_listens(tmp_path, program):
    listener = program.parent / "libnvtx_listener.so"
    if not listener.exists():
        pytest.skip("a build without the CUDA toolkit lacks NVTX")
    (tmp_path / "r.toml").write_text(RECIPE)
    log = tmp_path / "ranges"
    env = {"NVTX_INJECTION64_PATH": str(listener), "STOKER_NVTX_LOG": str(log)}
    run_program("train", "r.toml", "--set", "data.train_ops=[]", "--out", "run", cwd=tmp_path, env=env)
    lines = log.read_text().splitlines()
    assert {"wait", "forward", "backward", "optimizer"} <= set(lines)
    assert lines.count("-") == len(lines) / 2, "each range is closed before the next one opens"
    assert all((line == "-") == (i % 2 == 1) for i, line in enumerate(lines))


def test_the_folder_of_a_run_is_left_alone(tmp_path, program):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/metrics.jsonl").write_text("of a run\n")
    refused = profile(tmp_path, status=1)
    assert "[out/metrics.jsonl] expected a new file, or one of an earlier profile" in refused.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["metrics.jsonl"]
    assert (tmp_path / "out/metrics.jsonl").read_text() == "of a run\n"
