#!/usr/bin/env bash
# dist/: wheels that need neither a compiler nor packages of a distribution, the source archive, a Debian package with
# programs and C++ headers, SHA256SUMS and an SBOM. `./dev release` runs it.
# usage: release.sh [core|engine|deb]...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly AT=$PWD/build/dist OUT=$PWD/dist
readonly TORCHES=(${STOKER_TORCHES:-2.11.0 2.12.1 2.13.0 2.14.1 2.15.0})
# The oldest glibc whose symbols suffice (README.md): torch's libstdc++ keeps the engine at 2.35.
readonly CORE_PLATFORM=manylinux_2_34_x86_64 ENGINE_PLATFORM=manylinux_2_35_x86_64
version=$(sed -nE 's/^project\(stoker VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
say() { printf 'release: %s\n' "$*" >&2; }

tools() {
    [[ -e $AT/tools/complete ]] && return
    python3 -m venv --clear "$AT/tools"
    "$AT/tools/bin/python" -m pip install --quiet --disable-pip-version-check -r packaging/requirements.txt
    touch "$AT/tools/complete"
}

# repair WHEEL PLATFORM AUDITWHEEL_OPTION...: copies its libraries into the wheel, and the result into dist/.
repair() {
    local wheel=$1 platform=$2
    shift 2
    LD_LIBRARY_PATH=$AT/libraries/lib PATH=$AT/tools/bin:$PATH auditwheel repair --plat "$platform" --only-plat \
        --wheel-dir "$OUT" "$@" "$wheel"
}

# One wheel for Python 3.10, one for 3.11, and one for all from 3.12 on.
core() {
    packaging/root.sh jammy  # 3.10
    packaging/root.sh trixie # 3.13
    rm -rf "$AT/core" "$OUT"/stoker-*.whl
    local python
    for python in "$AT/roots/jammy/usr/bin/outside-python3" python3 "$AT/roots/trixie/usr/bin/outside-python3"; do
        say "the package for $("$python" --version)"
        CMAKE_PREFIX_PATH=$AT/libraries .venv/bin/uv build --quiet --wheel --python "$python" --out-dir "$AT/core" \
            -C cmake.define.CMAKE_EXE_LINKER_FLAGS=-static-libstdc++ \
            -C cmake.define.CMAKE_MODULE_LINKER_FLAGS=-static-libstdc++
    done
    .venv/bin/uv build --quiet --sdist --out-dir "$OUT"
    for wheel in "$AT"/core/*.whl; do
        repair "$wheel" "$CORE_PLATFORM"
    done
}

# One wheel with an engine for each release of torch.
engine() {
    local stage=$AT/engine torch release
    rm -rf "$stage" "$OUT"/stoker_engine-*.whl
    for torch in "${TORCHES[@]}"; do
        release=${torch%.*}
        if [[ ! -e $AT/torch-$release/torch/version.py ]]; then
            say "torch $torch"
            .venv/bin/uv pip install --quiet --no-deps --python .venv/bin/python --target "$AT/torch-$release" "torch==$torch"
        fi
        say "the engine for torch $release"
        CMAKE_PREFIX_PATH=$AT/libraries cmake -S . -B "$AT/build-$release" -G Ninja -DSTOKER_TESTS=OFF \
            -DSTOKER_PYTHON=OFF -DSTOKER_TORCH="$AT/torch-$release/torch" >/dev/null
        cmake --build "$AT/build-$release" --target programs >/dev/null
        mkdir -p "$stage/stoker_engine/torch-$release"
        cp "$AT/build-$release"/bin/{stoker-engine,libstoker_*.so} "$stage/stoker_engine/torch-$release"
        strip "$stage/stoker_engine/torch-$release"/*
    done
    "$AT/tools/bin/python" packaging/engine_wheel.py "$stage" "$version" "$AT"
    repair "$AT/stoker_engine-$version-py3-none-linux_x86_64.whl" "$ENGINE_PLATFORM" --exclude 'libtorch*' \
        --exclude 'libc10*' --exclude 'libcud*' --exclude 'libnccl*' --exclude 'libnv*' --exclude 'libcu*'
}

deb() {
    cmake -S . -B "$AT/deb" -G Ninja -DSTOKER_TESTS=OFF -DSTOKER_PYTHON=OFF -DSTOKER_ENGINE=OFF -DSTOKER_CUDA=OFF \
        -DCMAKE_INSTALL_PREFIX=/usr >/dev/null
    cmake --build "$AT/deb" >/dev/null
    (cd "$AT/deb" && cpack -G DEB -B "$OUT" >/dev/null)
    rm -rf "$OUT/_CPack_Packages"
}

mkdir -p "$AT" "$OUT"
tools
packaging/libraries.sh "$AT/libraries"
if [[ $# -eq 0 ]]; then set -- core engine deb; fi
for part in "$@"; do
    "$part"
done
"$AT/tools/bin/python" packaging/sbom.py "$OUT"
(cd "$OUT" && sha256sum -- *.whl *.tar.gz *.deb *.json >SHA256SUMS)
ls -l "$OUT" >&2
