#!/usr/bin/env bash
# torch 2.15.0: after torch.set_default_device("cpu"), a function that ends in Tensor.item() cannot be compiled with
# fullgraph=True any more: the call raises AttributeError (None in the tensor's place), with any backend.
# Without a default device, or with fullgraph=False, it returns the number; torch 2.11.0 returns it in each case. Python
# 3.11 on x86-64, with the wheels of PyPI (some 5 GB for each release).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/sum.py" <<'PYTHON'
import sys

import torch

if sys.argv[1] == "default":
    torch.set_default_device("cpu")
total = torch.compile(lambda x: x.sum().item(), backend="eager", fullgraph=sys.argv[2] == "full")
try:
    print(total(torch.arange(4.0)))
except AttributeError as error:
    print(error)
PYTHON

found() {
    python3 -m venv "$folder/$1"
    "$folder/$1/bin/pip" install --quiet --disable-pip-version-check "torch==$1" numpy
    for case in 'none full' 'default breaks' 'default full'; do
        # shellcheck disable=SC2086 # two arguments
        printf '%s, %s: %s\n' "$1" "$case" "$("$folder/$1/bin/python" "$folder/sum.py" $case 2>/dev/null)"
    done
    rm -rf "${folder:?}/$1"
}

{ found 2.11.0 && found 2.15.0; } | tee "$folder/seen"
diff "$folder/seen" - <<'SEEN'
2.11.0, none full: 6.0
2.11.0, default breaks: 6.0
2.11.0, default full: 6.0
2.15.0, none full: 6.0
2.15.0, default breaks: 6.0
2.15.0, default full: 'NoneType' object has no attribute 'item'
SEEN
