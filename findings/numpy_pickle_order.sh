#!/usr/bin/env bash
# NumPy 2.3 and later pickle an array whose axes are permuted in protocol 5 with the order "K" and the axes as a fifth
# argument of numpy._core.numeric._frombuffer; NumPy 2.2 cannot read such a pickle (TypeError). Protocol 4 is not
# concerned. Python 3.14 writes protocol 5 by default, so a data set that is written there is lost for older readers.
# Seen with numpy 2.4.6 and 2.2.6, Python 3.11.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 2.4.6 2.2.6; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "numpy==$version"
done
"$folder/2.4.6/bin/python" - "$folder" <<'PYTHON'
import pickle
import sys

import numpy as np

image = np.arange(24, dtype=np.uint8).reshape(2, 3, 4).transpose(2, 0, 1)  # as an image of planes
for protocol in (4, 5):
    with open(f"{sys.argv[1]}/{protocol}.pkl", "wb") as file:
        pickle.dump(image, file, protocol=protocol)
PYTHON
"$folder/2.2.6/bin/python" - "$folder" <<'PYTHON'
import pickle
import sys


def read(protocol):
    with open(f"{sys.argv[1]}/{protocol}.pkl", "rb") as file:
        try:
            return pickle.load(file).shape
        except TypeError as error:
            return f"TypeError: {error}"


old, new = read(4), read(5)
print("protocol 4:", old)  # (4, 2, 3)
print("protocol 5:", new)  # TypeError: _frombuffer() takes 4 positional arguments but 5 were given
sys.exit(0 if old == (4, 2, 3) and "_frombuffer" in new else 1)
PYTHON
