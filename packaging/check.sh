#!/usr/bin/env bash
# Tries build/dist/VERSION where nothing is installed but Python: in bare roots of Debian and Ubuntu, made by debootstrap.
# Needs root and the network.
#
#   check.sh [--engine TORCH_RELEASE] [SYSTEM...]    # default: jammy bookworm noble trixie forky
#
# --engine: watches and trains as well, with that torch.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSION=$(sed -nE 's/^project\(stoker VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
readonly VERSION AT=$PWD/build/dist
readonly PACKAGES=python3,python3-venv,ca-certificates # of these, certificates serve pip

say() { printf 'check: %s\n' "$*" >&2; }

# root SYSTEM: the folder of its root.
root() {
    local system=$1 at=$AT/roots/$1 keyring='' options=() script=sid
    if [[ $system == jammy || $system == noble ]]; then
        keyring=$(ubuntu_keyring)
        options=(--components=main,universe --keyring="$keyring") script=gutsy
    fi
    if [[ ! -e $at/ready ]]; then
        say "making a root of $system"
        rm -rf "$at"
        mkdir -p "$AT/roots"
        debootstrap --variant=minbase --force-check-gpg --include="$PACKAGES" "${options[@]}" "$system" "$at" "" \
            "/usr/share/debootstrap/scripts/$script" >"$at.log" 2>&1 ||
            { tail -n 5 "$at.log" >&2 && exit 1; }
        touch "$at/ready"
    fi
    echo "$at"
}

# Ubuntu's keys, which Debian 12 does not have and Debian 13 does.
ubuntu_keyring() {
    local keys=usr/share/keyrings/ubuntu-archive-keyring.gpg trixie
    trixie=$(root trixie)
    if [[ ! -e $trixie/$keys ]]; then
        inside "$trixie" sh -c 'apt-get -qq update && cd /opt && apt-get -qq download ubuntu-keyring &&
            dpkg-deb -x ubuntu-keyring_*.deb /' >&2
    fi
    echo "$trixie/$keys"
}

# inside ROOT COMMAND...: in another mount namespace, with this machine's names and certificates.
inside() {
    local at=$1
    shift
    cp -L /etc/resolv.conf "$at/etc/resolv.conf"
    cp -L /etc/ssl/certs/ca-certificates.crt "$at/etc/ssl/certs/ca-certificates.crt"
    mkdir -p "$at/dist" "$at/wheels"
    unshare --mount bash -c 'mount -t proc proc "$1/proc" && mount -t tmpfs none "$1/dev/shm" && mount --bind "$2" "$1/dist" &&
        mount --bind "$3" "$1/wheels" && shift 3 && exec chroot "$@"' _ "$at" "$AT/$VERSION" "$AT/wheels" \
        "$at" env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 "$@"
}

# Into build/dist/wheels, so that the download does not count as installation.
download_torch() {
    inside "$1" sh -c 'python3 -m venv /opt/venv && /opt/venv/bin/pip download --quiet --dest /wheels "torch==$1.*" numpy pillow' \
        _ "$2"
}

main() {
    local torch='' system at
    if [[ ${1:-} == --engine ]]; then
        torch=$2
        shift 2
    fi
    mkdir -p "$AT/wheels"
    [[ $# -gt 0 ]] || set -- jammy bookworm noble trixie forky
    for system in "$@"; do
        at=$(root "$system")
        [[ -z $torch ]] || download_torch "$at" "$torch"
        cp packaging/try.sh packaging/try_train.py "$at/opt"
        say "$system: $(inside "$at" python3 --version)"
        inside "$at" bash /opt/try.sh ${torch:+"$torch"}
    done
}

main "$@"
