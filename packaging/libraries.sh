#!/usr/bin/env bash
# Libraries that the wheels contain in another form than Debian has them, built from Debian's sources: C++ ones as static
# libraries, since a wheel brings its own libstdc++, and curl without the protocols that Stoker does not speak.
# usage: libraries.sh FOLDER   installs into FOLDER, and leaves what is there already
set -euo pipefail
folder=$1
[[ -e $folder/complete ]] && exit
rm -rf "$folder"
mkdir -p "$folder"/{apt/lists/partial,apt/archives/partial,source}
cd "$folder"
folder=$PWD

# The machine's own apt sources, for source packages.
apt-get indextargets --format 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) $(CODENAME) $(COMPONENT)' \
    'Created-By: Packages' | sort -u >apt/sources.list
apt_source() {
    apt-get -qq -o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt" -o APT::Sandbox::User=root "$@"
}
apt_source update

# library PACKAGE CMAKE_SETTING...
library() {
    local package=$1
    shift
    (cd source && apt_source source "$package")
    cmake -S source/"$package"-*/ -B "source/build-$package" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_LIBDIR=lib "$@" >/dev/null
    cmake --build "source/build-$package" >/dev/null
    cmake --install "source/build-$package" >/dev/null
}
library fmtlib -DFMT_TEST=OFF -DFMT_DOC=OFF -DBUILD_SHARED_LIBS=OFF
library simdjson -DSIMDJSON_DEVELOPER_MODE=OFF -DBUILD_SHARED_LIBS=OFF
# toml++ as headers alone, which the package has.
mkdir -p lib/cmake/tomlplusplus
cat >lib/cmake/tomlplusplus/tomlplusplusConfig.cmake <<'CONFIG'
add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
target_compile_definitions(tomlplusplus::tomlplusplus INTERFACE TOML_HEADER_ONLY=1)
CONFIG
library curl -DBUILD_SHARED_LIBS=ON -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DHTTP_ONLY=ON -DCURL_USE_OPENSSL=ON \
    -DUSE_NGHTTP2=ON -DCURL_USE_LIBSSH2=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF -DUSE_LIBIDN2=OFF -DCURL_USE_LIBPSL=OFF \
    -DENABLE_MANUAL=OFF -DCURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt -DCURL_CA_PATH=/etc/ssl/certs
rm -rf apt source
touch complete
