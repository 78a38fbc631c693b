# `stoker diagnose` on traces that torch.profiler writes here: planted bottlenecks are named, healthy loops are left in
# peace, damaged files give one line. The GPU's part is tested on made traces (tests/diagnose) and against HTA
# (bench/hta_parity.py).
import gzip
import json
import os
import subprocess
import sys
import time

import pytest
import torch
from conftest import ROOT
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

BATCH = 64


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def traced(tmp_path, stoker):
    """Profiles six steps of `step` and returns the diagnosis."""

    def run(step, name="trace.json", **options):
        path = tmp_path / name
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=1, warmup=2, active=6),
            on_trace_ready=lambda prof: prof.export_chrome_trace(str(path)),
            **{"record_shapes": True, **options},
        ) as prof:
            for _ in range(9):
                step()
                prof.step()
        return stoker("diagnose", path, "--json").json()

    return run


def convnet(bias):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=bias), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    )


def trainer(model, optimizer, x, y, set_to_none=True):
    def step(x=x, y=y):
        optimizer.zero_grad(set_to_none=set_to_none)
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def images(size=32):
    return torch.randn(BATCH, 3, size, size), torch.randint(0, 10, (BATCH,))


def rules(report, above_info=False):
    return {f["rule"]: f for f in report["findings"] if not above_info or f["severity"] != "info"}


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.zeros(3, 32, 32), index % 10


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, fused=True)


def test_a_healthy_loop_is_left_in_peace(traced):
    model = convnet(bias=False)
    report = traced(trainer(model, sgd(model), *images()))
    assert report["kind"] == "trace"
    assert report["verdict"]["rule"] == "healthy"
    assert rules(report, above_info=True) == {}
    assert report["ranks"][0]["steps"] == 6
    account = report["ranks"][0]["account"]
    assert sum(account.values()) == pytest.approx(1)
    assert account["backward"] > 0.2 and account["forward"] > 0.1 and account["unmeasured"] < 0.2
    assert report["ranks"][0]["gpu"] is None


def test_a_loader_without_workers(traced):
    model = convnet(bias=False)
    train = trainer(model, sgd(model), None, None)
    batches = iter(torch.utils.data.DataLoader(Slow(), batch_size=BATCH))
    report = traced(lambda: train(*next(batches)))
    found = rules(report)["input-bound"]
    assert report["verdict"]["rule"] == "input-bound" and found["severity"] == "critical"
    assert found["evidence"]["workers"] == 0
    assert found["evidence"]["wait_share"] == pytest.approx(report["ranks"][0]["account"]["wait"], abs=0.05)
    # 64 sleeps of a millisecond in each step.
    assert report["ranks"][0]["account"]["wait"] > 0.3
    assert found["gain"]["low"] <= found["gain"]["expected"] <= found["gain"]["high"]
    assert "num_workers" in found["fix"]["code"]


def test_a_loader_whose_worker_is_too_slow(traced):
    model = convnet(bias=False)
    train = trainer(model, sgd(model), None, None)
    batches = iter(torch.utils.data.DataLoader(Slow(), batch_size=BATCH, num_workers=1))
    found = rules(traced(lambda: train(*next(batches))))["input-bound"]
    assert "workers" not in found["evidence"]


def test_a_single_tensor_optimizer(traced):
    model = nn.Sequential(*[nn.Linear(128, 128) for _ in range(40)], nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    found = rules(traced(trainer(model, optimizer, torch.randn(4, 128), torch.zeros(4, dtype=torch.long))))
    assert found["single-tensor-optimizer"]["severity"] == "warn"
    assert found["single-tensor-optimizer"]["evidence"]["operators_per_step"] > 300
    assert "Adam(" in found["single-tensor-optimizer"]["fix"]["code"]
    fused = torch.optim.Adam(model.parameters(), fused=True)
    found = rules(traced(trainer(model, fused, torch.randn(4, 128), torch.zeros(4, dtype=torch.long))))
    assert "single-tensor-optimizer" not in found


def test_gradients_that_are_zeroed(traced):
    model = nn.Sequential(nn.Linear(1500, 1500), nn.Linear(1500, 10))
    x, y = torch.randn(8, 1500), torch.zeros(8, dtype=torch.long)
    report = traced(trainer(model, sgd(model), x, y, set_to_none=False))
    assert rules(report)["zeroed-grads"]["fix"]["code"] == "optimizer.zero_grad(set_to_none=True)"
    assert "zeroed-grads" not in rules(traced(trainer(model, sgd(model), x, y)))


def test_a_loop_over_a_tensor(traced):
    model = convnet(bias=False)
    x, y = images(16)
    train = trainer(model, sgd(model), x, y)

    def step():
        for _ in range(20):
            torch.stack([x[i] * 2 for i in range(len(x))])
        train()

    found = rules(traced(step, with_stack=True))["indexing-loop"]
    assert found["severity"] == "warn"
    assert found["evidence"]["iterations_per_step"] == 20 * BATCH
    assert "test_diagnose.py" in found["text"]


def test_a_convolution_with_a_bias_before_batch_norm(traced):
    model = convnet(bias=True)
    found = rules(traced(trainer(model, sgd(model), *images())))["conv-bias-before-norm"]
    assert found["evidence"]["convolutions_per_step"] == 1
    assert "bias=False" in found["fix"]["code"]


def test_gzip_and_plain_are_the_same(traced, tmp_path, stoker):
    model = convnet(bias=False)
    plain = traced(trainer(model, sgd(model), *images()))
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress((tmp_path / "trace.json").read_bytes()))
    assert stoker("diagnose", "trace.json.gz", "--json").json() == plain


