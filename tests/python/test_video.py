# Video files: planes and frames against PyAV's and torchcodec's, and the same bars as other clips.
import csv
import io
import json
import shutil
import tarfile

import numpy as np
import pytest
import stoker as package
import torch
from conftest import ROOT
from PIL import Image
from stoker import transforms as ours

av = pytest.importorskip("av", reason="needs PyAV, which makes the videos")

FRAMES, HEIGHT, WIDTH = 40, 96, 128
KINDS = {  # container, codec, its options
    "h264": ("mp4", "libx264", {"g": "12", "bf": "3"}),
    "open_gop": ("mkv", "libx264", {"g": "10", "bf": "2", "x264-params": "open-gop=1"}),
    "long_gop": ("mov", "libx264", {"g": "250", "bf": "3", "b-pyramid": "normal"}),
    "hevc": ("mp4", "libx265", {"g": "12", "x265-params": "log-level=none"}),
    "vp9": ("webm", "libvpx-vp9", {"g": "12", "lag-in-frames": "8", "auto-alt-ref": "1"}),
    "mpeg4": ("avi", "mpeg4", {"g": "10"}),
    "avi_b": ("avi", "mpeg4", {"g": "12", "bf": "2"}),  # its packets lack the times at which they are shown
    "mjpeg": ("mkv", "mjpeg", {"qmin": "2", "qmax": "2"}),
}


def picture(n, t):
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    waves = [np.sin((x + 4 * t) / (9 + c + n)) * np.cos((y - 2 * t) / (7 + 2 * c)) for c in range(3)]
    return (np.stack(waves, -1) * 100 + 128).astype(np.uint8)


def write_video(path, kind="h264", n=0, frames=FRAMES, times=None, rate=25):
    container, codec, options = KINDS[kind]
    with av.open(str(path), "w", format={"mkv": "matroska"}.get(container, container)) as file:
        try:
            stream = file.add_stream(codec, rate=rate)
        except (av.codec.codec.UnknownCodecError, ValueError):
            pytest.skip(f"PyAV without {codec}")
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.options = options
        for t in range(frames):
            frame = av.VideoFrame.from_ndarray(picture(n, t), format="rgb24")
            if times is not None:
                frame.pts = times[t]
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return path


def reference(path):
    """All frames in the order in which they are shown, by FFmpeg's decoder and swscale."""
    with av.open(str(path), options={"fflags": "+genpts"}) as file:
        frames = sorted(file.decode(video=0), key=lambda frame: frame.pts)
    return np.stack([frame.to_ndarray(format="rgb24", interpolation="BILINEAR") for frame in frames])


@pytest.fixture
def folder(tmp_path):
    def write(kind="h264", count=3, **options):
        for n in range(count):
            place = tmp_path / "data" / f"class{n % 2}"
            place.mkdir(parents=True, exist_ok=True)
            write_video(place / f"v{n}.{KINDS[kind][0]}", kind, n, **options)
        return tmp_path / "data"

    return write


def clips(source, **options):
    options = {"shuffle": False, "dtype": "uint8", "framework": "torch"} | options
    found = torch.cat([batch["image"].clone() for batch in package.Loader(source, 2, **options)])
    return found.permute(0, 1, 3, 4, 2).numpy()


def in_order(data):
    return sorted(data.rglob("v*.*"), key=lambda path: (path.parent.name, path.name))


@pytest.mark.parametrize("kind", KINDS)
def test_all_frames_are_ffmpegs(folder, kind):
    data = folder(kind)
    found = clips(data, frames=FRAMES)
    for path, clip in zip(in_order(data), found, strict=True):
        wanted = reference(path)
        assert clip.shape == wanted.shape
        assert np.abs(clip.astype(int) - wanted).max() <= 2  # two builds of swscale


