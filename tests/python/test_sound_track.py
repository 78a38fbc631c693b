# The sound of videos and M4A files: samples against those of FFmpeg's program, and the same bars as other sounds.
import csv
import io
import re
import shutil
import subprocess
import tarfile
from functools import partial

import numpy as np
import pytest
import stoker as package
import torch
from sounds import in_order, waveforms_at
from stoker import transforms as ours

FFMPEG = shutil.which("ffmpeg")
if FFMPEG is None:
    pytest.skip("needs ffmpeg, which makes the files and is their reference", allow_module_level=True)

RATE, SECONDS = 44100, 3.0
waveforms = partial(waveforms_at, RATE)
PICTURES = ["-f", "lavfi", "-i", f"testsrc=d={SECONDS}:s=64x48:r=10"]
KINDS = {  # ending, options of ffmpeg
    "aac_m4a": ("m4a", ["-c:a", "aac"]),  # with bands of noise, which FFmpeg's encoder likes
    "aac_mp4": ("mp4", ["-c:v", "mpeg4", "-c:a", "aac", "-aac_pns", "0"]),
    "aac_mov": ("mov", ["-c:v", "mpeg4", "-c:a", "aac", "-aac_pns", "0", "-b:a", "96k"]),
    "aac_main": ("mp4", ["-c:a", "aac", "-profile:a", "aac_main"]),
    "fragments": ("mp4", ["-c:a", "aac", "-aac_pns", "0", "-movflags", "+frag_keyframe+empty_moov", "-frag_duration", "500000"]),
    "aac_mkv": ("mkv", ["-c:v", "mpeg4", "-c:a", "aac", "-aac_pns", "0"]),
    "opus_webm": ("webm", ["-c:a", "libopus", "-b:a", "96k"]),
    "opus_short": ("mkv", ["-c:a", "libopus", "-b:a", "96k", "-frame_duration", "5"]),
    "opus_speech": ("mkv", ["-c:a", "libopus", "-application", "voip", "-b:a", "20k"]),
    "opus_mp4": ("mp4", ["-c:a", "libopus"]),
    "vorbis_webm": ("webm", ["-c:a", "libvorbis"]),
    "flac_mkv": ("mkv", ["-c:v", "mpeg4", "-c:a", "flac"]),
    "flac24": ("mkv", ["-c:a", "flac", "-sample_fmt", "s32"]),
    "alac_m4a": ("m4a", ["-c:a", "alac"]),
    "pcm_mkv": ("mkv", ["-c:v", "mpeg4", "-c:a", "pcm_s16le"]),
    "pcm24_mov": ("mov", ["-c:a", "pcm_s24be"]),
    "pcm_double": ("mkv", ["-c:a", "pcm_f64le"]),
    "pcm8_avi": ("avi", ["-c:v", "mpeg4", "-c:a", "pcm_u8"]),
    "adpcm_avi": ("avi", ["-c:a", "adpcm_ima_wav"]),
    "mp3_avi": ("avi", ["-c:v", "mpeg4", "-c:a", "libmp3lame", "-q:a", "4"]),
    "mp3_low": ("mkv", ["-c:a", "libmp3lame", "-b:a", "8k", "-ar", "16000"]),
    "mp2_mkv": ("mkv", ["-c:a", "mp2"]),
    "ac3_mkv": ("mkv", ["-c:a", "ac3"]),
    "wma_mkv": ("mkv", ["-c:a", "wmav2"]),
}


def tone(n, samples=int(RATE * SECONDS)):
    t = np.arange(samples) / RATE
    left = np.sin(2 * np.pi * (200 + 90 * n) * t * (1 + 0.1 * t)) * 0.4
    noise = 0.2 * np.random.default_rng(n).standard_normal(samples) * (np.sin(5 * t) > 0)
    return np.stack([left, 0.3 * left + noise], 1).astype("<f4")


def ffmpeg(*arguments, given=None):
    return subprocess.run([FFMPEG, "-v", "error", "-y", *map(str, arguments)], input=given, capture_output=True, check=True).stdout


