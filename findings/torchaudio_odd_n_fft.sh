#!/usr/bin/env bash
# torchaudio 2.11.1: MelSpectrogram with an odd n_fft gives its bands wrong frequencies. Bin k of n samples stands for
# k * rate / n, so the last bin of an odd n is below half of the rate; melscale_fbanks spreads the n // 2 + 1 bins evenly
# from 0 to rate // 2 also then. The filters for n_fft = 51 are those for n_fft = 50. librosa takes the true frequencies.
# Python 3.11 on x86-64, with the wheels of PyPI and torch 2.15.0 (some 5 GB).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 torchaudio==2.11.1 numpy
cat >"$folder/bands.py" <<'PYTHON'
import torch
from torchaudio.transforms import MelSpectrogram

rate = 16000
even, odd = (MelSpectrogram(rate, n_fft=n, n_mels=12).mel_scale.fb for n in (50, 51))
print("the same filters:", torch.equal(even, odd))
for n in (50, 51):
    hz = torch.fft.rfftfreq(n, 1 / rate)
    said = torch.linspace(0, rate // 2, n // 2 + 1)
    print(f"n_fft {n}: last bin {hz[-1]:.0f} Hz, in the filters {said[-1]:.0f} Hz")
PYTHON
"$folder/venv/bin/python" "$folder/bands.py" | tee "$folder/seen"
diff "$folder/seen" - <<'SEEN'
the same filters: True
n_fft 50: last bin 8000 Hz, in the filters 8000 Hz
n_fft 51: last bin 7843 Hz, in the filters 8000 Hz
SEEN