@pytest.mark.parametrize("kind", KINDS)
def test_any_frames_are_those_of_the_whole(folder, kind):
    """Random access decodes from key frames, and leaves out frames that nothing refers to."""
    data = folder(kind, count=2)
    whole = clips(data, frames=FRAMES)
    for frames, stride in ((1, 1), (5, 1), (4, 7), (FRAMES // 3, 3)):
        loader = package.Loader(data, 2, frames=frames, stride=stride, clips_per_video=8, dtype="uint8", framework="torch", seed=frames)
        places = set()
        for batch in loader:
            for key, clip in zip(batch["key"], batch["image"].permute(0, 1, 3, 4, 2).numpy()):
                video = whole[in_order(data).index(data / key)]
                room = FRAMES - ((frames - 1) * stride + 1)
                starts = [s for s in range(room + 1) if (video[s : s + frames * stride : stride] == clip).all()]
                assert starts, (kind, frames, stride)
                places.add(starts[0])
        assert len(places) > 2


def test_torchcodec_gives_the_same(folder):
    try:
        from torchcodec.decoders import VideoDecoder
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchcodec: {str(error).splitlines()[0]}")
    data = folder()
    found = clips(data, frames=6, stride=3)
    for path, clip in zip(in_order(data), found, strict=True):
        try:
            decoder = VideoDecoder(str(path), dimension_order="NHWC")
        except RuntimeError as error:
            pytest.skip(f"torchcodec: {str(error).splitlines()[0]}")
        begin = min(int(0.5 * (FRAMES - 16 + 1)), FRAMES - 16)
        theirs = decoder.get_frames_at(list(range(begin, begin + 16, 3))).data.numpy()
        assert np.abs(clip.astype(int) - theirs).max() <= 2


def test_frames_at_changing_rates_are_counted(tmp_path):
    (tmp_path / "class").mkdir()
    times = np.cumsum(np.random.default_rng(1).integers(1, 9, FRAMES)).tolist()
    path = write_video(tmp_path / "class" / "v.mkv", "open_gop", times=times)
    assert np.abs(clips(tmp_path, frames=FRAMES)[0].astype(int) - reference(path)).max() <= 2


def test_workers_resuming_and_the_cache_change_nothing(folder):
    data = folder(count=4)
    options = {"frames": 4, "seed": 2, "dtype": "uint8", "framework": "torch", "ops": [ours.RandomResizedCrop(32), ours.RandomHorizontalFlip()]}
    first = [[b["image"].clone() for b in loader] for loader in [package.Loader(data, 2, workers=0, **options)] for _ in range(2)]
    for other in ({"workers": 3}, {"cache": "ram"}):
        loader = package.Loader(data, 2, **options, **other)
        for epoch in first:
            assert all((a == b["image"]).all() for a, b in zip(epoch, loader, strict=True))
    loader = package.Loader(data, 2, **options)
    next(iter(loader))
    resumed = package.Loader(data, 2, **options)
    resumed.load_state_dict(loader.state_dict())
    assert (next(iter(resumed))["image"] == first[0][1]).all()


@pytest.mark.parametrize("damage", ["cut", "zeros", "empty", "text"])
def test_damaged_videos_are_bad_samples(folder, damage):
    data = folder(count=4)
    path = data / "class1" / "v1.mp4"
    content = path.read_bytes()
    mdat = content.index(b"mdat")
    path.write_bytes({"cut": content[: len(content) // 2], "zeros": content[: mdat + 8] + bytes(3000) + content[mdat + 3008 :],
                      "empty": b"", "text": b"no video\n" * 100}[damage])
    loader = package.Loader(data, 2, frames=FRAMES, shuffle=False, bad_samples=1)
    with pytest.warns(package.BadSampleWarning):
        list(loader)
    assert [bad.key for bad in loader.bad_samples.values()] == ["class1/v1.mp4"]


def test_rotated_videos_are_upright(tmp_path):
    (tmp_path / "class").mkdir()
    path = write_video(tmp_path / "class" / "v.mp4")
    upright = clips(tmp_path, frames=3)[0]
    content = bytearray(path.read_bytes())
    at = content.index(b"tkhd") + 4 + 40  # the matrix of a version 0 header
    turn = [0, 0x00010000, 0, -0x00010000, 0, 0, 0, 0, 0x40000000]
    content[at : at + 36] = b"".join(value.to_bytes(4, "big", signed=True) for value in turn)
    path.write_bytes(content)
    turned = clips(tmp_path, frames=3)[0]
    assert (turned == np.rot90(upright, -1, (1, 2))).all()


def test_members_of_a_tar(folder, tmp_path):
    data = folder(count=4)
    with tarfile.open(tmp_path / "v.tar", "w") as tar:
        for n, path in enumerate(in_order(data)):
            for name, content in ((f"{n}.cls", str(n).encode()), (f"{n}.mp4", path.read_bytes())):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    assert (clips(tmp_path / "v.tar", frames=5) == clips(data, frames=5)).all()


def test_numbered_videos_of_a_folder_in_a_tar(folder, tmp_path):
    data = folder(count=3)
    with tarfile.open(tmp_path / "v.tar", "w") as tar:
        for n, path in enumerate(in_order(data)):
            for name, content in ((f"train/{n:06}.mp4", path.read_bytes()), (f"train/{n:06}.cls", b"1")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    assert (clips(tmp_path / "v.tar", frames=5) == clips(data, frames=5)).all()


def test_videos_next_to_pictures_are_not_samples(folder, tmp_path):
    data = folder()
    for n in range(2):
        Image.fromarray(picture(n, 0)).save(data / f"class{n}" / "a.png")
    assert len(package.open(data)) == 2


def test_predict_takes_videos_and_folders_of_frames(folder, stoker, tmp_path):
    data = folder(count=2)
    (tmp_path / "r.toml").write_text(f"""
device = "cpu"
[data]
train = "{data}"
batch_size = 2
frames = 3
clips_per_video = 2
train_ops = [{{op = "resize", size = [24, 24]}}]
val_ops = [{{op = "resize", size = [24, 24]}}]
[model]
name = "mlp"
[train]
epochs = 1
""")
    stoker("train", tmp_path / "r.toml", "--out", tmp_path / "run")
    paths = in_order(data)
    for place, path in enumerate(paths):
        (tmp_path / "frames" / f"clip{place}").mkdir(parents=True)
        for t, frame in enumerate(reference(path)):
            Image.fromarray(frame).save(tmp_path / "frames" / f"clip{place}" / f"{t}.png")

    def predict(*given):
        stoker("predict", tmp_path / "run", *given, "-o", tmp_path / "p.csv")
        with open(tmp_path / "p.csv", newline="") as file:
            return list(csv.DictReader(file))

    whole, alone, frames = predict(*paths), predict(paths[1]), predict(tmp_path / "frames")
    (inside,) = predict(tmp_path / "frames" / "clip1")
    assert (inside["key"], inside["probability"]) == ("clip1", frames[1]["probability"])
    assert [row["key"] for row in frames] == ["clip0", "clip1"]
    assert whole[1]["probability"] == alone[0]["probability"]
    assert float(frames[1]["probability"]) == pytest.approx(float(alone[0]["probability"]), abs=0.05)


def test_an_empty_first_video_is_a_bad_sample(folder):
    data = folder(count=4)
    (data / "class0" / "v0.mp4").write_bytes(b"")
    loader = package.Loader(data, 2, frames=4, shuffle=False, bad_samples=1)
    with pytest.warns(package.BadSampleWarning):
        list(loader)
    assert [bad.key for bad in loader.bad_samples.values()] == ["class0/v0.mp4"]


def test_grey_videos(folder):
    data = folder()
    grey, color = clips(data, frames=3, channels=1), clips(data, frames=3)
    wanted = np.stack([[np.asarray(Image.fromarray(frame).convert("L")) for frame in clip] for clip in color])
    assert (grey[..., 0] == wanted).all()


def test_no_number_of_frames(folder):
    with pytest.raises(package.InvalidArgument, match="frames"):
        package.Loader(folder(), 2)


def test_packing(folder, tmp_path, stoker):
    data = folder()
    stoker("pack", data, tmp_path / "kept.stk", "--clips")
    assert (clips(tmp_path / "kept.stk", frames=5) == clips(data, frames=5)).all()
    stoker("unpack", tmp_path / "kept.stk", tmp_path / "out")
    for path in in_order(data):
        assert (tmp_path / "out" / path.relative_to(data)).read_bytes() == path.read_bytes()
    stoker("pack", data, tmp_path / "frames.stk", "--clips", "--codec", "dct", "--quality", "95")
    close = clips(tmp_path / "frames.stk", frames=5).astype(int) - clips(data, frames=5)
    assert np.abs(close).mean() < 3


def test_a_recipe_learns_from_videos(folder, stoker, tmp_path):
    data = folder(count=4)
    (tmp_path / "r.toml").write_text(f"""
device = "cpu"
[data]
train = "{data}"
val = "{data}"
batch_size = 2
frames = 4
train_ops = [{{op = "random_resized_crop", size = 24}}]
val_ops = [{{op = "resize", size = 24}}, {{op = "center_crop", size = 24}}]
[model]
name = "r3d_18"
[train]
epochs = 1
""")
    assert len(stoker("train", tmp_path / "r.toml", "--out", tmp_path / "run", "--json").json()["epochs"]) == 1
    steps = [line for line in map(json.loads, open(tmp_path / "run" / "metrics.jsonl")) if line["type"] == "step"]
    assert len(steps) == 2


def test_inspect_and_show(folder, stoker, tmp_path):
    data = folder()
    found = stoker("inspect", data, "--verify", "--json").json()
    assert found["codecs"] == {"h264": 3} and found["fields"]["image"]["frames"] == [FRAMES, FRAMES] and found["bad"] == []
    stoker("show", data, "--clips", "-o", tmp_path / "grid.png")
    shutil.copy(tmp_path / "grid.png", "/tmp/grid_video.png")


@pytest.fixture
def all_kinds(tmp_path, stoker):
    """Videos, folders of frames, an array, members of a tar, and packed dct frames, of the same classes."""
    kinds = {}
    for kind in ("videos", "frames"):
        for n in range(4):
            place = tmp_path / kind / f"class{n % 2}"
            place.mkdir(parents=True, exist_ok=True)
            if kind == "videos":
                write_video(place / f"v{n}.mp4", n=n)
                continue
            (place / f"clip{n}").mkdir()
            for t in range(9):
                Image.fromarray(picture(n + 4, t)).save(place / f"clip{n}" / f"{t}.jpg", quality=95)
        kinds[kind] = tmp_path / kind
    arrays = np.stack([[picture(n + 8, t) for t in range(6)] for n in range(4)])
    np.savez(tmp_path / "arrays.npz", images=arrays, labels=np.arange(4) % 2, classes=["class0", "class1"])
    with tarfile.open(tmp_path / "tar-000000.tar", "w") as tar:
        for n in range(4):
            files = [(f"c{n}.cls", str(n % 2).encode())]
            for t in range(5):
                data = io.BytesIO()
                Image.fromarray(picture(n + 12, t)).save(data, "png")
                files.append((f"c{n}/{t}.png", data.getvalue()))
            for name, content in files:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    (tmp_path / "classes.txt").write_text("class0\nclass1\n")
    package.pack(package.open(kinds["frames"], clips=True), tmp_path / "packed.stk", codec="dct")
    sources = [*kinds.values(), *(tmp_path / name for name in ("arrays.npz", "tar-000000.tar", "packed.stk"))]
    return [package.open(source, clips=True) for source in sources]


OPTIONS = {"frames": 3, "stride": 2, "seed": 3, "dtype": "uint8", "framework": "torch", "ops": [ours.RandomResizedCrop(32), ours.RandomHorizontalFlip()]}


def seen(loader):
    return [(batch["key"], batch["label"].tolist(), batch["image"].clone()) for batch in loader]


def same(one, other):
    return all(a[:2] == b[:2] and (a[2] == b[2]).all() for a, b in zip(one, other, strict=True))


def test_all_kinds_at_once(all_kinds, tmp_path):
    loader = package.Loader(all_kinds, 4, workers=0, **OPTIONS)
    epochs = [seen(loader) for _ in range(2)]
    assert sum(len(keys) for keys, *_ in epochs[0]) == 20
    for options in ({"workers": 3}, {"cache": "ram"}, {"cache": "disk"}):
        other = package.Loader(all_kinds, 4, **OPTIONS, **options)
        assert all(same(epoch, seen(other)) for epoch in epochs), options
    resumed = package.Loader(all_kinds, 4, **OPTIONS)
    begun = package.Loader(all_kinds, 4, **OPTIONS)
    for _ in zip(range(2), begun):
        state = begun.state_dict()
    resumed.load_state_dict(state)
    assert same(epochs[0][2:], seen(resumed))
    ranks = [seen(package.Loader(all_kinds, 2, rank=rank, world_size=2, **OPTIONS)) for rank in range(2)]
    for whole, first, second in zip(epochs[0], *ranks, strict=True):
        assert whole[0] == first[0] + second[0] and (whole[2] == torch.cat([first[2], second[2]])).all()


def test_a_bad_sample_of_each_kind(all_kinds, tmp_path):
    videos, frames = tmp_path / "videos" / "class0" / "v0.mp4", tmp_path / "frames" / "class1" / "clip1" / "4.jpg"
    videos.write_bytes(videos.read_bytes()[:3000])
    frames.write_bytes(b"\xff\xd8\xff\xe0 cut")
    loader = package.Loader(all_kinds, 4, bad_samples=4, **{**OPTIONS, "frames": 9, "stride": 1})
    with pytest.warns(package.BadSampleWarning):
        first = seen(loader)
    assert {bad.key for bad in loader.bad_samples.values()} == {"0:class0/v0.mp4", "1:class1/clip1"}
    with pytest.warns(package.BadSampleWarning):
        assert same(first, seen(package.Loader(all_kinds, 4, workers=0, bad_samples=4, **{**OPTIONS, "frames": 9, "stride": 1})))


def test_the_recipe_of_the_docs(folder, stoker, tmp_path):
    page = (ROOT / "docs" / "clips.md").read_text()
    (tmp_path / "r.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    data = folder(count=4)
    settings = {"data.train": data, "data.val": data, "data.batch_size": 2, "train.epochs": 1, "device": "cpu"}
    done = stoker("train", tmp_path / "r.toml", *(part for key, value in settings.items() for part in ("--set", f"{key}={value}")),
                  "--out", tmp_path / "run", "--json")
    assert len(done.json()["epochs"]) == 1
