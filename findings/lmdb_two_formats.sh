#!/usr/bin/env bash
# LMDB 1.0 has another file format: the page header is 8 bytes longer, so the magic number 0xBEEFC0DE of the first
# page is at byte 24 instead of 16. The Python package lmdb 3.0.0 holds both engines: lmdb.open(lib_version=0|1) chooses
# the format of a new database, and it reads either. A program with LMDB 0.9 does not know the newer one (lmdb 1.7.5:
# InvalidError). Seen on Linux, Python 3.11.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 3.0.0 1.7.5; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "lmdb==$version"
done
"$folder/3.0.0/bin/python" - "$folder" <<'PYTHON'
import sys

import lmdb

for version in (0, 1):
    path = f"{sys.argv[1]}/db{version}"
    with lmdb.open(path, lib_version=version) as env, env.begin(write=True) as txn:
        txn.put(b"key", b"value")
    data = open(f"{path}/data.mdb", "rb").read(64)
    at = data.find(bytes.fromhex("dec0efbe"))
    with lmdb.open(path, readonly=True) as env, env.begin() as txn:
        print(f"format {version}: magic number at byte {at}, read: {txn.get(b'key')}")
    assert at == (24 if version else 16)
PYTHON
"$folder/1.7.5/bin/python" - "$folder" <<'PYTHON'
import sys

import lmdb

with lmdb.open(f"{sys.argv[1]}/db0", readonly=True) as env, env.begin() as txn:
    assert txn.get(b"key") == b"value"
try:
    lmdb.open(f"{sys.argv[1]}/db1", readonly=True)
except lmdb.Error as error:
    print("LMDB 0.9 of format 1:", type(error).__name__)  # InvalidError
else:
    sys.exit("LMDB 0.9 reads format 1 now")
PYTHON
