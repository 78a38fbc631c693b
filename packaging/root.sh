#!/usr/bin/env bash
# A bare system of another release with Python and nothing else, made by debootstrap: its interpreter builds wheels for
# its Python, and the wheels are tried in it.
# usage: root.sh SUITE   into build/dist/roots/SUITE, such as trixie or jammy
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
suite=$1 roots=$PWD/build/dist/roots
[[ -e $roots/$suite/complete ]] && exit
rm -rf "${roots:?}/$suite"
mkdir -p "$roots"
readonly BARE=ca-certificates,python3-venv,python3-dev
case $suite in
    bookworm | trixie) debootstrap --variant=minbase --include="$BARE" "$suite" "$roots/$suite" >/dev/null ;;
    *) # Ubuntu's keys, and debootstrap's scripts for its newer releases, are packages of Debian 13
        packaging/root.sh trixie
        chroot "$roots/trixie" apt-get install -y -qq --no-install-recommends debootstrap ubuntu-archive-keyring >/dev/null
        mkdir -p "$roots/trixie/made"
        chroot "$roots/trixie" debootstrap --variant=minbase --components=main,universe --include="$BARE" \
            "$suite" "/made/$suite" >/dev/null
        mv "$roots/trixie/made/$suite" "$roots/$suite"
        ;;
esac
# The root's interpreter as a program of this system: the root's dynamic linker loads it.
python=$(readlink -f "$roots/$suite/usr/bin/python3")
cat >"$roots/$suite/usr/bin/outside-python3" <<RUN
#!/bin/sh
exec "$roots/$suite/lib64/ld-linux-x86-64.so.2" --argv0 "\$0" \
    --library-path "$roots/$suite/lib/x86_64-linux-gnu:$roots/$suite/usr/lib/x86_64-linux-gnu" "$python" "\$@"
RUN
chmod +x "$roots/$suite/usr/bin/outside-python3"
touch "$roots/$suite/complete"
