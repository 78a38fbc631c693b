#!/usr/bin/env bash
# torch 2.15.0 installs a header of its C++ interface, torch/nativert/ModelRunnerHandle.h, whose class no library of the
# wheel contains: a program that uses it compiles, and fails at the link. torch 2.11.0 has both. Seen with the wheels of
# PyPI for Python 3.11 on x86-64 (without CUDA's packages; some 1.5 GB); needs `nm` of binutils.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"

# The header's name if it is there, and the number of the class's functions in LibTorch's libraries.
found() {
    local torch=$folder/$1/torch
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$folder/$1" "torch==$1"
    (cd "$torch/include/torch/csrc/api/include" && find . -name ModelRunnerHandle.h)
    nm --dynamic --defined-only --demangle "$torch"/lib/lib{torch,c10}*.so | grep -c 'T torch::nativert::ModelRunnerHandle::' || true
    rm -rf "${folder:?}/$1"
}

older=$(found 2.11.0)
newer=$(found 2.15.0)
printf 'torch 2.11.0: %s functions\ntorch 2.15.0: %s functions\n' "${older//$'\n'/, }" "${newer//$'\n'/, }"
[[ $older == ./torch/nativert/ModelRunnerHandle.h$'\n'[1-9]* && $newer == ./torch/nativert/ModelRunnerHandle.h$'\n'0 ]]
