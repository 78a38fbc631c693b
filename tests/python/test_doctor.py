# `stoker doctor`: every check is complete and reflects the process's limits; a fake driver is checked by its version.
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pytest
import torch
from conftest import run_program

KEYS = ["name", "status", "found", "expected", "why", "fix"]
HOST = ["cores", "cpu", "memory", "shared memory", "open files", "disk", "LibTorch", "gpu", "CUDA code",
        "cpu quota", "other processes", "swap", "locked memory", "inodes", "disk speed"]


def by_name(done):
    return {check["name"]: check for check in done.json()["checks"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An empty folder, in which the doctor has run once."""
    return tmp_path_factory.mktemp("doctor")


@pytest.fixture(scope="module")
def plain(program, folder):
    """Its checks there."""
    return by_name(run_program("doctor", "--json", cwd=folder))


def test_every_check_is_complete(plain):
    checks = plain
    assert set(HOST) <= set(checks)
    for check in checks.values():
        assert list(check) == KEYS
        assert check["status"] in ("ok", "warn", "fail")
        assert check["found"] and check["expected"] and check["why"]
        assert bool(check["fix"]) == (check["status"] != "ok"), check


def test_the_table_says_the_same(stoker, plain):
    checks = dict(plain)
    lines = stoker("doctor").out.splitlines()
    fixes = sum(line.strip().startswith("fix: ") for line in lines)
    busy = checks.pop("other processes")  # these may change between the two
    fixes -= any(line.startswith("warn  other processes ") for line in lines)
    assert busy and any(line[4:].startswith("  other processes ") for line in lines)
    for name, check in checks.items():
        assert any(line.startswith(f"{check['status']:<4}  {name} ") for line in lines)
    assert fixes == sum(bool(check["fix"]) for check in checks.values())
    assert re.fullmatch(r"\d+ ok, \d+ warnings?, 0 failed", lines[-1])


def test_libtorch_is_the_one_of_the_build(plain):
    found = plain["LibTorch"]
    assert found["status"] == "ok"
    version = found["found"].split()[0]
    assert found["expected"].startswith(".".join(version.split(".")[:2]) + ",")
    if version == torch.__version__ and torch.version.cuda:
        cudnn = plain["cuDNN"]
        assert cudnn["status"] == "ok" and cudnn["found"] == cudnn["expected"]


def test_affinity_and_few_open_files_are_seen(stoker):
    core = str(min(os.sched_getaffinity(0)))
    checks = by_name(stoker("doctor", "--json", prefix=["taskset", "-c", core, "prlimit", "--nofile=256"]))
    assert checks["cores"]["found"].startswith("1 usable of ") and checks["cores"]["status"] == "warn"
    files = checks["open files"]
    assert (files["status"], files["found"]) == ("warn", "256 at most, hard limit 256")
    assert files["expected"] == "at least 1024" and "LimitNOFILE=1024" in files["fix"]


def test_ranks_share_the_cores(stoker):
    cores = by_name(stoker("doctor", "--json", env={"LOCAL_WORLD_SIZE": "2"}))["cores"]
    assert "shared by 2 ranks" in cores["found"]


def test_other_processes_that_keep_the_cores_busy(stoker):
    burn = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(burn) for _ in range(2 * os.cpu_count())]
    try:
        check = by_name(stoker("doctor", "--json"))["other processes"]
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert check["status"] == "warn" and "stoker top" in check["fix"]
    kept, cores = re.match(r"([\d.]+) of (\d+) cores kept busy during", check["found"]).groups()
    assert 0.3 * int(cores) < float(kept) <= int(cores)


def test_open_files_for_the_shards_of_the_data(stoker, tmp_path):
    for i in range(301):
        (tmp_path / f"{i}.tar").write_bytes(bytes(4096))
    done = stoker("doctor", "--json", "--data", tmp_path, prefix=["prlimit", "--nofile=1100:2000"])
    many = by_name(done)["open files"]
    assert (many["status"], many["expected"]) == ("warn", "at least 1204, for 301 shards")
    assert many["found"] == "1100 at most, hard limit 2000" and many["fix"].startswith("ulimit -n 1204")


# ---- disks ----


def test_the_disk_of_the_working_folder_and_the_data_are_measured(stoker, plain, folder, drawn):
    assert list(folder.iterdir()) == []  # nothing is left behind
    assert "data speed" not in plain
    data = by_name(stoker("doctor", "--json", "--data", drawn))["data speed"]
    for speed in (plain["disk speed"], data):
        assert re.search(r": [\d,]+ MB/s in sequence, [\d,]+ random 4 KiB reads/s", speed["found"])


def test_data_in_memory_is_named(stoker):
    if not os.path.ismount("/dev/shm"):
        pytest.skip("needs a tmpfs in /dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        data = by_name(stoker("doctor", "--json", "--data", folder))["data speed"]
        assert data["status"] == "warn" and "not measured, no file of 4 KiB" in data["found"]
        with open(os.path.join(folder, "data"), "wb") as file:
            file.write(os.urandom(1 << 20))
        data = by_name(stoker("doctor", "--json", "--data", folder))["data speed"]
        assert data["found"].startswith("memory (tmpfs") and "MB/s" in data["found"]


def test_data_that_does_not_exist(stoker):
    error = stoker("doctor", "--data", "nowhere", status=1)
    assert "[nowhere] expected a data set" in error.err and error.err.count("\n") == 1


# ---- GPUs ----


def test_a_gpu_without_problems(stoker, fake_driver):
    environment = {**fake_driver, "FAKE_NVML": ""}
    checks = by_name(stoker("doctor", "--json", env=environment))
    assert checks["PCIe"]["found"] == "generation 5 x16"
    assert [checks[name]["status"] for name in ("PCIe", "persistence", "ECC")] == ["ok"] * 3
    assert checks["GPU clocks"]["status"] == "ok", "it takes all the power that it can have"


def test_a_gpu_that_could_have_more(stoker, fake_driver):
    checks = by_name(stoker("doctor", "--json", env={**fake_driver, "FAKE_NVML": "limited"}))
    assert checks["PCIe"]["found"] == "GPU 0: the slot gives generation 5 x16, the GPU has 6 x16"
    assert checks["GPU clocks"]["found"] == "GPU 0: power limit, 61 C"
    assert checks["GPU clocks"]["fix"].startswith("sudo nvidia-smi -i 0 -pl 700 (until the next boot")


def test_a_lost_gpu_fails(stoker, fake_driver):
    checks = by_name(stoker("doctor", "--json", status=1, env={**fake_driver, "FAKE_NVML": "lost", "FAKE_GPUS": "2"}))
    assert (checks["GPUs"]["status"], checks["GPUs"]["found"]) == ("fail", "GPU 1: GPU is lost")
    assert checks["PCIe"]["found"] == "generation 5 x16"


def test_the_problems_of_a_gpu(stoker, fake_driver):
    checks = by_name(stoker("doctor", "--json", env={**fake_driver, "FAKE_NVML": "hot", "FAKE_GPUS": "2"}))
    found = {name: checks[name]["found"] for name in ("PCIe", "persistence", "ECC", "GPU clocks")}
    assert found == {
        "PCIe": "GPU 0: generation 3 x8 of 5 x16; GPU 1: generation 3 x8 of 5 x16",
        "persistence": "GPU 0: off; GPU 1: off",
        "ECC": "; ".join(f"GPU {i}: 3 uncorrected errors, bad rows wait for a reset to be replaced" for i in (0, 1)),
        "GPU clocks": "GPU 0: hardware slowdown, temperature, 88 C; GPU 1: hardware slowdown, temperature, 88 C",
    }
    assert all(checks[name]["status"] == "warn" and checks[name]["fix"] for name in found)
    assert "--gpu-reset" in checks["ECC"]["fix"] and "nvidia-persistenced" in checks["persistence"]["fix"]


def test_what_a_gpu_does_not_report_is_not_checked(stoker, fake_driver):
    checks = by_name(stoker("doctor", "--json", env={**fake_driver, "FAKE_NVML": "silent"}))
    assert not {"PCIe", "persistence", "ECC", "GPU clocks"} & set(checks)


def test_a_management_library_that_does_not_start(stoker, fake_driver):
    done = stoker("doctor", "--json", status=1, env={**fake_driver, "FAKE_NVML": "broken"})
    check = by_name(done)["GPU management"]
    assert check["status"] == "fail" and check["found"] == "NVML does not start: Driver Not Loaded"


# ---- CUDA's files ----


@pytest.mark.skipif(not torch.version.cuda, reason="needs a LibTorch for CUDA")
def test_a_library_in_front_of_libtorchs_own(stoker, tmp_path):
    def check():
        return by_name(stoker("doctor", "--json", status=None, env={"LD_LIBRARY_PATH": str(tmp_path)}))["library path"]

    (tmp_path / "libcudnn_ops.so.9").write_bytes(b"")  # a part of cuDNN, which it looks for there first
    assert check()["status"] == "warn"
    assert check()["found"].endswith("/libcudnn_*.so.9")  # a long path is shortened in the middle


def test_a_libtorch_without_cuda_needs_no_cudnn(made_up_torch, tmp_path):
    (tmp_path / "site/torch/version.py").write_text("__version__ = '2.99.0+cpu'\ncuda: Optional[str] = None\n")
    (tmp_path / "libcudnn_ops.so.9").write_bytes(b"")
    assert "library path" not in made_up_torch(LD_LIBRARY_PATH=str(tmp_path))


@pytest.fixture
def made_up_torch(program, tmp_path):
    """Runs the doctor with an engine that names a made-up LibTorch for CUDA 13.0, with these wheels next to it."""
    site = tmp_path / "site"
    (tmp_path / "bin").mkdir()
    shutil.copy(program, tmp_path / "bin/stoker")
    engine = tmp_path / "bin/stoker-engine"
    engine.write_text(f"#!/bin/sh\necho {site}/torch\n")
    engine.chmod(0o755)
    (site / "torch/lib").mkdir(parents=True)
    (site / "torch/version.py").write_text("__version__ = '2.99.0'\ncuda: Optional[str] = '13.0'\n")
    (site / "torch-2.99.0.dist-info").mkdir()
    (site / "torch-2.99.0.dist-info/METADATA").write_text("Requires-Dist: nvidia-cudnn-cu13==9.19.0.56\n")

    def run(*wheels, **environment):
        for wheel in wheels:
            (site / f"{wheel}.dist-info").mkdir(exist_ok=True)
        done = subprocess.run([tmp_path / "bin/stoker", "doctor", "--json"], cwd=tmp_path, capture_output=True,
                              text=True, timeout=120, env={**os.environ, **environment})
        return {check["name"]: check for check in json.loads(done.stdout)["checks"]}

    return run


def test_wheels_of_another_cuda_are_not_libtorchs(made_up_torch):
    other = made_up_torch("nvidia_cudnn_cu12-9.1.0.70", "nvidia_cuda_runtime_cu12-12.8.90")
    assert other["cuDNN"]["found"] == other["CUDA runtime"]["found"] == "none beside LibTorch"
    both = made_up_torch("nvidia_cudnn_cu13-9.19.0.56", "nvidia_cuda_runtime-13.0.96")
    assert (both["cuDNN"]["status"], both["cuDNN"]["found"]) == ("ok", "9.19.0.56")
    assert (both["CUDA runtime"]["status"], both["CUDA runtime"]["found"]) == ("ok", "13.0.96")


def test_the_required_version_is_preferred(made_up_torch):
    wheels = [f"nvidia_cudnn_cu13-9.{minor}.0.1" for minor in range(1, 30)]  # folders are listed in any order
    assert made_up_torch(*wheels, "nvidia_cudnn_cu13-9.19.0.56")["cuDNN"]["status"] == "ok"


@pytest.mark.parametrize("tags, status", [("--disable-new-dtags", "ok"), ("--enable-new-dtags", "warn")])
def test_libraries_in_front_of_those_that_libtorch_names(made_up_torch, tmp_path, tags, status):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    library = tmp_path / "site/torch/lib/libtorch_cuda.so"
    (tmp_path / "empty.c").write_text("")
    subprocess.run(["cc", "-shared", f"-Wl,{tags},-rpath,$ORIGIN", "-o", library, tmp_path / "empty.c"], check=True)
    (tmp_path / "libnccl.so.2").write_bytes(b"")
    check = made_up_torch(LD_LIBRARY_PATH=str(tmp_path))["library path"]
    assert check["status"] == status  # RPATH is searched before LD_LIBRARY_PATH, RUNPATH after it


@pytest.mark.skipif(not torch.version.cuda, reason="needs a LibTorch for CUDA")
def test_a_toolkit_of_another_version(stoker, tmp_path):
    def toolkit(version):
        (tmp_path / "version.json").write_text(f'{{"cuda" : {{"name" : "CUDA SDK", "version" : "{version}"}}}}')
        return by_name(stoker("doctor", "--json", env={"CUDA_HOME": str(tmp_path)}))["CUDA toolkit"]

    assert toolkit("9.2.1")["status"] == "warn" and toolkit("9.2.1")["found"].startswith("9.2.1 in ")
    assert toolkit(torch.version.cuda + ".1")["status"] == "ok"


# ---- the driver ----

DRIVER = """
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { (void)flags; return INIT; }
int cuDriverGetVersion(int* version) { *version = VERSION; return 0; }
int cuDeviceGetCount(int* count) { *count = DEVICES; return 0; }
int cuDeviceGetName(char* name, int length, int device) { (void)device; strncpy(name, "Made-up GPU", length); return 0; }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { (void)device; *bytes = (size_t)80 << 30; return 0; }
int cuGetErrorString(int status, const char** text) { (void)status; *text = "no kernel module"; return 0; }
"""


@pytest.fixture
def driver(stoker, tmp_path):
    """Runs the doctor with a fake libcuda.so.1 of the given version and number of devices."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")

    def run(version, devices=1, init=0, status=0):
        (tmp_path / "driver.c").write_text(DRIVER)
        values = [f"-DVERSION={version}", f"-DDEVICES={devices}", f"-DINIT={init}"]
        subprocess.run(["cc", "-shared", "-fPIC", *values, "-o", "libcuda.so.1", "driver.c"], cwd=tmp_path, check=True)
        return stoker("doctor", "--json", status=status, env={"LD_LIBRARY_PATH": str(tmp_path)})

    return run


def test_a_driver_that_fits(driver):
    checks = by_name(driver(99020, devices=2))
    assert checks["gpu"]["status"] == "ok"
    assert checks["gpu"]["found"].startswith("Made-up GPU (80 GiB), Made-up GPU (80 GiB); driver ")
    assert "CUDA 99.2" in checks["gpu"]["found"]
    if "driver fits" in checks:  # a LibTorch for CUDA
        assert checks["driver fits"]["status"] == "ok"
    else:
        assert checks["LibTorch CUDA"]["status"] == "warn"


def test_a_driver_that_is_too_old_fails(driver):
    done = driver(9020, status=None)
    checks = by_name(done)
    if "driver fits" not in checks:
        pytest.skip("needs a LibTorch for CUDA")
    assert checks["driver fits"]["status"] == "fail" and checks["driver fits"]["fix"]
    assert done.status == 1


def test_a_driver_that_does_not_start(driver):
    gpu = by_name(driver(99000, init=803, status=1))["gpu"]
    assert gpu["status"] == "fail" and gpu["found"] == "the driver does not start: no kernel module"


def test_a_driver_without_a_device(driver):
    no_device = 100  # CUDA_ERROR_NO_DEVICE
    assert by_name(driver(99000, devices=0, init=no_device))["gpu"]["status"] == "warn"
    gpu = by_name(driver(99000, devices=0))["gpu"]
    assert gpu["status"] == "warn" and "no device" in gpu["found"] and "CUDA_VISIBLE_DEVICES" in gpu["fix"]
