#!/usr/bin/env bash
# pyarrow 26.0.1: FixedShapeTensorArray.from_numpy_ndarray of a view with moved axes stores the inverse of the permutation
# that the format defines (side i of a tensor is the stored side permutation[i]). For two swapped axes both are the same;
# for channels moved first or last, each reader, to_numpy_ndarray included, gives tensors with the axes in another order.
# Python 3.11 on x86-64, with the wheels of PyPI.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 numpy==2.4.6
cat >"$folder/view.py" <<'PYTHON'
import numpy as np
import pyarrow as pa

values = np.arange(2 * 3 * 4 * 5, dtype=np.int32).reshape(2, 3, 4, 5)
for name, axes in (("swapped", (0, 2, 1, 3)), ("channels last", (0, 2, 3, 1)), ("channels first", (0, 3, 1, 2))):
    view = values.transpose(axes)
    array = pa.FixedShapeTensorArray.from_numpy_ndarray(view)
    kind, back = array.type, array.to_numpy_ndarray()
    sides = tuple(kind.shape[side] for side in kind.permutation)
    print(f"{name}: {view.shape[1:]} is stored with sides {sides}, and read as {back.shape[1:]}")
PYTHON
"$folder/venv/bin/python" "$folder/view.py" | tee "$folder/seen"
diff "$folder/seen" - <<'SEEN'
swapped: (4, 3, 5) is stored with sides (4, 3, 5), and read as (4, 3, 5)
channels last: (4, 5, 3) is stored with sides (5, 3, 4), and read as (5, 3, 4)
channels first: (5, 3, 4) is stored with sides (4, 5, 3), and read as (4, 5, 3)
SEEN
