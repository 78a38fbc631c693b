#!/usr/bin/env bash
# Builds libcurl.so.4 for the wheels, into FOLDER, from the distribution's source: http and https alone. Debian's own, which
# HDF5 loads too, brings LDAP, Kerberos, SSH and GnuTLS: half of a wheel's bytes.
#
#   curl.sh FOLDER
set -euo pipefail
mkdir -p "$1"
AT=$(realpath "$1")
readonly AT

# apt-get with deb-src entries and its own lists, so that the machine's settings stay as they are.
apt_sources() {
    apt-get -qq -o Dir::Etc::sourcelist="$AT/apt/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$AT/apt/lists" \
        -o Dir::Cache="$AT/apt/cache" -o APT::Sandbox::User=root "$@"
}

list_sources() {
    mkdir -p "$AT"/apt/{lists,cache}/partial
    . /etc/os-release
    local archive=http://deb.debian.org/debian security=http://deb.debian.org/debian-security
    [[ $ID != ubuntu ]] || archive=http://archive.ubuntu.com/ubuntu security=http://archive.ubuntu.com/ubuntu
    printf 'deb-src %s main\n' "$archive $VERSION_CODENAME" "$security $VERSION_CODENAME-security" >"$AT/apt/sources.list"
}

main() {
    local source protocol off=()
    for protocol in dict file ftp gopher imap ldap ldaps mqtt pop3 rtsp smb smtp telnet tftp ntlm manual; do
        off+=("--disable-$protocol")
    done
    list_sources
    apt_sources update
    (cd "$AT" && apt_sources source --only-source curl) # with Debian's patches applied
    source=$(compgen -G "$AT/curl-[0-9]*/")
    cd "$source"
    sed -i 's/FLAVOUR@3/FLAVOUR@4/' lib/libcurl.vers.in # as HDF5 expects it; Debian's patch for GnuTLS made it 3
    ./configure --prefix="$AT" --libdir="$AT/lib" --disable-static --enable-versioned-symbols --with-openssl --with-zlib \
        --without-{zstd,brotli,libpsl,libidn2,libssh2,librtmp,nghttp2,gssapi} "${off[@]}"
    make -s -j "$(nproc)" install
}

[[ -e $AT/lib/libcurl.so.4 ]] || main
