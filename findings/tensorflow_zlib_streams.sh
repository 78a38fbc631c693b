#!/usr/bin/env bash
# TensorFlow 2.21.0: TFRecordDataset reads a file of two concatenated gzip members to its end, but of two concatenated zlib
# streams the first alone, without an error: the records of the second are lost.
# Python 3.11 on x86-64, with the wheels of PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0
cat >"$folder/streams.py" <<'PYTHON'
import sys
from pathlib import Path

import tensorflow as tf

for kind in ("GZIP", "ZLIB"):
    parts = []
    for number in range(2):
        path = f"{sys.argv[1]}/{kind}-{number}"
        with tf.io.TFRecordWriter(path, kind) as writer:
            writer.write(b"record %d" % number)
        parts.append(Path(path).read_bytes())
    both = Path(sys.argv[1]) / kind
    both.write_bytes(b"".join(parts))
    print(kind, [record.numpy() for record in tf.data.TFRecordDataset(str(both), compression_type=kind)])
PYTHON
TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/streams.py" "$folder" 2>/dev/null | tee "$folder/seen"
diff "$folder/seen" - <<'SEEN'
GZIP [b'record 0', b'record 1']
ZLIB [b'record 0']
SEEN