def as_rank(path, rank, world_size):
    """Writes into a trace what torch.distributed adds to it."""
    trace = json.loads(path.read_text())
    path.write_text(json.dumps({"distributedInfo": {"backend": "gloo", "rank": rank, "world_size": world_size}, **trace}))


def test_several_traces_are_ranks(traced, tmp_path, stoker):
    fast = convnet(bias=False)
    traced(trainer(fast, sgd(fast), *images()), name="a.json")
    slow = trainer(fast, sgd(fast), *images())

    def step():
        slow()
        torch.nn.functional.conv2d(torch.zeros(64, 8, 64, 64), torch.zeros(32, 8, 5, 5))

    traced(step, name="b.json")
    unrelated = stoker("diagnose", "a.json", "b.json", "--json").json()
    assert "straggler" not in rules(unrelated)
    assert len(unrelated["problems"]) == 1 and "judged by itself" in unrelated["problems"][0]
    as_rank(tmp_path / "a.json", 0, 2)
    as_rank(tmp_path / "b.json", 1, 2)
    report = stoker("diagnose", "a.json", "b.json", "--json").json()
    assert report["problems"] == []
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
    assert rules(report)["straggler"]["evidence"]["rank"] == 1
    (tmp_path / "traces").mkdir()
    for name in ("a.json", "b.json"):
        (tmp_path / name).rename(tmp_path / "traces" / name)
    assert stoker("diagnose", "traces", "--json").json() == report


def test_text_begins_with_the_verdict(traced, stoker):
    model = convnet(bias=False)
    train = trainer(model, sgd(model), None, None)
    batches = iter(torch.utils.data.DataLoader(Slow(), batch_size=BATCH))
    verdict = traced(lambda: train(*next(batches)))["verdict"]["text"]
    text = stoker("diagnose", "trace.json").out
    assert text.startswith(verdict + "\n")
    assert "  wait " in text and "█" in text and "   fix       import os" in text and "DataLoader(..., num_workers=cores" in text and "   gain      " in text


