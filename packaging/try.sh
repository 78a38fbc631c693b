#!/usr/bin/env bash
# Uses the wheels as a new user does, in a root of check.sh: install, inspect, pack, a loader; with torch also watch and train.
#
#   try.sh [TORCH_RELEASE]
set -euo pipefail
rm -rf /try
mkdir /try
cd /try
PATH=/try/venv/bin:$PATH
start=$SECONDS
python3 -m venv venv
pip install --quiet --find-links /wheels /dist/stoker-*.whl numpy pillow
stoker --version
stoker synth photos photos --count 400 --seed 1 >synth.log
stoker inspect photos | head -n 3
python - <<'PYTHON'
import stoker

stoker.pack("photos", "photos.stk", codec="dct")
ops = [stoker.transforms.RandomResizedCrop(64), stoker.transforms.RandomHorizontalFlip()]
before, after = (stoker.Loader(data, 32, ops=ops, seed=5) for data in ("photos", "photos.stk"))
for one, other in zip(before, after, strict=True):
    assert one["image"].shape[1:] == (3, 64, 64) and (one["image"] == other["image"]).all()
PYTHON
echo "pipeline: $((SECONDS - start)) s"
[[ $# -gt 0 ]] || exit 0
start=$SECONDS
pip install --quiet --no-index --find-links /wheels --find-links /dist "torch==$1.*" stoker-engine
echo "torch and the engine, installed from files: $((SECONDS - start)) s"
start=$SECONDS
stoker doctor | grep -i torch
python -m stoker watch /opt/try_train.py
stoker recipe imagefolder_resnet18 >photos.toml
stoker train photos.toml --set data.train=photos --set train.epochs=1 --out run
stoker diagnose run
echo "a verdict and a model: $((SECONDS - start)) s"
