# Clips and volumes: which frames a loader reads, that all frames get the same ops, and every way that the data are stored.
# References are NumPy's slices, torchvision v2's transforms on tv_tensors.Video, and torchvision's r3d_18.
import io
import json
import tarfile

import numpy as np
import pytest
import stoker as package
import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file
from stoker import transforms as ours
from torchvision import tv_tensors
from torchvision.transforms import v2

VIDEOS, FRAMES, HEIGHT, WIDTH = 6, 12, 36, 44


def draw_videos(dtype=np.uint8, channels=3):
    """(N, T, H, W, C); a frame's number is in its first pixel, and each frame differs from the others."""
    random = np.random.default_rng(2)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    top = 255 if dtype == np.uint8 else 4095
    waves = [[np.sin((x + 3 * t) / (4 + n))[..., None] * np.cos(y / (3 + n + np.arange(channels)[:, None, None])).transpose(1, 2, 0)
              for t in range(FRAMES)] for n in range(VIDEOS)]
    videos = (np.array(waves) * 0.3 + 0.5 + random.uniform(-0.1, 0.1, (VIDEOS, FRAMES, HEIGHT, WIDTH, channels))) * top
    videos[:, :, 0, 0] = np.arange(FRAMES)[:, None]
    return videos.astype(dtype)


def write_frames(root, videos, ending="png", digits=1):
    for n, video in enumerate(videos):
        folder = root / f"class{n % 2}" / f"clip{n}"
        folder.mkdir(parents=True)
        for t, frame in enumerate(video):
            Image.fromarray(frame).save(folder / f"frame_{t:0{digits}}.{ending}")
    return root


def in_folder_order(videos):
    return np.concatenate([videos[0::2], videos[1::2]])


@pytest.fixture(scope="module")
def videos():
    return draw_videos()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, videos):
    return write_frames(tmp_path_factory.mktemp("frames"), videos)  # frame_10 is before frame_2 in bytes


@pytest.fixture(scope="module")
def jpegs(tmp_path_factory, videos):
    return write_frames(tmp_path_factory.mktemp("jpegs"), videos, "jpg", 3)


def batches(source, size=VIDEOS, **options):
    return list(package.Loader(source, size, framework="torch", **{"shuffle": False, "dtype": "uint8"} | options))


def images(source, **options):
    """All batches' clips, as (N, T, H, W, C)."""
    found = torch.cat([batch["image"].clone() for batch in batches(source, **options)])
    return found.permute(0, 1, 3, 4, 2).numpy()


@pytest.mark.parametrize(("frames", "stride"), [(4, 1), (5, 2), (12, 1), (1, 1)])
def test_without_shuffle_a_clip_is_in_the_middle(folder, videos, frames, stride):
    room = FRAMES - ((frames - 1) * stride + 1)
    begin = min(int(0.5 * (room + 1)), room)
    wanted = in_folder_order(videos)[:, begin : begin + frames * stride : stride]
    assert (images(folder, frames=frames, stride=stride) == wanted).all()


def test_a_short_video_repeats_its_last_frame(folder, videos):
    found = images(folder, frames=16)
    assert (found[:, :FRAMES] == in_folder_order(videos)).all()
    assert (found[:, FRAMES:] == in_folder_order(videos)[:, -1:]).all()
    assert (images(folder, frames=4, stride=5)[..., 0, 0, 0] == [0, 5, 10, 11]).all()


def test_clips_of_a_video_are_spread_evenly(folder):
    first = images(folder, frames=4, clips_per_video=3)[:, 0, 0, 0, 0]
    assert first.tolist() == [0, 4, 8] * VIDEOS


def test_random_places_depend_on_seed_epoch_and_sample_alone(folder):
    def starts(**options):
        loader = package.Loader(folder, 4, frames=3, dtype="uint8", framework="torch", clips_per_video=2, **options)
        return [[(b["index"].tolist(), b["image"][:, :, 0, 0, 0].tolist()) for b in loader] for _ in range(3)]

    one = starts(seed=4, workers=0)
    assert one == starts(seed=4, workers=3)
    assert one != starts(seed=5, workers=0)
    places = {clip[0] for epoch in one for _, clips in epoch for clip in clips}
    assert len(places) >= 7, places  # of the ten that there are
    for epoch in one:
        assert all(clip == [clip[0], clip[0] + 1, clip[0] + 2] for _, clips in epoch for clip in clips)


