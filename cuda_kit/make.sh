#!/usr/bin/env bash
# Gathers build/cuda-kit: programs, GPU tests, peers, small data and the shared libraries that a plain Debian or Ubuntu
# lacks, for a machine with a GPU, a driver and a Python with the same torch, but without network, root and compiler.
# usage: cuda_kit/make.sh BUILD_FOLDER KIT_FOLDER [DATA_FOLDER]   DATA_FOLDER: mnist/ and photos/, copied if present
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1 kit=$2 data=${3:-}

PROGRAMS=(stoker stoker-engine libstoker_torch_cuda.so)
[[ -f $build/bin/libstoker_nccl.so ]] && PROGRAMS+=(libstoker_nccl.so)
readonly TESTS=(bridge_test dist_test models_test ops_test train_test)
# Every glibc system has these. LibTorch's libraries and their CUDA libraries are in Python's site-packages.
readonly PRESENT='/(libc|libm|libdl|librt|libpthread|libutil|libresolv|libstdc\+\+|libgcc_s)\.so|/(site|dist)-packages/'

rm -rf "$kit"
mkdir -p "$kit"/{bin,lib,data}
for program in "${PROGRAMS[@]}" "${TESTS[@]}"; do
    strip -o "$kit/bin/$program" "$build/bin/$program"
done
for program in "${PROGRAMS[@]}" "${TESTS[@]}"; do
    ldd "$build/bin/$program" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}'
done | sort -u | while read -r name path; do
    [[ $path =~ $PRESENT ]] || cp -L "$path" "$kit/lib/$name"
done
cp -r bench/peers recipes "$kit/"
find "$kit" -name __pycache__ -prune -exec rm -r {} +
cp cuda_kit/run.sh cuda_kit/*.py tests/support/sum_junit.py "$kit/"
for folder in mnist photos; do
    if [[ -n $data && -d $data/$folder ]]; then
        cp -r "$data/$folder" "$kit/data/"
    fi
done
chmod -R u+w "$kit"
du -sh "$kit" >&2
