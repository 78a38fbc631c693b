#!/usr/bin/env bash
# safetensors.numpy 0.8.0 writes an array that is not in C order (transposed, or in Fortran order) as its memory lies,
# under the shape of the view: load_file returns other values, without a word. 0.7.0 wrote the right ones.
# np.ascontiguousarray(array) before save_file avoids it. Seen with numpy 2.4.6, Python 3.11.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
for version in 0.7.0 0.8.0; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6 "safetensors==$version"
    "$folder/$version/bin/python" - "$folder/x.safetensors" "$version" <<'PYTHON' || status=1
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

path, version = sys.argv[1:]
image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
arrays = {"planes": image.transpose(2, 0, 1), "fortran": np.asfortranarray(image), "plain": image}
save_file(arrays, path)
read = load_file(path)
equal = {name: bool(np.array_equal(read[name], array)) for name, array in arrays.items()}
print(version, equal)  # 0.7.0: all True; 0.8.0: planes and fortran False
sys.exit(0 if equal == {"planes": version == "0.7.0", "fortran": version == "0.7.0", "plain": True} else 1)
PYTHON
done
exit $status