def write(path, kind, n=0, channels=2, seconds=SECONDS):
    _, options = KINDS[kind]
    pictures = PICTURES if "-c:v" in options else []
    sound = ["-f", "f32le", "-ar", RATE, "-ac", 2, "-i", "-"]
    try:
        ffmpeg(*sound, *pictures, "-ac", channels, *options, path, given=tone(n, int(RATE * seconds)).tobytes())
    except subprocess.CalledProcessError as error:
        pytest.skip(f"ffmpeg without {kind}: {error.stderr.decode()[-200:]}")
    return path


def reference(path, channels=2):
    """All samples (C, T), by FFmpeg's program."""
    return np.frombuffer(ffmpeg("-i", path, "-map", "0:a:0", "-f", "f32le", "-"), "<f4").reshape(-1, channels).T


@pytest.fixture
def folder(tmp_path):
    def make(kind="aac_mp4", count=2, **options):
        for n in range(count):
            place = tmp_path / "data" / f"class{n % 2}"
            place.mkdir(parents=True, exist_ok=True)
            write(place / f"s{n}.{KINDS[kind][0]}", kind, n, **options)
        return tmp_path / "data"

    return make


def rate_of(kind):
    return 48000 if kind.startswith("opus") else 16000 if kind == "mp3_low" else RATE


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_ffmpegs(folder, kind):
    data = folder(kind)
    for path, sound in zip(in_order(data), waveforms(data, sample_rate=rate_of(kind)), strict=True):
        wanted = reference(path)
        assert sound.shape == wanted.shape
        assert (sound == wanted).all()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "aac_m4a"])
def test_any_part_is_that_of_the_whole(folder, kind):
    data = folder(kind)
    rate = rate_of(kind)
    whole = waveforms(data, sample_rate=rate)
    length = rate // 10
    places = set()
    for batch in package.Loader(data, 2, sample_rate=rate, seconds=0.1, clips_per_video=12, framework="torch"):
        for key, part in zip(batch["key"], batch["image"][:, :, 0].numpy(), strict=True):
            sound = whole[in_order(data).index(data / key)]
            windows = np.lib.stride_tricks.sliding_window_view(sound[1], length)
            starts = np.flatnonzero((windows[:, 100:116] == part[1, 100:116]).all(1))
            equal = [s for s in starts if (sound[:, s : s + length] == part).all()]
            assert equal, kind
            places.add(equal[0])
    assert len(places) > 12
    spread = waveforms(data, sample_rate=rate, seconds=0.1, clips_per_video=2)
    assert (spread[0] == whole[0, :, :length]).all()
    assert (spread[1] == whole[0, :, -length:]).all()


# Its decoder fills bands with the numbers of a generator, which begins with the first packet that is decoded.
def test_bands_of_noise_are_the_same_each_time(folder):
    data = folder("aac_m4a")
    whole = waveforms(data)
    options = {"seconds": 0.2, "clips_per_video": 9}
    parts = waveforms(data, **options)
    assert (parts == waveforms(data, workers=0, **options)).all()
    for part, sound in ((parts[8], whole[0]), (parts[17], whole[1])):
        end = sound[:, -part.shape[1] :]
        assert 0 < np.abs(part - end).mean() < 0.5 * np.abs(end).mean()


