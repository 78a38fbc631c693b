#!/usr/bin/env bash
# soundfile 0.14.0 (libsndfile 1.2.2): of an MP3 of variable bit rate whose first frame does not say the length (no Xing
# header, as streams and `-write_xing 0` leave it), read() returns the beginning alone and says nothing. libsndfile
# divides the file's size by the first frame's bit rate and stops there: here after 14 % of the samples, since the sound
# begins loud. The same sound with a Xing header is read whole. Python 3.11 on x86-64, with the wheels of PyPI; the MP3s
# are encoded by the ffmpeg 7.0.2 that imageio-ffmpeg 0.6.0 brings.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check soundfile==0.14.0 imageio-ffmpeg==0.6.0 numpy==2.4.6
cat >"$folder/lengths.py" <<'PYTHON'
import subprocess

import imageio_ffmpeg
import numpy as np
import soundfile

rate, seconds = 44100, 20
sound = 0.01 * np.sin(0.05 * np.arange(rate * seconds))
sound[: 2 * rate] = (0.5 * np.random.default_rng(0).standard_normal(2 * rate)).clip(-1, 1)
soundfile.write("sound.wav", sound, rate)
for xing in ("1", "0"):
    subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", "sound.wav", "-q:a", "4", "-write_xing", xing,
                    "-id3v2_version", "0", f"{xing}.mp3"], check=True)  # fmt: skip
    share = len(soundfile.read(f"{xing}.mp3")[0]) / len(sound)
    print(f"write_xing {xing}: {round(100 * share)} % of the samples")
PYTHON
(cd "$folder" && venv/bin/python lengths.py) | tee "$folder/seen"
diff "$folder/seen" - <<'SEEN'
write_xing 1: 100 % of the samples
write_xing 0: 14 % of the samples
SEEN
