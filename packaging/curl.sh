#!/usr/bin/env bash
# Builds libcurl.so.4 for the wheels, into FOLDER, from the distribution's source: http and https alone. Debian's own, which
# HDF5 loads too, brings LDAP, Kerberos, SSH and GnuTLS: half of a wheel's bytes.
#
#   curl.sh FOLDER
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
    printf 'curl.sh: %s\n' "$*" >&2
    exit 1
}

main() {
    local source protocol version installed off=()
    rm -rf "$AT"/curl* "$AT/lib"
    for protocol in dict file ftp gopher imap ldap ldaps mqtt pop3 rtsp smb smtp telnet tftp ntlm manual; do
        off+=("--disable-$protocol")
    done
    list_sources
    apt_sources update
    (cd "$AT" && apt_sources source --only-source curl) # with Debian's patches applied
    source=$(compgen -G "$AT/curl-[0-9]*/")
    cd "$source"
    version=$(dpkg-parsechangelog -S Version) installed=$(dpkg-query -W -f='${Version}' libcurl4)
    [[ $version == "$installed" ]] || fail "expected libcurl4 $version on this machine, got $installed; apt-get upgrade"
    sed -i 's/FLAVOUR@3/FLAVOUR@4/' lib/libcurl.vers.in # as HDF5 expects it; Debian's patch for GnuTLS made it 3
    grep -q 'FLAVOUR@4' lib/libcurl.vers.in || fail "expected a version of symbols in libcurl.vers.in, got none"
    ./configure --prefix="$AT" --libdir="$AT/lib" --disable-static --enable-versioned-symbols --with-openssl --with-zlib \
        --without-{zstd,brotli,libpsl,libidn2,libssh2,librtmp,nghttp2,gssapi} "${off[@]}"
    make -s -j "$(nproc)" install
}

main
