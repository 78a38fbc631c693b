#!/usr/bin/env bash
# torchvision 0.29.2: transforms.v2's resize of a uint16 tensor cuts off the fraction of each value, but rounds those of
# uint8, int16 and int32; and bicubic values beyond the type wrap around, so pixels next to an edge between black and
# white come out white and black (uint8 values are limited). gaussian_blur and rotate of uint16 round. Python 3.11 on
# x86-64, with the wheels of PyPI and torch 2.15.0 (some 5 GB).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 torchvision==0.29.2 numpy
cat >"$folder/resize.py" <<'PYTHON'
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional

ramp = torch.arange(24).reshape(1, 4, 6) * 7
edge = torch.tensor([0, 0, 0, 0, 60000, 60000, 60000, 60000]).reshape(1, 1, 8)
for name in ("int32", "uint16"):
    dtype = getattr(torch, name)
    small = functional.resize(ramp.to(dtype), [2, 4], antialias=True)
    large = functional.resize(edge.to(dtype), [1, 16], interpolation=InterpolationMode.BICUBIC, antialias=True)
    print(name, small[0, 0].tolist(), large[0, 0, 5:10].tolist())
PYTHON
"$folder/venv/bin/python" "$folder/resize.py" | tee "$folder/seen"
diff "$folder/seen" - <<'SEEN'
int32 [33, 42, 53, 62] [-1406, -4219, 12188, 47812, 64219]
uint16 [32, 42, 52, 62] [64130, 61318, 12187, 47812, 64218]
SEEN
