"""The GPUs that the build compiles for, by CMake's own answer: with a compiler that only lists what it knows."""

import os
import pathlib
import subprocess

import pytest

MODULE = pathlib.Path(__file__).parents[1] / "cmake" / "StokerCudaArchitectures.cmake"
NVCC_12_4 = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90"
NVCC_13_0 = "sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_100 sm_110 sm_103 sm_120 sm_121"


def choose(folder, known, given=None, **environment):
    """What CMAKE_CUDA_ARCHITECTURES becomes, or CMake's error, with a compiler that knows `known`."""
    compiler = folder / "nvcc"
    compiler.write_text(f"#!/bin/sh\n[ \"$1\" = --list-gpu-code ] && printf '%s\\n' {known}\n")
    compiler.chmod(0o755)
    script = folder / "choose.cmake"
    script.write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        + ("" if given is None else f"set(CMAKE_CUDA_ARCHITECTURES {given})\n")
        + f'include("{MODULE}")\nstoker_cuda_architectures("{compiler}" chosen)\nmessage("${{chosen}}")\n'
    )
    clean = {key: value for key, value in os.environ.items() if key not in ("CUDAARCHS", "TORCH_CUDA_ARCH_LIST")}
    done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True, env=clean | environment, check=False)
    return " ".join(done.stderr.split())


def test_all_that_the_compiler_knows_and_ptx_for_later_gpus(tmp_path):
    assert choose(tmp_path, NVCC_13_0) == "75-real;80-real;90-real;100-real;120-real;120-virtual"
    assert choose(tmp_path, NVCC_12_4) == "75-real;80-real;90-real;90-virtual"


def test_a_compiler_that_knows_none_is_an_error(tmp_path):
    assert "expected code for one of 75;80;90;100;120, got 999; set CMAKE_CUDA_ARCHITECTURES" in choose(
        tmp_path, "sm_999"
    )


def test_the_users_list_counts(tmp_path):
    assert choose(tmp_path, NVCC_13_0, given='"86;89-real"') == "86;89-real"
    assert choose(tmp_path, NVCC_13_0, CUDAARCHS="native", TORCH_CUDA_ARCH_LIST="8.0") == "native"
    assert choose(tmp_path, NVCC_13_0, given="90", CUDAARCHS="native") == "90"


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ("8.0;9.0+PTX", "80-real;90-real;90-virtual"),
        ("7.5 8.6,12.0", "75-real;86-real;120-real"),
        ("9.0a", "90a-real"),
    ],
)
def test_pytorchs_list_is_read(tmp_path, given, chosen):
    assert choose(tmp_path, NVCC_13_0, TORCH_CUDA_ARCH_LIST=given) == chosen


def test_another_word_in_pytorchs_list_is_an_error(tmp_path):
    assert "expected numbers such as 8.0 or 9.0+PTX, got Hopper" in choose(
        tmp_path, NVCC_13_0, TORCH_CUDA_ARCH_LIST="Hopper"
    )
