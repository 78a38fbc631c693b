#!/usr/bin/env bash
# litdata 0.2.76 cannot read tuples that it wrote with compression="zstd" and the default level. The index says that
# samples are compressed in batches, but the chunks of tuples of bytes and numbers have no frames, and reading refuses them.
# Python 3.11 on x86-64, with the wheels of PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check litdata==0.2.76 zstd==1.5.7.2 torch==2.15.0 numpy==2.4.6
cat >"$folder/tuples.py" <<'PYTHON'
import json
import sys
from pathlib import Path

from litdata import StreamingDataset, optimize


def sample(number):
    return bytes(100), number


if __name__ == "__main__":
    optimize(sample, list(range(5)), output_dir=sys.argv[1], chunk_bytes=10_000, compression="zstd", num_workers=1,
             verbose=False)
    config = json.loads((Path(sys.argv[1]) / "index.json").read_text())["config"]
    begin = (Path(sys.argv[1]) / "chunk-0-0.bin").read_bytes()[:6]
    try:
        result = f"read {StreamingDataset(sys.argv[1])[0]}"
    except RuntimeError as error:
        result = f"RuntimeError: {'LDFZ01' in str(error)}"
    text = f"index: {config['compression']}, {config['compression_level']}; framed: {begin == b'LDFZ01'}; {result}\n"
    Path(sys.argv[2]).write_text(text)
PYTHON
"$folder/venv/bin/python" "$folder/tuples.py" "$folder/data" "$folder/seen" >"$folder/log" 2>&1
diff "$folder/seen" - <<'SEEN'
index: zstd, batch; framed: False; RuntimeError: True
SEEN
cat "$folder/seen"
