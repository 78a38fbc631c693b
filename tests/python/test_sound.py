# Sounds: waveforms against soundfile's, spectrograms against torchaudio's, and the same bars as other samples.
import csv
import io
import re
import shutil
import subprocess
import tarfile
import warnings
from functools import partial

import numpy as np
import pytest
import stoker as package
import torch
from conftest import ROOT
from PIL import Image
from sounds import in_order, waveforms_at
from stoker import transforms as ours

soundfile = pytest.importorskip("soundfile", reason="needs soundfile, which makes the sounds")

RATE, SECONDS = 8000, 2.0
waveforms = partial(waveforms_at, RATE)
KINDS = {  # ending, options of soundfile
    "wav": ("wav", {}),
    "wav24": ("wav", {"subtype": "PCM_24"}),
    "wav_float": ("wav", {"subtype": "FLOAT"}),
    "ulaw": ("wav", {"subtype": "ULAW"}),
    "flac": ("flac", {}),
    "ogg": ("ogg", {}),
    "opus": ("opus", {"format": "OGG", "subtype": "OPUS"}),
    "mp3": ("mp3", {}),
    "aiff": ("aiff", {}),
}


def tone(n, samples=int(RATE * SECONDS), rate=RATE):
    t = np.arange(samples) / rate
    left = np.sin(2 * np.pi * (200 + 90 * n) * t * (1 + 0.1 * t)) * 0.5
    right = np.sin(2 * np.pi * (700 - 60 * n) * t) * 0.3 + 0.1 * np.random.default_rng(n).standard_normal(samples)
    return np.stack([left, right], 1).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    def write(kind="flac", count=4, channels=2, rate=RATE, samples=None):
        ending, options = KINDS[kind]
        for n in range(count):
            place = tmp_path / "data" / f"class{n % 2}"
            place.mkdir(parents=True, exist_ok=True)
            sound = tone(n, samples[n] if samples else int(rate * SECONDS), rate)[:, :channels]
            soundfile.write(place / f"s{n}.{ending}", sound, rate, **options)
        return tmp_path / "data"

    return write


def reference(path):
    return soundfile.read(path, dtype="float32", always_2d=True)[0].T


