# Whether the GPU has done its work when a step ends, seen by made-up events.
import json
import time

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.watch import facts, gpu_backlog, session
from stoker.watch.gpu_backlog import GpuBacklog, backlog_of


class Gpu:
    """Is done after some queries."""

    def __init__(self):
        self.left, self.records, self.capturing = 0, [], False

    def Event(self):
        return self

    def is_current_stream_capturing(self):
        return self.capturing

    def current_stream(self, device):
        return f"stream of {device}"

    def record(self, stream):
        self.records.append(stream)

    def query(self):
        self.left -= 1
        return self.left < 0


@pytest.fixture
def gpu(monkeypatch):
    gpu = Gpu()
    for name in ("Event", "is_current_stream_capturing", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, getattr(gpu, name))
    return gpu


def test_the_first_look_that_finds_it_done_counts(gpu, monkeypatch):
    now = iter(range(0, 10**9, 2_000_000))
    monkeypatch.setattr(gpu_backlog, "perf_counter_ns", lambda: next(now))
    backlog = GpuBacklog(torch.device("cuda", 1))
    assert backlog.take() == {}, "nobody has looked"
    gpu.left = 1
    backlog.begin()
    assert gpu.records == ["stream of cuda:1"]
    for _ in range(3):
        backlog.look()
    assert backlog.take() == {"gpu_done_us": 4000}, "at the second look"
    assert backlog.take() == {}


def test_a_gpu_that_still_works(gpu):
    backlog = GpuBacklog(torch.device("cuda"))
    gpu.left = 9
    backlog.begin()
    backlog.look()
    backlog.look()
    assert list(backlog.take()) == ["gpu_busy_us"]
    gpu.left = 0
    backlog.look()
    assert backlog.take() == {}, "that was another step's"


def test_nothing_is_asked_while_a_graph_is_captured(gpu):
    backlog = GpuBacklog(torch.device("cuda"))
    gpu.capturing = True
    backlog.begin()
    backlog.look()
    assert backlog.take() == {} and not gpu.records


@pytest.mark.parametrize("name", ["is_current_stream_capturing", "record", "query"])
def test_an_error_of_cuda_is_the_programs(gpu, name, monkeypatch):
    backlog = GpuBacklog(torch.device("cuda"))

    def fail(*_):
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(torch.cuda if name.startswith("is_") else gpu, name, fail)
    backlog.begin()
    backlog.look()
    assert backlog.take() == {}


def test_other_devices(gpu, monkeypatch):
    assert backlog_of(None) is None and backlog_of(torch.device("cpu")) is None
    assert backlog_of(torch.device("cuda")) is not None
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert backlog_of(torch.device("cuda")) is None


def test_intervals_tell_it(gpu, monkeypatch, tmp_path):
    monkeypatch.setattr(session, "backlog_of", lambda device: GpuBacklog(torch.device("cuda")))
    watch = session.Session(tmp_path / "kept")
    watch.start()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    written = 0
    while written < 3 or watch.writer._first > watch.writer.steps:  # the last step ends no interval
        before = watch.writer._first
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.02)
        written += watch.writer._first > before
    watch.stop()
    lines = (tmp_path / "kept/metrics.jsonl").read_text().splitlines()
    intervals = [record for record in map(json.loads, lines) if record["type"] == "interval"]
    *whole, last = intervals
    assert len(whole) >= 3 and all("gpu_done_us" in interval for interval in whole[1:])
    assert "gpu_done_us" not in last, "the program's end is no end of a step"


def test_a_gpus_rate_is_that_of_a_large_product(monkeypatch):
    sizes = []
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(facts, "_product_seconds", lambda size, *rest: sizes.append(size) or 0.5)
    rates = facts.measure_products(torch.device("cuda"), "fp32", None)
    assert min(sizes) >= 4096 and rates == {"fp32_flops": 2 * sizes[0] ** 3 / 0.5, "bf16_speedup": 1.0}