def test_resuming_and_ranks_give_the_same_clips(folder):
    options = {"frames": 3, "seed": 9, "dtype": "uint8", "framework": "torch", "ops": [ours.RandomHorizontalFlip()]}
    whole = [b["image"].clone() for b in package.Loader(folder, 2, **options)]
    loader = package.Loader(folder, 2, workers=2, **options)
    next(iter(loader))
    state = loader.state_dict()
    other = package.Loader(folder, 2, workers=0, **options)
    other.load_state_dict(state)
    assert all((a == b["image"]).all() for a, b in zip(whole[1:], other, strict=True))
    ranks = [list(package.Loader(folder, 1, rank=rank, world_size=2, **options)) for rank in range(2)]
    for batch, *parts in zip(whole, *ranks, strict=True):
        assert (batch == torch.cat([part["image"] for part in parts])).all()


OPS = {
    "resize": ([ours.Resize(20), ours.CenterCrop(18)], [v2.Resize(20, antialias=True), v2.CenterCrop(18)]),
    "size": ([ours.Resize((17, 29))], [v2.Resize((17, 29), antialias=True)]),
    "grayscale": ([ours.Grayscale(3), ours.CenterCrop(30)], [v2.Grayscale(3), v2.CenterCrop(30)]),
}


@pytest.mark.parametrize("name", OPS)
def test_ops_are_torchvisions_on_videos(folder, videos, name):
    mine, theirs = OPS[name]
    found = torch.from_numpy(images(folder, frames=FRAMES, ops=mine)).permute(0, 1, 4, 2, 3)
    # torchvision's Grayscale does not change a Video (findings/torchvision_grayscale_video.sh).
    kind = tv_tensors.Image if name == "grayscale" else tv_tensors.Video
    wanted = v2.Compose(theirs)(kind(torch.from_numpy(in_folder_order(videos)).permute(0, 1, 4, 2, 3)))
    assert found.shape == wanted.shape
    assert (found.int() - wanted.int()).abs().max() <= 1


RANDOM = [ours.RandomResizedCrop(24), ours.RandomHorizontalFlip(), ours.ColorJitter(0.4, 0.4, 0.4, 0.1), ours.RandomRotation(20),
          ours.RandomErasing(p=1), ours.GaussianBlur(3), ours.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.1])]


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_all_frames_get_the_same_draws(tmp_path, dtype):
    still = np.repeat(draw_videos(np.dtype(dtype).type)[:, :1], FRAMES, axis=1)
    np.savez(tmp_path / "still.npz", images=still, labels=np.arange(VIDEOS))
    ops = RANDOM if dtype == "uint8" else RANDOM[:-3] + RANDOM[-1:]
    (batch,) = batches(tmp_path / "still.npz", frames=4, shuffle=True, dtype="float32", ops=ops)
    clips = batch["image"]
    assert clips.shape == (VIDEOS, 4, 3, 24, 24)
    assert (clips == clips[:, :1]).all()
    assert not (clips[0] == clips[1]).all()
    # And these are the draws of an image in the place of the clip.
    np.savez(tmp_path / "image.npz", images=still[:, 0], labels=np.arange(VIDEOS))
    (single,) = batches(tmp_path / "image.npz", shuffle=True, dtype="float32", ops=ops)
    assert (clips[:, 0] == single["image"]).all()


def test_a_range_is_that_of_the_whole_clip(tmp_path):
    volumes = draw_videos(np.uint16, 1)[..., 0]
    np.savez(tmp_path / "v.npz", images=volumes, labels=np.arange(VIDEOS))
    (batch,) = batches(tmp_path / "v.npz", frames=FRAMES, dtype="float32", ops=[ours.NormalizeRange()])
    low = volumes.min((1, 2, 3), keepdims=True).astype(np.float32)
    high = volumes.max((1, 2, 3), keepdims=True).astype(np.float32)
    assert batch["image"].shape == (VIDEOS, FRAMES, 1, HEIGHT, WIDTH)
    np.testing.assert_allclose(batch["image"][:, :, 0].numpy(), (volumes - low) / (high - low), atol=1e-5)