@pytest.mark.parametrize("kind", KINDS)
def test_waveforms_are_soundfiles(folder, kind):
    data = folder(kind)
    for path, sound in zip(in_order(data), waveforms(data), strict=True):
        wanted = reference(path)
        assert sound.shape == wanted.shape
        # Vorbis, Opus and MP3 are decoded by two builds of their libraries.
        assert np.abs(sound - wanted).max() <= (1e-4 if kind in ("ogg", "opus", "mp3") else 0)


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg", "mp3"])
def test_any_part_is_that_of_the_whole(folder, kind):
    data = folder(kind, count=2)
    whole = waveforms(data)
    loader = package.Loader(data, 2, sample_rate=RATE, seconds=0.5, clips_per_video=8, framework="torch")
    places = set()
    for batch in loader:
        for key, part in zip(batch["key"], batch["image"][:, :, 0].numpy()):
            sound = whole[in_order(data).index(data / key)]
            assert part.shape == (2, RATE // 2)
            windows = np.lib.stride_tricks.sliding_window_view(sound[1], RATE // 2)
            starts = np.flatnonzero(np.isclose(windows[:, :8], part[1, :8], atol=1e-6).all(1))
            assert any(np.allclose(sound[:, s : s + RATE // 2], part, atol=1e-6) for s in starts), kind
            places.add(int(starts[0]))
    assert len(places) > 8
    middle = waveforms(data, seconds=0.5)
    begin = int(0.5 * (RATE * SECONDS - RATE // 2 + 1))
    assert np.allclose(middle, whole[:, :, begin : begin + RATE // 2], atol=1e-6)
    spread = waveforms(data, seconds=0.5, clips_per_video=2)
    assert np.allclose(spread[0], whole[0, :, : RATE // 2], atol=1e-6)
    assert np.allclose(spread[1], whole[0, :, -RATE // 2 :], atol=1e-6)


def test_short_sounds_end_with_zeros(folder):
    data = folder(samples=[1000, 3000, 5000, 20])
    found = waveforms(data, seconds=0.5)
    for path, sound in zip(in_order(data), found, strict=True):
        wanted = reference(path)
        if wanted.shape[1] < RATE // 2:
            assert (sound[:, : wanted.shape[1]] == wanted).all()
            assert (sound[:, wanted.shape[1] :] == 0).all()


def test_resampling_is_soxrs(folder):
    soxr = pytest.importorskip("soxr")
    data = folder(rate=44100)
    for path, sound in zip(in_order(data), waveforms(data, sample_rate=16000), strict=True):
        wanted = soxr.resample(reference(path).T, 44100, 16000).T
        assert sound.shape == (2, 32000)
        assert np.abs(sound[:, : wanted.shape[1]] - wanted).max() < 1e-5


def test_rates_and_channels_become_one(folder, tmp_path):
    data = folder(count=2)
    soundfile.write(data / "class0" / "s9.wav", tone(9, 12345, 11025), 11025)
    found = waveforms(data, sample_rate=RATE, seconds=1.0, channels=1)
    assert found.shape == (3, 1, RATE)
    begin = int(0.5 * (RATE * SECONDS - RATE + 1))
    soxr = pytest.importorskip("soxr")
    other = soxr.resample(tone(9, 12345, 11025).mean(1)[(12345 - 11025 + 1) // 2 :][:11025], 11025, RATE)
    assert np.abs(found[1, 0] - other).max() < 1e-3  # 16 bits
    assert np.allclose(found[0, 0], reference(in_order(data)[0]).mean(0)[begin : begin + RATE], atol=1e-6)


MEL = {"n_fft": 400, "hop_length": 160, "n_mels": 64}


@pytest.mark.parametrize("options", [
    {}, MEL, {"n_fft": 512, "win_length": 320, "hop_length": 100, "n_mels": 40, "f_min": 60.0, "f_max": 3800.0},
    {"n_fft": 1102, "n_mels": 20, "norm": "slaney", "mel_scale": "slaney"}, {"n_fft": 252, "power": 1.0, "n_mels": 12},
], ids=str)  # fmt: skip
def test_spectrograms_are_torchaudios(folder, options):
    torchaudio = pytest.importorskip("torchaudio")
    data = folder(count=2)
    theirs = torchaudio.transforms.MelSpectrogram(RATE, **{"n_fft": 400} | options)
    power = "magnitude" if options.get("power") == 1 else "power"
    for top_db in (None, 50.0):
        decibels = torchaudio.transforms.AmplitudeToDB(power, top_db)
        ops = [ours.MelSpectrogram(RATE, **options)]
        found = torch.cat([b["image"].clone() for b in package.Loader(data, 2, sample_rate=RATE, shuffle=False, ops=ops, framework="torch")])
        logs = torch.cat([b["image"].clone() for b in package.Loader(data, 2, sample_rate=RATE, shuffle=False, framework="torch",
                                                                      ops=[*ops, ours.AmplitudeToDB(power, top_db)])])
        for path, image, log in zip(in_order(data), found, logs, strict=True):
            wanted = theirs(torch.from_numpy(reference(path)))
            assert image.shape == wanted.shape
            assert (image - wanted).abs().max() < 1e-5 * wanted.max()
            assert torch.allclose(image, wanted, rtol=1e-3, atol=1e-6 * float(wanted.max()))
            assert (log - decibels(image)).abs().max() < 1e-4
            loud = wanted > 1e-6 * wanted.max()  # below, both have the noise of float32
            assert (log - decibels(wanted))[loud].abs().max() < 0.1


def test_gain_and_masks(folder):
    data = folder(count=4)
    options = {"sample_rate": RATE, "shuffle": False, "framework": "torch"}
    plain = waveforms(data)
    factors = []
    for epoch in range(3):
        louder = package.Loader(data, 4, ops=[ours.Gain((-6, 6))], seed=epoch, **options)
        for sound, loud in zip(plain, next(iter(louder))["image"][:, :, 0].numpy(), strict=True):
            at = np.abs(sound).argmax()
            factors.append(loud.flat[at] / sound.flat[at])
            assert np.allclose(loud, sound * factors[-1], atol=1e-6)
    assert 10 ** (-6 / 20) < min(factors) < 0.9 and 1.1 < max(factors) < 10 ** (6 / 20)

    mel = ours.MelSpectrogram(**MEL)
    clean = next(iter(package.Loader(data, 4, ops=[mel], **options)))["image"].clone()
    masked = next(iter(package.Loader(data, 4, ops=[mel, ours.SpecAugment(2, 20, 2, 10)], **options)))["image"].clone()
    for before, after in zip(clean, masked, strict=True):
        changed = before != after
        assert torch.allclose(after[changed], before.mean(), rtol=1e-5)
        rows, columns = changed[0].float().mean(1), changed[0].float().mean(0)
        assert 0 < (rows > 0.9).sum() < 20 and 0 < (columns > 0.9).sum() < 40
        assert (changed[0] == changed[1]).all()


def test_workers_resuming_ranks_and_the_cache_change_nothing(folder):
    data = folder(count=6)
    options = {"sample_rate": RATE, "seconds": 0.7, "seed": 2, "framework": "torch",
               "ops": [ours.Gain((-3, 3)), ours.MelSpectrogram(**MEL), ours.SpecAugment(1, 9, 1, 9), ours.AmplitudeToDB()]}  # fmt: skip
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
    for rank in range(2):
        for whole, part in zip(first[0], package.Loader(data, 1, rank=rank, world_size=2, **options), strict=True):
            assert (part["image"] == whole[rank : rank + 1]).all()


@pytest.mark.parametrize("damage", ["cut", "cut wav", "empty", "text", "zeros", "image", "video"])
def test_damaged_sounds_are_bad_samples(folder, damage):
    data = folder(count=4)
    path = data / "class1" / "s1.flac"
    content = path.read_bytes()
    half = len(content) // 2
    if damage == "cut wav":
        soundfile.write(path.with_suffix(".wav"), tone(1), RATE)
        path.unlink()
        path = path.with_suffix(".wav")
        content = path.read_bytes()
    path.write_bytes({"cut": content[:half], "cut wav": content[:9000], "zeros": content[:half] + bytes(len(content) - half), "empty": b"", "text": b"not a sound\n" * 100,
                      "image": b"\xff\xd8\xff\xe0" + bytes(100), "video": b"\0\0\0\x20ftypisom" + bytes(100)}[damage])
    loader = package.Loader(data, 2, sample_rate=RATE, seconds=SECONDS, shuffle=False, bad_samples=1)
    with pytest.warns(package.BadSampleWarning):
        list(loader)
    assert [bad.key for bad in loader.bad_samples.values()] == [f"class1/{path.name}"]
    if damage in ("cut", "zeros"):
        assert re.search(r"at [01]\.\d{3} s", next(iter(loader.bad_samples.values())).reason)


def write_tar(path, data):
    with tarfile.open(path, "w") as tar:
        for n, sound in enumerate(in_order(data)):
            for name, content in ((f"{n}.cls", str(n).encode()), (f"{n}{sound.suffix}", sound.read_bytes())):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("kind", ["wav", "flac", "opus", "mp3"])
def test_members_of_a_tar(folder, tmp_path, kind):
    data = folder(kind)
    assert (waveforms(write_tar(tmp_path / "s.tar", data)) == waveforms(data)).all()


@pytest.mark.parametrize("target", ["s.stk", "s.tar"])
def test_packing_keeps_the_files(folder, tmp_path, stoker, target):
    data = folder("flac", count=3)
    soundfile.write(data / "class1" / "s9.mp3", tone(9), RATE)
    stoker("pack", data, tmp_path / target)
    assert (waveforms(tmp_path / target, seconds=1.0) == waveforms(data, seconds=1.0)).all()
    stoker("unpack", tmp_path / target, tmp_path / "back")
    files = [path.relative_to(data) for path in in_order(data)]
    assert sorted(p.relative_to(tmp_path / "back") for p in (tmp_path / "back").rglob("s*.*")) == sorted(files)
    assert all((data / file).read_bytes() == (tmp_path / "back" / file).read_bytes() for file in files)


def test_sounds_with_fields_of_all_other_kinds(tmp_path, stoker):
    """Order, ranks, resume, bad samples, caches and packing of samples with a sound, a 16-bit image, tokens and a number."""
    random = np.random.default_rng(3)
    (tmp_path / "broken.flac").write_bytes(b"fLaC" + bytes(200))
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        for n in range(24):
            soundfile.write(tmp_path / "one.flac", tone(n), RATE)
            picture, text, angle = io.BytesIO(), io.BytesIO(), io.BytesIO()
            Image.fromarray(random.integers(0, 4096, (20, 30), dtype=np.uint16)).save(picture, "png")
            np.save(text, random.integers(0, 99, random.integers(2, 40), dtype=np.int32))
            np.save(angle, np.float32(n))
            sound = (tmp_path / ("broken.flac" if n == 5 else "one.flac")).read_bytes()
            for name, content in (("flac", sound), ("scan.png", picture.getvalue()), ("text.npy", text.getvalue()),
                                  ("angle.npy", angle.getvalue()), ("cls", str(n % 3).encode())):  # fmt: skip
                member = tarfile.TarInfo(f"{n:02}.{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    fields = {"scan": ("scan.png", "image"), "tokens": ("text.npy", "tokens"), "angle": "angle.npy"}
    options = {"sample_rate": RATE, "seconds": 0.5, "seed": 7, "framework": "torch", "bad_samples": 2, "bucket_by": "tokens", "batch_size": 4,
               "ops": [ours.MelSpectrogram(n_mels=20), ours.SpecAugment(1, 3, 1, 5)], "field_ops": {"scan": [ours.RandomResizedCrop(12)]}}  # fmt: skip

    def epochs(source, count=2, **other):
        loader = package.Loader(source, **options | other)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", package.BadSampleWarning)
            return loader, [[{k: v.clone() if torch.is_tensor(v) else v for k, v in batch.items()} for batch in loader] for _ in range(count)]

    def same(one, other):
        names = ("image", "scan", "tokens", "tokens_length", "angle", "label", "index")
        return len(one) == len(other) and all((a[name] == b[name]).all() for a, b in zip(one, other, strict=True) for name in names)

    data = package.open(tmp_path / "all.tar", fields=fields)
    loader, first = epochs(data, workers=0)
    assert {bad.key for bad in loader.bad_samples.values()} == {"05.flac"}
    assert first[0][0]["image"].shape[1:] == (2, 20, 21) and first[0][0]["scan"].shape[1:] == (3, 12, 12)
    assert all(5 not in batch["index"] for batch in first[0]) and not same(*first)
    for other in ({"workers": 3}, {"cache": "ram"}, {"cache": "disk"}):
        assert all(map(same, first, epochs(data, **other)[1]))
    stoker("pack", "all.tar", "all.stk", "--skip-bad", "--field", "scan=scan.png:image", "--field", "tokens=text.npy:tokens", "--field", "angle=angle.npy")
    packed = package.open(tmp_path / "all.stk", fields={"scan": ("scan", "image"), "tokens": ("tokens", "tokens"), "angle": "angle"})
    theirs = {int(i): row for batch in epochs(packed, 1, shuffle=False)[1][0] for i, row in zip(batch["angle"], batch["scan"])}
    mine = {int(i): row for batch in epochs(data, 1, shuffle=False)[1][0] for i, row in zip(batch["angle"], batch["scan"])}
    assert sorted(theirs) == [n for n in range(24) if n != 5] and theirs[0].shape == mine[0].shape
    loader = package.Loader(data, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", package.BadSampleWarning)
        next(iter(loader))
        resumed = package.Loader(data, **options)
        resumed.load_state_dict(loader.state_dict())
        assert same([next(iter(resumed))], first[0][1:2])
    parts = [epochs(data, 1, batch_size=2, rank=rank, world_size=2, drop_last=True)[1][0] for rank in range(2)]
    for whole, *slices in zip(epochs(data, 1, drop_last=True)[1][0], *parts, strict=True):
        assert (whole["image"] == torch.cat([part["image"] for part in slices])).all()


def test_packing_refuses_what_would_lose_sounds(folder, tmp_path, stoker):
    data = folder()
    for arguments in ([tmp_path / "s.lmdb"], [tmp_path / "s.stk", "--codec", "raw"], [tmp_path / "s.stk", "--quality", "80"]):
        stoker("pack", data, *arguments, status=1)
        assert not arguments[0].exists()
    (data / "class0" / "s0.flac").write_bytes((data / "class0" / "s0.flac").read_bytes()[:4000])
    assert "s0.flac" in stoker("pack", data, tmp_path / "s.stk", status=1).err


@pytest.mark.parametrize("loud", ["first", "last", "always"])
def test_mp3s_without_a_length(tmp_path, loud):
    """libsndfile takes the first frame's bit rate for that of all."""
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        pytest.skip("needs ffmpeg, which writes such files")
    (tmp_path / "data/class").mkdir(parents=True)
    samples = 44100 * 6
    sound = (0.5 * np.random.default_rng(1).standard_normal(samples)).clip(-1, 1)
    quiet = {"first": np.s_[44100:], "last": np.s_[:-44100], "always": np.s_[:0]}[loud]
    sound[quiet] *= 0.001
    soundfile.write(tmp_path / "s.wav", sound, 44100)
    for name, options in (("s0", []), ("s1", ["-write_xing", "0"])):
        subprocess.run([ffmpeg, "-v", "error", "-i", "s.wav", "-q:a", "4", *options, f"data/class/{name}.mp3"], check=True, cwd=tmp_path)
    loader = package.Loader(tmp_path / "data", 2, sample_rate=44100, seconds=6.5, shuffle=False, bad_samples=1, framework="torch")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", package.BadSampleWarning)
        whole, found = (sound[0, 0].numpy() for sound in next(iter(loader))["image"])
    if caught:  # by the release of libsndfile
        assert re.search(r"reads \d+ of 26\d{4} samples", str(caught[0].message))
        assert (whole == found).all()
    else:
        assert loud != "first"
        assert [np.flatnonzero(sound).max() // 2400 for sound in (whole, found)] in ([110, 110], [110, 109])


def test_records_of_lmdb_and_hdf5(folder, tmp_path):
    lmdb, h5py = pytest.importorskip("lmdb"), pytest.importorskip("h5py")
    data = folder(count=4)
    files = in_order(data)
    with lmdb.open(str(tmp_path / "s.lmdb"), subdir=False, map_size=1 << 24) as database, database.begin(write=True) as records:
        for i, path in enumerate(files):
            records.put(f"{i:03}".encode(), path.read_bytes())
    with h5py.File(tmp_path / "s.h5", "w") as file:
        column = file.create_dataset("images", len(files), dtype=h5py.vlen_dtype(np.uint8))
        for i, path in enumerate(files):
            column[i] = np.frombuffer(path.read_bytes(), np.uint8)
    for source in ("s.lmdb", "s.h5"):
        assert (waveforms(tmp_path / source, seconds=0.5) == waveforms(data, seconds=0.5)).all()


def test_views_have_other_random_numbers_of_one_part(folder):
    data = folder(count=4)
    options = {"sample_rate": RATE, "seconds": 0.5, "framework": "torch", "seed": 3}
    batch = next(iter(package.Loader(data, 4, views=2, ops=[ours.Gain((-6, 6))], **options)))
    ratio = batch["image_2"] / batch["image"]
    for one in ratio:
        assert torch.allclose(one[one.isfinite()], one[one.isfinite()].median(), rtol=1e-4)
    assert ratio.isfinite().any() and not torch.allclose(batch["image"], batch["image_2"])


@pytest.mark.parametrize("lie", ["rate", "length", "nan"])
def test_hostile_headers_are_bad_samples(tmp_path, lie):
    place = tmp_path / "data" / "class"
    place.mkdir(parents=True)
    for n in range(3):
        soundfile.write(place / f"s{n}.wav", tone(n)[:, 0], RATE, subtype="FLOAT")
    content = bytearray((place / "s1.wav").read_bytes())
    if lie == "rate":
        content[24:28] = (1).to_bytes(4, "little")
    elif lie == "nan":
        content[-400:-396] = b"\xff\xff\xff\x7f"
    else:
        soundfile.write(place / "s1.flac", tone(1)[:, 0], RATE)
        content = bytearray((place / "s1.flac").read_bytes()[:2000])
        content[21] |= 0x0F  # the upper bits of the number of samples
        (place / "s1.flac").unlink()
    (place / "s1.wav").write_bytes(content)
    loader = package.Loader(tmp_path / "data", 3, sample_rate=768000 if lie == "rate" else RATE, shuffle=False, bad_samples=1)
    with pytest.warns(package.BadSampleWarning):
        list(loader)
    assert [bad.key for bad in loader.bad_samples.values()] == ["class/s1.wav"]


def test_training_on_waveforms(folder, tmp_path, stoker):
    data = folder(count=8, channels=1)
    (tmp_path / "r.toml").write_text(f'''
[data]
train = "{data}"
val = "{data}"
batch_size = 4
sample_rate = {RATE}
seconds = 0.25
[model]
hidden = [8]
[train]
epochs = 1
''')
    assert len(stoker("train", "r.toml", "--json", "--out", "run").json()["epochs"]) == 1
    (tmp_path / "r.toml").write_text((tmp_path / "r.toml").read_text().replace("seconds = 0.25", ""))
    soundfile.write(data / "class0" / "s9.flac", tone(9, 5000)[:, 0], RATE)
    assert "5000" in stoker("train", "r.toml", "--out", "other", status=1).err


def test_a_table_of_labels(folder, tmp_path):
    data = folder(count=4)
    with open(tmp_path / "labels.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "label"])
        for path in in_order(data):
            rows.writerow([path.relative_to(data), path.stem])
    opened = package.open(data, labels=tmp_path / "labels.csv")
    assert opened.classes == ["s0", "s1", "s2", "s3"]
    assert waveforms(opened).shape == (4, 2, RATE * SECONDS)


def test_settings_that_do_not_fit(folder, tmp_path):
    data = folder()
    with pytest.raises(package.InvalidArgument, match="sample_rate"):
        package.Loader(data, 2)
    with pytest.raises(package.InvalidArgument, match="sample_rate"):
        package.Loader(data, 2, ops=[ours.MelSpectrogram()])
    with pytest.raises(package.InvalidArgument, match="seconds"):
        package.Loader(data, 2, seconds=1.0)
    with pytest.raises(package.InvalidArgument, match="f_max"):
        package.Loader(data, 2, sample_rate=RATE, ops=[ours.MelSpectrogram(f_max=5000.0)])
    for given in (ours.MelSpectrogram(16000), ours.MelSpectrogram(sample_rate=16000)):
        with pytest.raises(package.InvalidArgument, match="sample_rate"):
            package.Loader(data, 2, sample_rate=RATE, ops=[given])
    with pytest.raises(package.InvalidArgument, match="prime"):
        package.Loader(data, 2, sample_rate=RATE, ops=[ours.MelSpectrogram(n_fft=262)])
    with pytest.raises(package.InvalidArgument, match="sounds"):
        package.Loader("synth:digits", 2, sample_rate=RATE)
    with pytest.raises(package.DataError, match="seconds gives"):
        list(package.Loader(folder(samples=[500, 700, 900, 1100]), 2, sample_rate=RATE))
    (data / "class1" / "cover.jpg").write_bytes(b"")
    with pytest.raises(package.DataError, match="cover.jpg"):
        package.open(data)


def test_opened_sounds_have_their_own_rate(folder):
    data = folder("wav", rate=11025)
    sample = package.open(data)[0]
    assert sample["image"].shape == (1, int(11025 * SECONDS), 2)
    assert (sample["image"][0] == reference(in_order(data)[0]).T).all()


def test_inspect_and_show(folder, tmp_path, stoker):
    data = folder(samples=[4000, 8000, 8000, 12000])
    found = stoker("inspect", data, "--json").json()
    assert found["fields"]["image"] == {"dtype": "float32", "encoded": True, "channels": [2, 2], "sample_rate": [RATE, RATE], "seconds": [0.5, 1.5]}
    assert found["codecs"] == {"flac": 4}
    (data / "class0" / "s2.flac").write_bytes((data / "class0" / "s2.flac").read_bytes()[:4000])
    bad = stoker("inspect", data, "--verify", "--json", status=None).json()
    assert [sample["key"] for sample in bad["bad"]] == ["class0/s2.flac"]
    recipe = tmp_path / "r.toml"
    recipe.write_text(f'[data]\ntrain = "{data}"\nval = ""\nsample_rate = {RATE}\nseconds = 0.5\ntrain_ops = [{{op = "mel_spectrogram", n_mels = 40}}]\n')
    stoker("show", data, "--index", 0, "-o", tmp_path / "wave.png")
    stoker("show", data, "--recipe", recipe, "--index", 0, "-o", tmp_path / "mel.png")
    stoker("show", data, "--recipe", recipe, "--index", 0, "--npy", tmp_path / "mel.npy")
    assert np.load(tmp_path / "mel.npy").shape == (2, 40, 21)


def test_the_recipe_of_the_docs_learns(tmp_path, stoker):
    text = (ROOT / "docs" / "sounds.md").read_text()
    recipe = re.search(r"```toml\n(.*?)```", text, re.S)[1]
    for n in range(60):
        place = tmp_path / "sounds" / "train" / ("up" if n % 2 else "down")
        place.mkdir(parents=True, exist_ok=True)
        t = np.arange(16000) / 16000
        pitch = 400 + 600 * (t if n % 2 else 1 - t) + 10 * n
        noise = 0.2 * np.random.default_rng(n).standard_normal(t.size)
        soundfile.write(place / f"{n:02}.flac", 0.3 * np.sin(2 * np.pi * np.cumsum(pitch) / 16000) + noise, 16000)
    (tmp_path / "recipe.toml").write_text(recipe)
    assert stoker("train", "recipe.toml", "--json", "--out", "run").json()["epochs"][-1]["val_accuracy"] >= 0.9
    files = sorted((tmp_path / "sounds" / "train" / "up").iterdir())[:3]
    assert [row["class"] for row in csv.DictReader(io.StringIO(stoker("predict", "run", *files).out))] == ["up"] * 3
