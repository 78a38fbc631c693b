# Clocks of a GPU from a made-up NVML, in the words that `stoker top` has for them.
import pytest

pytest.importorskip("torch")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.watch import gpu_clocks
from stoker.watch.gpu_clocks import GpuClocks, clocks_of

UUID = "00010203-0405-0607-0809-0a0b0c0d0eff"  # of tests/monitor/fake_nvml.cpp


@pytest.fixture
def library(fake_driver):
    return fake_driver["LD_LIBRARY_PATH"] + "/libnvidia-ml.so.1"


def test_a_hot_gpu(library, fake_driver, stoker, monkeypatch):
    monkeypatch.setenv("FAKE_NVML", "hot")
    monkeypatch.setattr(gpu_clocks, "monotonic", lambda: 5.0)
    clocks = GpuClocks(UUID, library)
    gpu = stoker("top", "--once", "--json", env=fake_driver | {"FAKE_NVML": "hot"}).json()["gpus"][0]
    assert gpu["throttled"]
    assert clocks.read() == {
        "gpu_celsius": gpu["celsius"],
        "gpu_clock_share": pytest.approx(gpu["sm_mhz"] / gpu["sm_max_mhz"]),
        "gpu_clock_limit": ", ".join(gpu["clock_reasons"]),
    }
    assert clocks.read() == {}, "within a second of the last reading"


def test_a_gpu_that_tells_nothing(library, monkeypatch):
    monkeypatch.setenv("FAKE_NVML", "silent")
    assert GpuClocks(UUID, library).read() == {}


def test_a_gpu_at_its_limit_of_power(library, monkeypatch):
    monkeypatch.setenv("FAKE_NVML", "")
    assert GpuClocks(UUID, library).read()["gpu_clock_limit"] == "power limit"


def test_no_gpu(library, monkeypatch):
    with pytest.raises(OSError, match="no GPU 1234"):
        GpuClocks("1234", library)
    monkeypatch.setenv("FAKE_NVML", "broken")
    with pytest.raises(OSError, match="does not start"):
        GpuClocks(UUID, library)
    assert clocks_of(None) is None
