#!/usr/bin/env bash
# Tries dist/ in a bare system as a new user would: from nothing to a loader, a verdict of `watch` and a trained model.
# Prints the seconds that each step took; downloads come first and do not count.
# usage: check.sh SUITE [TORCH]   such as: check.sh trixie 2.15.0; without TORCH the parts that need none
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
suite=$1 torch=${2:-} root=build/dist/roots/$1
packaging/root.sh "$suite"
rm -rf "$root/try"
mkdir -p "$root/try/dist"
cp dist/*.whl packaging/try/* "$root/try/dist/"
cp /etc/resolv.conf "$root/etc/resolv.conf"
if ! mountpoint -q "$root/proc"; then mount -t proc proc "$root/proc"; fi
if ! mountpoint -q "$root/dev"; then mount --bind /dev "$root/dev"; fi
trap 'umount "$root/proc" "$root/dev"' EXIT
inside() { chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/try/venv/bin:/usr/bin:/bin "$@"; }
timed() {
    local name=$1 start=$SECONDS
    shift
    "$@" >"$root/try/log" 2>&1 || { tail -n 30 "$root/try/log" >&2 && exit 1; }
    printf '%s: %s: %d s\n' "$suite" "$name" "$((SECONDS - start))"
}

inside python3 -m venv /try/venv
if [[ -n $torch ]]; then
    inside pip download --quiet --dest /try/wheels "torch==$torch" numpy
    timed "pip install torch" inside pip install --quiet --no-index --find-links /try/wheels "torch==$torch" numpy
fi
timed "pip install stoker" inside pip install --quiet --no-index --find-links /try/dist stoker
timed "synth, inspect, pack, loader" inside sh -e /try/dist/pipeline.sh
if [[ -n $torch ]]; then
    timed "watch" inside sh -e /try/dist/watch.sh
    timed "pip install stoker-engine" inside pip install --quiet --no-index --find-links /try/dist --no-deps stoker-engine
    timed "train on a folder" inside sh -e /try/dist/train.sh
fi