def write_hdf5(path, array, **options):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=array, **options)
        file.create_dataset("labels", data=np.arange(len(array)))
    return path


CHUNKS = [None, (1, 1, HEIGHT, WIDTH), (1, 5, HEIGHT, WIDTH), (2, 3, 16, 20), (1, FRAMES, HEIGHT, WIDTH), (VIDEOS, 1, 7, WIDTH)]


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_hdf5_reads_the_chunks_of_its_frames(tmp_path, chunks, compression):
    if chunks is None and compression:
        pytest.skip("contiguous data have no filters")
    volumes = draw_videos(np.uint16, 1)[..., 0]
    options = {"chunks": chunks, "compression": compression, "shuffle": bool(compression)} if chunks else {}
    path = write_hdf5(tmp_path / "v.h5", volumes, **options)
    ops = [ours.ToFloat(scale=False)]
    found = images(path, frames=3, stride=2, dtype="float32", ops=ops)[..., 0]
    assert (found == volumes[:, 4:9:2]).all()


@pytest.mark.parametrize("layout", ["thwc", "tchw", "fortran", "big"])
def test_arrays_of_clips(tmp_path, videos, layout):
    stored = {"thwc": videos, "tchw": np.ascontiguousarray(np.moveaxis(videos, -1, 2)), "fortran": np.asfortranarray(videos),
              "big": videos.astype(">u2")}[layout]
    np.savez(tmp_path / "v.npz", images=stored, labels=np.arange(VIDEOS))
    options = {"dtype": "float32", "ops": [ours.ToFloat(scale=False)]} if layout == "big" else {}
    assert (images(tmp_path / "v.npz", frames=4, **options) == videos[:, 4:8]).all()
    assert (images(tmp_path / "v.npz", **options) == videos).all()  # all frames; five sides are clips in any case


@pytest.mark.parametrize("fortran", [False, True])
def test_a_folder_of_volumes(tmp_path, fortran):
    volumes = draw_videos(np.uint16, 1)[..., 0]
    for n, volume in enumerate(volumes):
        (tmp_path / f"class{n % 2}").mkdir(exist_ok=True)
        np.save(tmp_path / f"class{n % 2}" / f"v{n}.npy", np.asfortranarray(volume[: FRAMES - n]) if fortran else volume[: FRAMES - n])
    found = images(tmp_path, frames=6, dtype="float32", ops=[ours.ToFloat(scale=False)])[..., 0]
    for n, volume in zip([0, 2, 4, 1, 3, 5], found, strict=True):
        begin = min(int(0.5 * (FRAMES - n - 6 + 1)), FRAMES - n - 6)
        assert (volume == volumes[n, begin : begin + 6]).all()
    sample = package.open(tmp_path, clips=True)[1]
    assert sample["key"] == "class0/v2.npy" and (sample["image"][..., 0] == volumes[2, : FRAMES - 2]).all()


def test_masks_of_volumes_follow_their_slices(tmp_path):
    volumes = draw_videos(np.uint16, 1)[..., 0]
    masks = (volumes > 2000).astype(np.uint8)
    np.savez(tmp_path / "v.npz", images=volumes, masks=masks, labels=np.arange(VIDEOS))
    data = package.open(tmp_path / "v.npz", fields={"mask": ("masks", "mask")}, clips=True)
    ops = [ours.RandomCrop(20), ours.RandomHorizontalFlip(), ours.ToFloat(scale=False)]
    (batch,) = batches(data, frames=5, shuffle=True, dtype="float32", ops=ops)
    assert batch["mask"].shape == (VIDEOS, 5, 20, 20)
    assert (batch["mask"] == (batch["image"][:, :, 0] > 2000)).all()


