# `cmake --install`, then a program outside the repository that finds the package, builds and runs.
# The build is the one that contains STOKER_BIN (build/release/bin/stoker by default).
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("STOKER_BIN", ROOT / "build/release/bin/stoker")).resolve().parents[1]


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if not (BUILD / "CMakeCache.txt").is_file():
        pytest.skip(f"needs a build in {BUILD}")
    prefix = tmp_path_factory.mktemp("install")
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


def test_every_header_is_installed(prefix):
    source, installed = ROOT / "src", prefix / "include"
    wanted = {path.relative_to(source) for path in source.rglob("*.h") if "gloo_shim" not in path.parts}
    assert wanted == {path.relative_to(installed) for path in installed.rglob("*.h")}


def test_the_package_names_no_folder_of_the_checkout(prefix):
    # The folder of LibTorch is the exception: it may be in the checkout's .venv, and is a setting.
    for path in prefix.rglob("*.cmake"):
        text = path.read_text().replace(f"{ROOT}/.venv", "")
        assert str(ROOT) not in text, path


def test_a_program_outside_finds_builds_and_runs(prefix, tmp_path):
    consumer = ROOT / "tests/install/consumer"
    run("cmake", "-S", consumer, "-B", tmp_path, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    own, digits = run(tmp_path / "consumer").splitlines()
    assert own == f"own data: 20 samples, brightness {sum(range(20))}.0"
    assert digits == "digits: 64 samples, hash 1"


def test_the_program_runs_from_where_it_is_installed(prefix):
    program = prefix / "bin/stoker"
    assert "usage" in run(program, "--help").lower()
    if not (BUILD / "bin/stoker-engine").is_file():
        pytest.skip("this build lacks the engine: STOKER_ENGINE=OFF")
    assert sorted(path.name for path in (prefix / "bin").iterdir()) == ["stoker"]
    assert "stoker train" in run(program, "train", "--help")


FINDS_CUDA = {
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.25)
project(finds_cuda LANGUAGES CXX)
find_package(stoker 0.1 REQUIRED)
add_executable(finds_cuda main.cpp)
target_link_libraries(finds_cuda PRIVATE stoker::bridge)
""",
    "main.cpp": """
#include "stoker/bridge/torch_cuda.h"
int main() { stoker::torch_cuda(); }
""",
}


def test_the_library_for_cuda_is_found_where_it_is_installed(prefix, tmp_path):
    if not (BUILD / "bin/libstoker_torch_cuda.so").is_file():
        pytest.skip("built without LibTorch's CUDA headers")
    [library] = prefix.rglob("libstoker_torch_cuda.so")
    engine = library.parent / "stoker-engine"
    assert (library.parent / "libstoker_nccl.so").is_file() == (BUILD / "bin/libstoker_nccl.so").is_file()
    assert engine.is_file() and "$ORIGIN" in run("readelf", "-d", engine)
    for name, text in FINDS_CUDA.items():
        (tmp_path / name).write_text(text)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    run(tmp_path / "build/finds_cuda")


PIPELINE_ONLY = """
cmake_minimum_required(VERSION 3.25)
project(pipeline_only LANGUAGES CXX)
find_package(stoker 0.1 REQUIRED COMPONENTS pipeline)
if(TARGET stoker::train OR TARGET stoker::torch)
  message(FATAL_ERROR "the component pipeline brought LibTorch")
endif()
add_executable(consumer {root}/tests/install/consumer/main.cpp)
target_link_libraries(consumer PRIVATE stoker::pipeline stoker::pack)
"""


def configure(folder, prefix, text, *settings):
    (folder / "CMakeLists.txt").write_text(text.format(root=ROOT))
    command = ["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", *settings]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def test_the_pipeline_needs_neither_libtorch_nor_the_cuda_toolkit(prefix, tmp_path):
    without = ["-DSTOKER_TORCH=/nowhere", "-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON"]
    done = configure(tmp_path, prefix, PIPELINE_ONLY, *without)
    assert done.returncode == 0, done.stderr
    run("cmake", "--build", tmp_path / "build")
    assert "digits: 64 samples" in run(tmp_path / "build/consumer")
    linked = run("ldd", tmp_path / "build/consumer")
    assert "libtorch" not in linked and "cudart" not in linked


EVERYTHING = """
cmake_minimum_required(VERSION 3.25)
project(everything LANGUAGES CXX)
find_package(stoker 0.1 REQUIRED {components})
if(NOT TARGET stoker::stoker OR NOT TARGET stoker::train)
  message(FATAL_ERROR "the engine is missing")
endif()
"""


def everything(folder, prefix, torch, components=""):
    done = configure(folder, prefix, EVERYTHING.replace("{components}", components), f"-DSTOKER_TORCH={torch}")
    return done.returncode, " ".join(done.stderr.split())


@pytest.fixture
def torch(prefix):
    if not any(prefix.rglob("stoker-engine")):
        pytest.skip("this build lacks the engine: STOKER_ENGINE=OFF")
    cache = (BUILD / "CMakeCache.txt").read_text().splitlines()
    chosen = next((line.split("=", 1)[1] for line in cache if line.startswith("STOKER_TORCH:")), "")
    return Path(chosen) if chosen else next((ROOT / ".venv/lib").glob("python3*/site-packages/torch"))


def another_torch(folder, torch, version, old_abi=False):
    """LibTorch as find_package sees it, with another version or ABI."""
    (folder / "lib").mkdir(parents=True)
    for name in ("libtorch_cpu.so", "libc10.so"):
        (folder / "lib" / name).symlink_to(torch / "lib" / name)
    if old_abi:
        (folder / "lib/libc10.so").unlink()
        (folder / "lib/libc10.so").write_bytes(b"\0_ZN3c106detail14torchCheckFailEPKcS2_jRKSs\0")
    (folder / "version.py").write_text(f"__version__ = '{version}'\n")
    return folder


def test_another_libtorch_is_refused_in_one_line(prefix, torch, tmp_path):
    version = next(line for line in (torch / "version.py").read_text().splitlines() if line.startswith("__version__"))
    built = version.split("'")[1].split("+")[0]
    assert everything(tmp_path, prefix, torch) == (0, "")
    same = another_torch(tmp_path / "same", torch, f"{built}+cpu")
    assert everything(tmp_path, prefix, same)[0] == 0
    older = another_torch(tmp_path / "older", torch, "2.3.1+cu121")
    old_abi = another_torch(tmp_path / "old_abi", torch, built, old_abi=True)
    for path, got in ((older, "2.3.1 with the CXX11 ABI"), (old_abi, f"{built} with the old ABI")):
        for components in ("", "COMPONENTS engine"):
            status, err = everything(tmp_path, prefix, path, components)
            assert status == 1
            assert f"LibTorch: expected {built} with the CXX11 ABI, which Stoker was built with, got {got}" in err, err
            assert "set STOKER_TORCH to the other" in err
    status, err = everything(tmp_path, prefix, tmp_path / "none")
    assert status == 1 and "LibTorch: expected lib/libtorch_cpu.so in" in err, err


def test_an_unknown_component_is_refused(prefix, torch, tmp_path):
    status, err = everything(tmp_path, prefix, torch, "COMPONENTS pipelines")
    assert status == 1 and "pipelines" in err, err
