#!/usr/bin/env bash
# Builds all that needs no LibTorch for aarch64, with Debian's cross compiler and libraries, and runs its tests under
# QEMU: `./dev test-aarch64`. NEON has none of our kernels: their plain C++ is compiled.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TRIPLE=aarch64-linux-gnu ROOT=$PWD/build/aarch64/root BUILD=$PWD/build/aarch64/build
readonly LIBRARIES=(lib{jpeg,spng,webp,tiff,sndfile1,soxr,heif,jxl,gif,openjp2-7,deflate,zstd,xxhash,lmdb,hdf5,curl4-openssl,ssl,fmt,simdjson,tomlplusplus,cli11}-dev
    lib{ncurses,gtest,gmock,stdc++-12}-dev zlib1g-dev nlohmann-json3-dev)

# The -dev packages of Debian for arm64, unpacked. Links to absolute paths are made relative, as the linker follows them
# from this machine's root.
make_root() {
    local link target
    rm -rf "$ROOT"
    mkdir -p "${ROOT%/*}"
    mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$(IFS=, && echo "${LIBRARIES[*]}")" \
        bookworm "$ROOT"
    find "$ROOT" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
        target=$(readlink "$link")
        ln -sfn "$(realpath -m --relative-to="${link%/*}" "$ROOT$target")" "$link"
    done
    echo "${LIBRARIES[*]}" >"$ROOT/ready"
}

[[ -e $ROOT/ready && $(<"$ROOT/ready") == "${LIBRARIES[*]}" ]] || make_root
cmake -S . -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTOKER_ENGINE=OFF -DSTOKER_PYTHON=OFF -DSTOKER_CUDA=OFF -DSTOKER_MOLD=OFF \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=$TRIPLE-g++ -DCMAKE_SYSROOT="$ROOT" \
    -DCMAKE_FIND_ROOT_PATH="$ROOT" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER -DCMAKE_LIBRARY_ARCHITECTURE=$TRIPLE \
    -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64-static;-L;$ROOT"
cmake --build "$BUILD" -j "$(nproc)"
# QEMU shows the host's /proc/cpuinfo, does not emulate a limit of addresses, and ends a process by a signal otherwise.
export GTEST_FILTER=-CpuFeatures.AgreeWithTheKernel:MemoryLimitTest.AnAddressLimitCounts:MapDamageDeathTest.OtherFaultsGoToTheHandlerBefore:MapDamageDeathTest.ASignalOfAProcessIsNoDamage
STOKER_SKIP_SLOW=1 ctest --test-dir "$BUILD" -L gtest --output-on-failure
