#!/usr/bin/env bash
# HDF5 2.0 (h5py 3.16.0) stores chunked, compressed data of libver="latest" in a newer layout message, which HDF5 1.x
# cannot read: h5py 3.12.1 (HDF5 1.14.4) opens the file, and fails at the dataset. Without libver="latest", or without a
# filter, it reads both. Seen with Python 3.11.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 3.16.0 3.12.1; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check numpy==2.2.6 "h5py==$version"
done
"$folder/3.16.0/bin/python" - "$folder" <<'PYTHON'
import sys

import h5py
import numpy as np

print("written by HDF5", h5py.version.hdf5_version)
for name in ("latest_gzip", "latest_plain", "earliest_gzip"):
    libver, filter = name.split("_")
    with h5py.File(f"{sys.argv[1]}/{name}.h5", "w", libver=libver) as file:
        compression = None if filter == "plain" else filter
        file.create_dataset("x", data=np.arange(64, dtype=np.int32), chunks=(16,), compression=compression)
PYTHON
"$folder/3.12.1/bin/python" - "$folder" <<'PYTHON'
import sys

import h5py

found = {}
for name in ("latest_gzip", "latest_plain", "earliest_gzip"):
    with h5py.File(f"{sys.argv[1]}/{name}.h5") as file:
        try:
            found[name] = int(file["x"][...].sum())
        except (KeyError, OSError) as error:
            found[name] = type(error).__name__ + ": " + str(error)
print("read by HDF5", h5py.version.hdf5_version, found)
plain = found["latest_plain"] == found["earliest_gzip"] == 2016
sys.exit(0 if plain and "version number for layout" in str(found["latest_gzip"]) else 1)
PYTHON