def test_masks_of_other_slices_are_bad_samples(tmp_path):
    volumes = draw_videos(np.uint16, 1)[..., 0]
    np.savez(tmp_path / "v.npz", images=volumes, masks=np.zeros_like(volumes[:, 1:], np.uint8), labels=np.arange(VIDEOS))
    data = package.open(tmp_path / "v.npz", fields={"mask": ("masks", "mask")}, clips=True)
    with pytest.raises(package.DataError, match="a mask for each of 12 slices"):
        list(package.Loader(data, 2, frames=5, bad_samples=0))


def test_frames_of_two_types(tmp_path, videos):
    import tifffile

    write_frames(tmp_path, videos[:2])
    tifffile.imwrite(tmp_path / "class0" / "clip0" / "frame_3.tif", np.zeros((HEIGHT, WIDTH, 3), np.uint16))
    (tmp_path / "class0" / "clip0" / "frame_3.png").unlink()
    with pytest.raises(package.DataError, match="one size and type"):
        package.open(tmp_path, clips=True)[0]


@pytest.mark.parametrize("setting", ["stride", "clips_per_video"])
def test_settings_without_frames_are_refused(folder, setting):
    with pytest.raises(package.InvalidArgument, match="frames"):
        package.Loader(package.open(folder, clips=True), 2, **{setting: 2})