def test_a_damaged_trace_gives_what_can_be_read(traced, tmp_path, stoker):
    model = convnet(bias=False)
    traced(trainer(model, sgd(model), *images()))
    whole = (tmp_path / "trace.json").read_bytes()
    (tmp_path / "cut.json").write_bytes(whole[: len(whole) // 2])
    done = stoker("diagnose", "cut.json", "--json")
    report = done.json()
    assert report["ranks"][0]["steps"] >= 1
    assert len(report["problems"]) == 1 and f"ends at byte {len(whole) // 2}" in report["problems"][0]
    assert len(stoker("diagnose", "cut.json").err.splitlines()) == 1
    middle = len(whole) // 2
    (tmp_path / "hole.json").write_bytes(whole[:middle] + bytes(1000) + whole[middle + 1000 :])
    problems = stoker("diagnose", "hole.json", "--json").json()["problems"]
    assert len(problems) == 1 and "damaged event" in problems[0]


@pytest.mark.parametrize("content", [b"", b"hello", b'{"nodes": []}', bytes(100)])
def test_what_is_no_trace_is_one_line(tmp_path, stoker, content):
    (tmp_path / "x.json").write_bytes(content)
    done = stoker("diagnose", "x.json", status=1)
    assert done.out == "" and len(done.err.splitlines()) == 1 and "x.json" in done.err and "traceEvents" in done.err


def write_run(folder, ranks, steps=200):
    """A run folder: its ranks wait for half of the time, and rank 0 writes for all."""
    folder.mkdir(parents=True)
    us = {"wait": 5000, "forward": 5000}
    lines = [{"type": "step", "step": step, "epoch": 1, "us": us} for step in range(1, steps + 1)]
    for rank in range(ranks):
        lines.append({"type": "facts", "rank": rank, "world_size": ranks, "data": {"workers": 0}})
        sums = {phase: time * steps for phase, time in us.items()}
        lines.append({"type": "interval", "rank": rank, "first_step": 1, "last_step": steps, "seconds": 2, "us": sums})
    text = "".join(json.dumps({"schema": 1, **line}) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)
    (folder / "recipe.toml").write_text("")


def test_a_folder_of_runs_names_the_newest(tmp_path, stoker):
    for name, written in {"a": 100, "b": 300, "c": 200}.items():
        write_run(tmp_path / "runs" / name, ranks=1)
        os.utime(tmp_path / "runs" / name / "metrics.jsonl", (written, written))
    done = stoker("diagnose", "runs", status=1)
    assert done.err.endswith("got a folder of 3 runs; the newest is runs/b\n") and len(done.err.splitlines()) == 1
    (tmp_path / "empty").mkdir()
    assert stoker("diagnose", "empty", status=1).err.endswith("got a folder with neither\n")


def test_images_that_the_gpu_decoded_are_counted(tmp_path, stoker):
    write_run(tmp_path / "run", ranks=1)
    assert "the GPU decoded" not in stoker("diagnose", "run").out
    workers = {"samples": 400, "on_device": 150, "read": 10, "pixels": 90}
    interval = {"type": "interval", "schema": 1, "rank": 0, "first_step": 1, "last_step": 200, "workers_us": workers}
    with (tmp_path / "run/metrics.jsonl").open("a") as file:
        file.write(json.dumps(interval) + "\n")
    assert ", for 400 samples, of which the GPU decoded 37.5 %\n" in stoker("diagnose", "run").out


def test_looks_at_the_gpu_are_counted(tmp_path, stoker):
    write_run(tmp_path / "run", ranks=1)
    assert "looked at" not in stoker("diagnose", "run").out
    with (tmp_path / "run/metrics.jsonl").open("a") as file:
        for last, key, us in ((50, "gpu_busy_us", 900), (100, "gpu_done_us", 120), (150, "gpu_done_us", 260)):
            interval = {"type": "interval", "schema": 1, "rank": 0, "first_step": last - 49, "last_step": last, key: us}
            file.write(json.dumps(interval) + "\n")
    text = stoker("diagnose", "run").out
    assert "\nGPU: of 3 steps that were looked at, it had no work left after 2, within 260 µs\n" in text


def test_equal_findings_of_many_ranks_are_one(tmp_path, stoker):
    write_run(tmp_path / "runs/photos", ranks=8)
    report = stoker("diagnose", "runs/photos", "--json").json()
    assert [finding["rule"] for finding in report["findings"]] == ["no-workers"]
    assert report["findings"][0]["ranks"] == list(range(8)) and len(report["ranks"]) == 8
    text = stoker("diagnose", "runs/photos").out
    assert "ranks 0 to 7" in text and text.count("where the training thread") == 1 and "7 other ranks" in text


@pytest.mark.parametrize("path", ["runs/photos", "runs/photos/", "runs/photos/."])
def test_the_page_is_named_after_the_run(tmp_path, stoker, path):
    write_run(tmp_path / "runs/photos", ranks=1)
    stoker("diagnose", path, "--html", "page.html")
    assert '"title":"photos"' in (tmp_path / "page.html").read_text()


def test_the_page_takes_the_place_of_no_trace(tmp_path, stoker):
    write_run(tmp_path / "run", ranks=1)
    (tmp_path / "trace.json").write_text("mine")
    error = stoker("diagnose", "run", "--html", "trace.json", status=1).err
    assert error == "stoker: [--html] expected a file name that ends in .html or .htm, got trace.json\n"
    assert (tmp_path / "trace.json").read_text() == "mine"
    error = stoker("diagnose", "missing.json", "--html", "no/page.html", status=1).err
    assert error == "stoker: [no/page.html] expected a file that can be written, but no does not exist\n"
    stoker("diagnose", "run", "--html", "page.htm")
    assert "<html" in (tmp_path / "page.htm").read_text()


def test_files_of_a_folder_are_in_the_order_of_their_numbers(tmp_path, stoker):
    (tmp_path / "traces").mkdir()
    for i in range(11):
        steps = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 1, "tid": 1, "ts": n * 100, "dur": 100}
                 for n in range(1, i + 2)]  # fmt: skip
        (tmp_path / f"traces/rank{i}.json").write_text(json.dumps({"traceEvents": steps}))
    report = stoker("diagnose", "traces", "--json").json()
    assert [rank["steps"] for rank in report["ranks"]] == list(range(1, 12))


def test_wrong_usage(tmp_path, stoker):
    (tmp_path / "empty").mkdir()
    assert "metrics.jsonl" in stoker("diagnose", "empty", status=1).err
    assert "missing.json" in stoker("diagnose", "missing.json", status=1).err
    stoker("diagnose", status=2)


def test_the_table_in_the_docs_is_the_programs(stoker):
    table = stoker("diagnose", "--rules").out
    assert table.startswith("| rule |")
    assert table in (ROOT / "docs/diagnosis.md").read_text(), "paste the output of `stoker diagnose --rules`"


@pytest.mark.slow
def test_a_large_trace_takes_little_memory(traced, tmp_path, program):
    model = convnet(bias=False)
    traced(trainer(model, sgd(model), *images()))
    big = tmp_path / "big.json"
    subprocess.run([sys.executable, ROOT / "bench/repeat_trace.py", tmp_path / "trace.json", big, "--bytes", "1e8"], check=True)
    # A fresh process measures, because a child inherits the peak of the process that it was forked from.
    measure = (
        "import resource, subprocess, sys; out = open('report.json', 'w'); subprocess.run(sys.argv[1:], stdout=out, "
        "check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [sys.executable, "-c", measure, program, "diagnose", big, "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["ranks"][0]["steps"] > 600 and report["problems"] == []
    assert int(done.stdout) * 1024 < 1e8  # the file's size