@pytest.mark.parametrize("ending", ["mp4", "mkv"])
def test_what_a_cut_copy_hides(tmp_path, ending):
    """An edit list of the first packets' samples; in Matroska no such list."""
    (tmp_path / "data/class").mkdir(parents=True)
    whole = write(tmp_path / "s.mp4", "aac_mp4")
    ffmpeg("-ss", 0.777, "-i", whole, "-t", 1.5, "-c", "copy", tmp_path / f"data/class/s.{ending}")
    wanted = reference(tmp_path / f"data/class/s.{ending}")
    assert (waveforms(tmp_path / "data")[0] == wanted).all()
    middle = waveforms(tmp_path / "data", seconds=0.25)[0]
    begin = int(0.5 * (wanted.shape[1] - RATE // 4 + 1))
    assert (middle == wanted[:, begin : begin + RATE // 4]).all()


def test_the_first_of_two_tracks(tmp_path):
    (tmp_path / "data/class").mkdir(parents=True)
    files = [write(tmp_path / f"{n}.mkv", "pcm_mkv", n) for n in range(2)]
    ffmpeg("-i", files[0], "-i", files[1], "-map", "0", "-map", "1:a", "-c", "copy", tmp_path / "data/class/s.mkv")
    assert (waveforms(tmp_path / "data")[0] == reference(files[0])).all()


def test_kinds_rates_and_channels_become_one(folder, tmp_path):
    soxr = pytest.importorskip("soxr")
    soundfile = pytest.importorskip("soundfile")
    data = folder("aac_mp4", count=2)
    write(data / "class0" / "s4.m4a", "aac_m4a", 4, channels=1)
    write(data / "class0" / "s5.webm", "opus_webm", 5)
    soundfile.write(data / "class1" / "s6.flac", tone(6), RATE)
    found = waveforms(data, sample_rate=16000, seconds=1.0, channels=1, clips_per_video=2)[::2]
    for path, sound in zip(in_order(data), found, strict=True):
        rate = 48000 if path.suffix == ".webm" else RATE
        wanted = reference(path, 1 if path.suffix == ".m4a" else 2).mean(0)[:rate]
        assert sound.shape == (1, 16000)
        assert np.abs(sound[0] - soxr.resample(wanted, rate, 16000)).max() < 1e-5


def test_workers_resuming_and_the_cache_change_nothing(folder):
    data = folder("aac_m4a", count=4)
    options = {"sample_rate": 16000, "seconds": 0.5, "seed": 2, "framework": "torch", "channels": 1,
               "ops": [ours.Gain((-3, 3)), ours.MelSpectrogram(n_mels=20), ours.AmplitudeToDB()]}  # fmt: skip
    first = [[b["image"].clone() for b in loader] for loader in [package.Loader(data, 2, workers=0, **options)] for _ in range(2)]
    for other in ({"workers": 3}, {"cache": "ram"}, {"cache": "disk"}):
        loader = package.Loader(data, 2, **options, **other)
        for epoch in first:
            assert all((a == b["image"]).all() for a, b in zip(epoch, loader, strict=True))
    loader = package.Loader(data, 2, **options)
    next(iter(loader))
    resumed = package.Loader(data, 2, **options)
    resumed.load_state_dict(loader.state_dict())
    assert (next(iter(resumed))["image"] == first[0][1]).all()


DAMAGE = {  # kind of the file, a part of the reason
    "no track": ("aac_mp4", "no sound track"),
    "cut mp4": ("aac_mp4", "as the file's header says"),
    "cut mkv": ("flac_mkv", "as the file's header says"),
    "cut avi": ("mp3_avi", "as the file's header says"),
    "zeros": ("flac_mkv", r"at [12]\.\d{3} s"),
    "other bits": ("flac_mkv", r"at [12]\.\d{3} s"),
    "zeros of aac": ("aac_m4a", r"at [12]\.\d{3} s"),
    "not finite": ("pcm_double", "finite"),
    "empty": ("aac_mp4", ""),
    "header alone": ("aac_mp4", ""),
    "text": ("aac_mp4", "a sound"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_tracks_are_bad_samples(folder, damage):
    kind, reason = DAMAGE[damage]
    data = folder(kind, count=4)
    path = data / "class1" / f"s1.{KINDS[kind][0]}"
    content = bytearray(path.read_bytes())
    half = len(content) // 2
    if damage == "no track":
        ffmpeg("-i", path, "-an", "-c", "copy", data / "other.mp4")
        content = (data / "other.mp4").read_bytes()
        (data / "other.mp4").unlink()
    elif damage.startswith("cut"):
        content = content[:half]
    elif damage.startswith("zeros"):
        content[half : half + 3000] = bytes(3000)
    elif damage == "other bits":
        content[half] ^= 0x10
    elif damage == "not finite":
        content[half : half + 64] = b"\xff" * 64
    else:
        content = {"empty": b"", "header alone": b"\0\0\0\x20ftypisom" + bytes(100), "text": b"no video\n" * 100}[damage]
    path.write_bytes(content)
    loader = package.Loader(data, 2, sample_rate=RATE, seconds=SECONDS, shuffle=False, bad_samples=1)
    with pytest.warns(package.BadSampleWarning):
        list(loader)
    (bad,) = loader.bad_samples.values()
    assert bad.key == f"class1/{path.name}"
    assert re.search(reason, bad.reason), bad.reason


def test_damage_behind_the_part_is_not_read(folder):
    data = folder("flac_mkv")
    first = waveforms(data, seconds=0.5, clips_per_video=2)[::2]
    for path in in_order(data):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)
    loader = package.Loader(data, 2, sample_rate=RATE, seconds=0.5, clips_per_video=2, shuffle=False, framework="torch")
    found = torch.cat([batch["image"].clone() for batch in loader])[::2, :, 0].numpy()
    assert (found == first).all() and not loader.bad_samples


def test_a_file_is_a_video_or_a_sound(folder):
    data = folder("aac_mp4")
    frames = next(iter(package.Loader(data, 2, frames=4, shuffle=False, framework="torch")))["image"]
    assert frames.shape[-2:] == (48, 64)
    assert waveforms(data, seconds=0.5).shape == (2, 2, RATE // 2)
    with pytest.raises(package.InvalidArgument, match="number of frames"):
        next(iter(package.Loader(data, 2)))


def test_m4a_is_a_sound(folder, stoker, tmp_path):
    data = folder("aac_m4a")
    sound = np.asarray(package.open(data)[0]["image"])
    assert sound.shape[0] == 1 and (sound[0].T == reference(in_order(data)[0])).all()
    with pytest.raises(package.InvalidArgument, match="rate in Hz"):
        next(iter(package.Loader(data, 2)))
    summary = stoker("inspect", data, "--verify").out
    assert "aac" in summary and "44100 Hz" in summary
    stoker("show", data, "--index", 0, "-o", tmp_path / "s.png")
    assert (tmp_path / "s.png").is_file()


@pytest.mark.parametrize("kind", ["aac_m4a", "opus_webm"])
def test_members_of_a_tar_and_a_table(folder, tmp_path, kind):
    data = folder(kind, count=4)
    rate = rate_of(kind)
    with tarfile.open(tmp_path / "s.tar", "w") as tar, open(tmp_path / "labels.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "label"])
        for n, path in enumerate(in_order(data)):
            rows.writerow([path.relative_to(data), path.stem])
            for name, content in ((f"{n}.cls", str(n).encode()), (f"{n}{path.suffix}", path.read_bytes())):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    wanted = waveforms(data, sample_rate=rate)
    assert (waveforms(tmp_path / "s.tar", sample_rate=rate) == wanted).all()
    table = package.open(data, labels=tmp_path / "labels.csv")
    assert table.classes == ["s0", "s1", "s2", "s3"]
    assert (waveforms(table, sample_rate=rate) == wanted).all()


@pytest.mark.parametrize("target", ["s.stk", "s.tar"])
def test_packing_keeps_m4a(folder, tmp_path, stoker, target):
    data = folder("aac_m4a")
    stoker("pack", data, tmp_path / target)
    assert (waveforms(tmp_path / target, seconds=1.0) == waveforms(data, seconds=1.0)).all()
    stoker("unpack", tmp_path / target, tmp_path / "back")
    for path in in_order(data):
        assert (tmp_path / "back" / path.relative_to(data)).read_bytes() == path.read_bytes()


def test_training_on_the_sound_of_videos(folder, tmp_path, stoker):
    data = folder("aac_mp4", count=8)
    (tmp_path / "r.toml").write_text(f'''
[data]
train = "{data}"
val = "{data}"
batch_size = 4
sample_rate = 8000
seconds = 0.5
channels = 1
train_ops = [{{op = "mel_spectrogram", n_mels = 16}}, {{op = "amplitude_to_db"}}]
val_ops = [{{op = "mel_spectrogram", n_mels = 16}}, {{op = "amplitude_to_db"}}]
[model]
hidden = [8]
[train]
epochs = 1
''')
    assert len(stoker("train", "r.toml", "--json", "--out", "run").json()["epochs"]) == 1
    stoker("show", data, "--recipe", "r.toml", "--index", 0, "-o", tmp_path / "s.png")
    assert (tmp_path / "s.png").is_file()