@pytest.mark.parametrize("cache", ["ram", "disk"])
def test_a_cache_keeps_whole_videos(folder, cache, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = {"frames": 3, "seed": 1, "dtype": "uint8", "framework": "torch", "ops": [ours.RandomCrop(16)]}
    plain, cached = (package.Loader(folder, 4, cache=kind, **options) for kind in ("none", cache))
    for _ in range(3):
        for one, other in zip(plain, cached, strict=True):
            assert (one["image"] == other["image"]).all() and one["key"] == other["key"]


def test_a_damaged_frame_is_a_bad_sample(tmp_path, videos):
    write_frames(tmp_path, videos)
    (tmp_path / "class0" / "clip2" / "frame_5.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    loader = package.Loader(tmp_path, VIDEOS, frames=FRAMES, shuffle=False, bad_samples=1, dtype="uint8", framework="torch")
    with pytest.warns(package.BadSampleWarning):
        (batch,) = list(loader)
    (bad,) = loader.bad_samples.values()
    assert bad.key == "class0/clip2" and "frame 5 " in bad.reason
    assert (batch["image"][1] == batch["image"][bad.replaced_by]).all()


def test_frames_of_several_sizes_are_a_bad_sample(tmp_path, videos):
    write_frames(tmp_path, videos)
    Image.new("RGB", (50, 50)).save(tmp_path / "class1" / "clip1" / "frame_3.png")
    loader = package.Loader(tmp_path, 2, frames=FRAMES, shuffle=False, bad_samples=1, ops=[ours.RandomResizedCrop(16)])
    with pytest.warns(package.BadSampleWarning, match="frames of 44 x 36"):
        list(loader)
    assert [bad.key for bad in loader.bad_samples.values()] == ["class1/clip1"]


def test_without_a_resize_frames_of_several_sizes_are_bad_too(tmp_path, videos, stoker):
    write_frames(tmp_path / "data", videos)
    Image.new("RGB", (50, 50)).save(tmp_path / "data" / "class1" / "clip1" / "frame_3.png")
    loader = package.Loader(tmp_path / "data", 2, frames=FRAMES, shuffle=False, bad_samples=1)
    with pytest.warns(package.BadSampleWarning):
        list(loader)
    found = stoker("inspect", tmp_path / "data", "--clips", "--verify", "--json", status=1).json()
    assert [bad["key"] for bad in found["bad"]] == ["class1/clip1"]


def test_single_images_are_refused(tmp_path, videos):
    (tmp_path / "class").mkdir()
    Image.fromarray(videos[0, 0]).save(tmp_path / "class" / "a.png")
    with pytest.raises(package.DataError, match="class/clip/000.jpg"):
        package.Loader(tmp_path, 2, frames=4)
    np.savez(tmp_path / "images.npz", images=videos[:, 0], labels=np.arange(VIDEOS))
    with pytest.raises(package.InvalidArgument, match="single images"):
        package.Loader(package.open(tmp_path / "images.npz"), 2, frames=4)


@pytest.mark.parametrize("codec", ["keep", "dct"])
def test_packing_keeps_every_frame(jpegs, tmp_path, codec, stoker):
    target = tmp_path / "clips.stk"
    package.pack(package.open(jpegs, clips=True), target, codec=codec)
    data = package.open(target)
    assert [data.key(i) for i in range(VIDEOS)] == [f"class{n % 2}/clip{n}" for n in (0, 2, 4, 1, 3, 5)]
    ops = [ours.RandomResizedCrop(16), ours.RandomHorizontalFlip()]
    for options in ({"shuffle": False}, {"shuffle": True, "seed": 3, "ops": ops, "stride": 2}):
        one, other = (images(source, frames=4, **options) for source in (jpegs, target))
        assert (one == other).all()
    stoker("unpack", target, tmp_path / "out")
    for path in sorted(jpegs.rglob("*.jpg")):
        number = int(path.stem.removeprefix("frame_"))
        assert (tmp_path / "out" / path.relative_to(jpegs).parent / f"{number:02}.jpg").read_bytes() == path.read_bytes()


def test_packing_volumes(tmp_path, stoker):
    volumes = draw_videos(np.uint16, 1)[..., 0]
    path = write_hdf5(tmp_path / "v.h5", volumes)
    stoker("pack", path, tmp_path / "v.stk", "--clips")
    for n, volume in enumerate(volumes):
        assert (package.open(tmp_path / "v.stk")[n]["image"][..., 0] == volume).all()
    stoker("unpack", tmp_path / "v.stk", tmp_path / "out")
    assert (np.load(tmp_path / "out" / "3" / "3.npy") == volumes[3]).all()
    with pytest.raises(package.InvalidArgument, match="data.stk"):
        package.pack(package.open(path, clips=True), tmp_path / "v.npz")
    np.savez(tmp_path / "m.npz", images=volumes, masks=(volumes > 9).astype(np.uint8), labels=np.arange(VIDEOS))
    with pytest.raises(package.InvalidArgument, match="fields"):
        package.pack(package.open(tmp_path / "m.npz", fields={"mask": ("masks", "mask")}, clips=True), tmp_path / "m.stk")
    assert not (tmp_path / "m.stk").exists()


def test_inspect_and_show(folder, stoker, tmp_path):
    found = stoker("inspect", folder, "--clips", "--verify", "--json").json()
    assert found["samples"] == VIDEOS and found["fields"]["image"]["frames"] == [FRAMES, FRAMES]
    stoker("show", folder, "--clips", "-o", tmp_path / "grid.png")
    stoker("show", folder, "--clips", "--index", "1", "--npy", tmp_path / "one.npy")
    assert np.load(tmp_path / "one.npy").shape == (FRAMES, HEIGHT, WIDTH, 3)


class Video(torch.nn.Module):
    """torchvision's model for clips as batches have them."""

    def __init__(self, classes):
        super().__init__()
        torch.manual_seed(0)
        self.net = torchvision.models.video.r3d_18(num_classes=classes)

    def forward(self, clips):
        return self.net(clips.transpose(1, 2))


RECIPE = """
device = "cpu"
[data]
train = "v.npz"
batch_size = 2
shuffle = false
frames = 4
[model]
name = "r3d_18"
weights = "start.safetensors"
[optimizer]
name = "sgd"
lr = 0.01
[train]
epochs = 1
threads = 1
channels_last = %s
"""


@pytest.mark.parametrize("channels_last", [False, True])
def test_r3d_18_learns_as_torchvisions(stoker, tmp_path, monkeypatch, channels_last):
    monkeypatch.chdir(tmp_path)
    steps = 20
    random = np.random.default_rng(1)
    clips = random.integers(0, 256, (2 * steps, 4, 24, 24, 3), dtype=np.uint8)
    labels = np.arange(2 * steps) % 3
    np.savez("v.npz", images=clips, labels=labels)
    reference = Video(3).train()
    save_file(reference.net.state_dict(), "start.safetensors")
    (tmp_path / "r.toml").write_text(RECIPE % str(channels_last).lower())
    stoker("train", "r.toml", "--out", "run")
    losses = [line["loss"] for line in map(json.loads, open("run/metrics.jsonl")) if line["type"] == "step"]
    torch.set_num_threads(1)
    if channels_last:
        reference = reference.to(memory_format=torch.channels_last_3d)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.01)
    theirs = []
    for step in range(steps):
        batch = torch.from_numpy(clips[2 * step : 2 * step + 2]).permute(0, 1, 4, 2, 3).contiguous() * torch.tensor(1 / 255)
        if channels_last:
            batch = batch.transpose(1, 2).contiguous(memory_format=torch.channels_last_3d).transpose(1, 2)
        loss = torch.nn.functional.cross_entropy(reference(batch), torch.from_numpy(labels[2 * step : 2 * step + 2]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    assert losses == pytest.approx(theirs, rel=1e-5)


def test_a_recipe_learns_from_folders_of_frames(stoker, jpegs, tmp_path):
    (tmp_path / "r.toml").write_text(f"""
device = "cpu"
[data]
train = "{jpegs}"
val = "{jpegs}"
batch_size = 2
frames = 4
stride = 2
clips_per_video = 2
train_ops = [{{op = "random_resized_crop", size = 24}}, {{op = "horizontal_flip"}}, {{op = "normalize", preset = "imagenet"}}]
val_ops = [{{op = "resize", size = 24}}, {{op = "center_crop", size = 24}}, {{op = "normalize", preset = "imagenet"}}]
[model]
name = "r3d_18"
[train]
epochs = 2
""")
    result = stoker("train", tmp_path / "r.toml", "--out", tmp_path / "run", "--json").json()
    assert len(result["epochs"]) == 2 and 0 <= result["epochs"][-1]["val_accuracy"] <= 1
    steps = [line for line in map(json.loads, open(tmp_path / "run" / "metrics.jsonl")) if line["type"] == "step"]
    assert len(steps) == 2 * VIDEOS  # two clips of each video, two in a batch


def test_models_for_images_are_refused(stoker, jpegs, tmp_path):
    (tmp_path / "r.toml").write_text(f'device = "cpu"\n[data]\ntrain = "{jpegs}"\nframes = 4\n[model]\nname = "resnet18"\n')
    done = stoker("train", tmp_path / "r.toml", "--out", tmp_path / "run", status=1)
    assert "r3d_18" in done.err


@pytest.mark.parametrize("names", ["{clip}/{t}.png", "{clip}.{t}.png"])
def test_members_of_a_tar(tmp_path, videos, names):

    with tarfile.open(tmp_path / "v.tar", "w") as tar:
        for n, video in enumerate(videos):
            files = [(f"video{n}.cls", str(n % 2).encode())]
            for t in np.random.default_rng(n).permutation(FRAMES):  # in any order
                data = io.BytesIO()
                Image.fromarray(video[t]).save(data, "png")
                files.append((names.format(clip=f"video{n}", t=t), data.getvalue()))
            for name, content in files:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    (batch,) = batches(tmp_path / "v.tar", frames=4, stride=2)
    begin = min(int(0.5 * (FRAMES - 7 + 1)), FRAMES - 7)
    assert (batch["image"].permute(0, 1, 3, 4, 2).numpy() == videos[:, begin : begin + 8 : 2]).all()
    assert batch["key"] == [f"video{n}" for n in range(VIDEOS)] and batch["label"].tolist() == [0, 1] * 3


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_pages_of_tiffs(tmp_path, compression):
    import tifffile

    volumes = draw_videos(np.uint16, 1)[..., 0]
    for n, volume in enumerate(volumes):
        (tmp_path / f"class{n % 2}").mkdir(exist_ok=True)
        with tifffile.TiffWriter(tmp_path / f"class{n % 2}" / f"v{n}.tif") as file:
            for page in volume:
                file.write(page, compression=compression, contiguous=False)
                file.write(page[::4, ::4], subfiletype=1)  # a thumbnail
    found = images(tmp_path, frames=5, stride=2, dtype="float32", channels=1, ops=[ours.ToFloat(scale=False)])[..., 0]
    begin = min(int(0.5 * (FRAMES - 9 + 1)), FRAMES - 9)
    assert (found == in_folder_order(volumes)[:, begin : begin + 9 : 2]).all()
