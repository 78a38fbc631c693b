# `cmake --install`, then a program outside the repository that finds the package, builds and runs.
# The build is the one that STOKER_BIN (build/release/bin/stoker by default) lies in.
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
    # The folder of LibTorch is the exception: it may lie in the checkout's .venv, and is a setting.
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
        pytest.skip("this build has no engine: STOKER_ENGINE=OFF")
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
    assert engine.is_file() and "$ORIGIN" in run("readelf", "-d", engine)
    for name, text in FINDS_CUDA.items():
        (tmp_path / name).write_text(text)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    run(tmp_path / "build/finds_cuda")
