#!/usr/bin/env bash
# litdata 0.2.76: reading a local data set that was written with compression_level="chunk" replaces the compressed chunks by
# unpacked ones. The user's files are gone, the folder grows to the unpacked size, and index.json still names the old files.
# Python 3.11 on x86-64, with the wheels of PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check litdata==0.2.76 zstd==1.5.7.2 torch==2.15.0 numpy==2.4.6
cat >"$folder/read.py" <<'PYTHON'
import json
import sys
from pathlib import Path

import numpy as np
from litdata import StreamingDataset, optimize

FOLDER = Path(sys.argv[1])


def sample(number):
    return {"values": np.full(1000, number), "label": number}


def files():
    return sorted(path.name for path in FOLDER.glob("*.bin"))


if __name__ == "__main__":
    optimize(sample, list(range(3)), output_dir=str(FOLDER), chunk_bytes=10_000, compression="zstd",
             compression_level="chunk", num_workers=1, verbose=False)
    written = files()
    data = StreamingDataset(str(FOLDER))
    read = [data[i]["label"] for i in range(len(data))]
    index = [chunk["filename"] for chunk in json.loads((FOLDER / "index.json").read_text())["chunks"]]
    Path(sys.argv[2]).write_text(f"written: {written}\nafter reading {read}: {files()}\nin the index: {index}\n")
PYTHON
"$folder/venv/bin/python" "$folder/read.py" "$folder/data" "$folder/seen" >"$folder/log" 2>&1
diff "$folder/seen" - <<'SEEN'
written: ['chunk-0-0.zstd.bin', 'chunk-0-1.zstd.bin', 'chunk-0-2.zstd.bin']
after reading [0, 1, 2]: ['chunk-0-0.bin', 'chunk-0-1.bin', 'chunk-0-2.bin']
in the index: ['chunk-0-0.zstd.bin', 'chunk-0-1.zstd.bin', 'chunk-0-2.zstd.bin']
SEEN
cat "$folder/seen"
