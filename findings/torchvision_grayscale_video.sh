#!/usr/bin/env bash
# torchvision 0.29.2: of transforms.v2, Grayscale and RandomGrayscale return a tv_tensors.Video as it came, in colour and
# without a word, while they change a tv_tensors.Image of the same values; the other colour ops change both. They lack a
# kernel for videos, and v2 returns values unchanged that an op lacks a kernel for. Python 3.11 on x86-64, with the wheels of PyPI and
# torch 2.15.0 (some 5 GB).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 torchvision==0.29.2 numpy
cat >"$folder/grayscale.py" <<'PYTHON'
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2

frames = torch.arange(2 * 3 * 4 * 4, dtype=torch.uint8).reshape(2, 3, 4, 4)
for op in (v2.Grayscale(3), v2.RandomGrayscale(1.0), v2.RandomInvert(1.0), v2.ColorJitter(saturation=(0, 0))):
    changed = [not torch.equal(op(kind(frames)), frames) for kind in (tv_tensors.Image, tv_tensors.Video)]
    print(type(op).__name__, *changed)
PYTHON
"$folder/venv/bin/python" "$folder/grayscale.py" | tee "$folder/seen"
diff "$folder/seen" - <<'SEEN'
Grayscale True False
RandomGrayscale True False
RandomInvert True True
ColorJitter True True
SEEN
