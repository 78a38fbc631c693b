#!/usr/bin/env bash
# Builds libcurl.so.4 and libtiff for the wheels, into FOLDER, from the distribution's source. Debian's libcurl, which HDF5
# loads too, brings LDAP, Kerberos, SSH and GnuTLS: half of a wheel's bytes. Its libtiff brings JBIG-Kit, which is GPL.
#
#   libraries.sh FOLDER
set -euo pipefail
mkdir -p "$1"
AT=$(realpath "$1")
readonly AT

# apt-get with the machine's own entries of Debian or Ubuntu, for sources, and with its own lists.
apt_sources() {
    apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$AT/apt/entries" -o Dir::State::lists="$AT/apt/lists" \
        -o Dir::Cache="$AT/apt/cache" -o APT::Sandbox::User=root "$@"
}

list_sources() {
    local file
    mkdir -p "$AT"/apt/entries "$AT"/apt/{lists,cache}/partial
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        if grep -qsE '/(debian|debian-security|ubuntu)/?( |$)' "$file"; then
            sed -E 's/^deb /deb-src /; s/^Types:.*/Types: deb-src/' "$file" >"$AT/apt/entries/${file##*/}"
        fi
    done
}

fail() {
    printf 'libraries.sh: %s\n' "$*" >&2
    exit 1
}

# enter_source NAME LIBRARY: the source of Debian's package, with its patches, which must be the version that is installed.
enter_source() {
    local version installed
    cd "$AT"
    apt_sources source --only-source "$1"
    cd "$(compgen -G "$AT/$1-[0-9]*/")"
    version=$(dpkg-parsechangelog -S Version) installed=$(dpkg-query -W -f='${Version}' "$2")
    [[ $version == "$installed" ]] || fail "expected $2 $version on this machine, got $installed; apt-get upgrade"
}

build_curl() {
    local protocol off=()
    for protocol in dict file ftp gopher imap ldap ldaps mqtt pop3 rtsp smb smtp telnet tftp ntlm manual; do
        off+=("--disable-$protocol")
    done
    enter_source curl libcurl4
    sed -i 's/FLAVOUR@3/FLAVOUR@4/' lib/libcurl.vers.in # as HDF5 expects it; Debian's patch for GnuTLS made it 3
    grep -q 'FLAVOUR@4' lib/libcurl.vers.in || fail "expected a version of symbols in libcurl.vers.in, got none"
    ./configure --prefix="$AT" --libdir="$AT/lib" --disable-static --enable-versioned-symbols --with-openssl --with-zlib \
        --without-{zstd,brotli,libpsl,libidn2,libssh2,librtmp,nghttp2,gssapi} "${off[@]}"
    make -s -j "$(nproc)" install
}

build_tiff() {
    enter_source tiff libtiff6
    cmake -S . -B out -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$AT" -DCMAKE_INSTALL_LIBDIR=lib \
        -D{cxx,jbig,lerc,lzma,webp,old-jpeg,tiff-tools,tiff-tests,tiff-contrib,tiff-docs}=OFF
    cmake --build out -j "$(nproc)" --target install
}

main() {
    rm -rf "$AT"/{curl,tiff}* "$AT/lib"
    list_sources
    apt_sources update
    (build_curl)
    (build_tiff)
}

main
