#!/usr/bin/env bash
# pyarrow 26.0.1: data_page_size does not bound the pages of large values. write_table looks at a page's size after each
# 1,024 values only (write_batch_size), so pages of images have 100 MB instead of 1 MiB, and to read the first image takes
# one hundred megabytes of the file. Fewer values in a batch make pages of the wanted size.
# Python 3.11 on x86-64, with the wheel of PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
cat >"$folder/pages.py" <<'PYTHON'
import io

import pyarrow as pa
import pyarrow.parquet as pq


class Counted(io.BytesIO):
    """Counts the bytes that are read."""

    count = 0

    def read(self, size=-1):
        part = super().read(size)
        self.count += len(part)
        return part


table = pa.table({"image": [bytes([i % 256]) * 100_000 for i in range(1500)]})
for settings in ({}, {"data_page_size": 65536}, {"write_batch_size": 8}):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, use_dictionary=False, compression="none", **settings)
    file = Counted(sink.getvalue().to_pybytes())
    batches = pq.ParquetFile(file, buffer_size=65536, pre_buffer=False).iter_batches(batch_size=1)
    next(batches)
    print(f"{settings}: the first value of 100 kB takes {file.count / 1e6:.0f} MB of the file")
PYTHON
"$folder/venv/bin/python" "$folder/pages.py" | tee "$folder/seen"
diff "$folder/seen" - <<'SEEN'
{}: the first value of 100 kB takes 102 MB of the file
{'data_page_size': 65536}: the first value of 100 kB takes 102 MB of the file
{'write_batch_size': 8}: the first value of 100 kB takes 2 MB of the file
SEEN
