#!/usr/bin/env bash
# Pillow 13.0.0: the brightest values of a JPEG 2000 of 10 to 16 bits are black. For RGB it adds half of a step before it
# shifts a value to 8 bits, and keeps the lower byte of the sum: 256 becomes 0. White of 10 bits (1022 and 1023), of 12
# bits (from 4088 on) and of 16 bits is lost, without an error. The file holds the right values.
# Python 3.11 on x86-64, with the wheels of PyPI; imagecodecs writes the files.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pillow==13.0.0 imagecodecs==2026.3.6 numpy
cat >"$folder/white.py" <<'PYTHON'
import io

import imagecodecs
import numpy as np
from PIL import Image

for bits in (10, 12, 16):
    top = 2**bits - 1
    ramp = np.linspace(0, top, 64 * 64).astype(np.uint16).reshape(64, 64)
    rgb = np.stack([ramp] * 3, -1)
    data = imagecodecs.jpeg2k_encode(rgb, level=0, bitspersample=bits, reversible=True, codecformat="jp2")
    kept = np.array_equal(imagecodecs.jpeg2k_decode(data), rgb)
    image = np.array(Image.open(io.BytesIO(data)))
    black = rgb[(image == 0) & (rgb > top // 2)]
    print(f"{bits} bits, stored without loss: {kept}; in Pillow {top} is {image[-1, -1, 0]}, black from {black.min()} on")
PYTHON
"$folder/venv/bin/python" "$folder/white.py" | tee "$folder/seen"
diff "$folder/seen" - <<'SEEN'
10 bits, stored without loss: True; in Pillow 1023 is 0, black from 1022 on
12 bits, stored without loss: True; in Pillow 4095 is 0, black from 4088 on
16 bits, stored without loss: True; in Pillow 65535 is 0, black from 65422 on
SEEN
