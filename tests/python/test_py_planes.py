# Images that are not uint8, or have more than four channels: pixels against torchvision v2's on tensors of the same type.
import json
import struct
import zlib

import numpy as np
import pytest
import stoker as package
import torch
import torchvision
from PIL import Image
from safetensors.numpy import save_file
from stoker import transforms as ours
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

COUNT, HEIGHT, WIDTH = 5, 37, 52
TYPES = {"uint16": 65535, "int16": 32767, "float16": 1, "float32": 1}


def draw(dtype, channels=3, seed=1):
    """Smooth images and noise, as (N, C, H, W)."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    waves = [np.sin(x / (3 + c) + i) * np.cos(y / (5 + i)) for i in range(COUNT) for c in range(channels)]
    values = np.array(waves).reshape(COUNT, channels, HEIGHT, WIDTH) * 0.4 + 0.5 + random.uniform(-0.1, 0.1, (1, 1, HEIGHT, WIDTH))
    top = TYPES.get(dtype, 255)
    values = values * top
    if dtype == "int16":
        values -= 16384
    return values.astype(dtype) if dtype != "uint16" else np.rint(values).astype(np.uint16)


RECIPE_OF_GREY = """
device = "cpu"
[data]
train = "{path}"
batch_size = 2
[model]
name = "resnet18"
weights = "rgb.pth"
stem = "imagenet"
[train]
epochs = 1
"""


@pytest.fixture
def write(tmp_path):
    def write(images, layout="chw", ending="npz"):
        stored = np.ascontiguousarray(images if layout == "chw" else np.moveaxis(images, 1, -1))
        arrays = {"images": stored, "labels": np.arange(len(images))}
        path = tmp_path / f"data.{ending}"
        if ending == "npz":
            np.savez(path, **arrays)
        elif ending == "safetensors":
            save_file(arrays, path)
        else:
            h5py = pytest.importorskip("h5py")
            with h5py.File(path, "w") as file:
                for name, array in arrays.items():
                    file.create_dataset(name, data=array, **({"chunks": (1, *array.shape[1:]), "compression": "gzip"} if array.ndim > 1 else {}))
        return path

    return write


def batch(path, ops, **options):
    loader = package.Loader(path, COUNT, ops=ops, shuffle=False, framework="torch", **options)
    (found,) = list(loader)
    assert found["label"].tolist() == list(range(COUNT))
    return found["image"]


def scaled(image, dtype):
    """As a model gets it, in [0, 1] of its type."""
    return image.to(torch.float64) / TYPES[dtype]


GEOMETRY = {
    "none": ([], lambda image: image),
    "crop": ([ours.CenterCrop((20, 31))], lambda image: F.center_crop(image, [20, 31])),
    "padded": ([ours.CenterCrop((45, 60))], lambda image: F.center_crop(image, [45, 60])),
    "smaller": ([ours.Resize((17, 23))], lambda image: F.resize(image, [17, 23], antialias=True)),
    "larger": ([ours.Resize((61, 70))], lambda image: F.resize(image, [61, 70], antialias=True)),
    "bicubic": (
        [ours.Resize((29, 60), interpolation="bicubic")],
        lambda image: F.resize(image, [29, 60], interpolation=v2.InterpolationMode.BICUBIC, antialias=True),
    ),
    "flips": (
        [ours.RandomHorizontalFlip(1), ours.RandomVerticalFlip(1)],
        lambda image: F.vertical_flip(F.horizontal_flip(image)),
    ),
    "resize, crop, flip": (
        [ours.Resize(24), ours.CenterCrop(20), ours.RandomHorizontalFlip(1)],
        lambda image: F.horizontal_flip(F.center_crop(F.resize(image, [24], antialias=True), [20])),
    ),
    "rotation": (
        [ours.RandomRotation((33, 33), interpolation="bilinear")],
        lambda image: F.rotate(image, 33, interpolation=v2.InterpolationMode.BILINEAR, fill=[0.0]),
    ),
    "nearest rotation": ([ours.RandomRotation((-71, -71))], lambda image: F.rotate(image, -71)),
    "affine": (
        [ours.RandomAffine((11, 11), scale=(1.2, 1.2), shear=(7, 7, 0, 0), interpolation="bilinear")],
        lambda image: F.affine(image, 11, [0, 0], 1.2, [7, 0], interpolation=v2.InterpolationMode.BILINEAR, fill=[0.0]),
    ),
    "blur": ([ours.GaussianBlur((5, 3), sigma=(1.5, 1.5))], lambda image: F.gaussian_blur(image, [5, 3], [1.5, 1.5])),
}  # fmt: skip


# torchvision rounds whole numbers, to half a level of 65536; of float16 its results are cut to 11 bits.
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", GEOMETRY)
def test_geometry_is_torchvisions(write, case, dtype):
    ops, theirs = GEOMETRY[case]
    images = draw(dtype)
    found = batch(write(images), ops)
    given = torch.from_numpy(images)
    if dtype == "uint16":  # torchvision's resize cuts off its fractions, and wraps bicubic values beyond it
        expected = scaled(theirs(given.float()).clamp(0, 65535), dtype)
    else:
        expected = scaled(theirs(given.float() if dtype == "float16" else given), dtype)
    assert found.dtype == torch.float32 and found.shape == expected.shape
    # A nearest position between two pixels may fall to either.
    differs = (found.double() - expected).abs() > (1e-5 if dtype != "int16" else 2e-5)  # 1e-5 of the range
    assert differs.double().mean() <= (0.01 if case == "nearest rotation" else 0), (found.double() - expected).abs().max()


@pytest.mark.parametrize("ending", ["npz", "safetensors", "h5"])
@pytest.mark.parametrize("layout", ["chw", "hwc"])
@pytest.mark.parametrize(("dtype", "channels"), [("uint16", 1), ("int16", 13), ("float32", 32), ("uint8", 7)])
def test_every_layout_and_number_of_channels(write, ending, layout, dtype, channels):
    images = draw(dtype, channels)
    path = write(images, layout, ending)
    found = batch(path, [ours.CenterCrop(16)])
    expected = torch.from_numpy(images)[:, :, 10:26, 18:34].to(torch.float64) / {**TYPES, "uint8": 255}[dtype]
    assert (found.double() - expected).abs().max() <= 1e-6
    sample = package.open(path)[2]["image"]
    assert sample.dtype == dtype and np.array_equal(sample, np.moveaxis(images[2], 0, -1))


def test_one_order_for_any_number_of_workers(write):
    path = write(draw("uint16"))
    ops = [ours.RandomResizedCrop(16), ours.RandomHorizontalFlip(), ours.ColorJitter(0.4, 0.4, 0.4, 0.1), ours.RandomErasing()]
    one = [b["image"] for b in package.Loader(path, 2, ops=ops, seed=3, workers=1, framework="torch")]
    two = [b["image"] for b in package.Loader(path, 2, ops=ops, seed=3, workers=2, framework="torch", cache="ram")]
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def solarized(image):
    top = 1 if image.is_floating_point() else 65535 if image.dtype == torch.uint16 else 32767
    return F.solarize(image.double() / top, 0.4) * top  # torch does not compare uint16


COLOURS = {
    "brightness": (ours.ColorJitter(brightness=(1.3, 1.3)), lambda image: F.adjust_brightness(image, 1.3)),
    "contrast": (ours.ColorJitter(contrast=(0.6, 0.6)), lambda image: F.adjust_contrast(image, 0.6)),
    "saturation": (ours.ColorJitter(saturation=(1.7, 1.7)), lambda image: F.adjust_saturation(image, 1.7)),
    "hue": (ours.ColorJitter(hue=(0.2, 0.2)), lambda image: F.adjust_hue(image, 0.2)),
    "grey": (ours.RandomGrayscale(1), lambda image: F.rgb_to_grayscale(image, 3)),
    "invert": (ours.RandomInvert(1), F.invert),
    "posterize": (ours.RandomPosterize(3, p=1), lambda image: F.posterize(image, 3)),
    "solarize": (ours.RandomSolarize(102, p=1), solarized),
    "autocontrast": (ours.RandomAutocontrast(1), F.autocontrast),
    "equalize": (ours.RandomEqualize(1), F.equalize),
    "smooth": (ours.RandomAdjustSharpness(0.3, p=1), lambda image: F.adjust_sharpness(image, 0.3)),
    "sharp": (ours.RandomAdjustSharpness(1.7, p=1), lambda image: F.adjust_sharpness(image, 1.7)),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", COLOURS)
def test_colours_are_torchvisions(write, case, dtype):
    op, theirs = COLOURS[case]
    images = draw(dtype)
    images = (np.abs(images) if dtype == "int16" else images.clip(0, TYPES[dtype])).astype(dtype)
    given = torch.from_numpy(images)
    expected = scaled(theirs(given.float() if dtype == "float16" else given), dtype)
    assert (batch(write(images), [op]).double() - expected).abs().max() <= (3e-5 if dtype != "int16" else 7e-5)


def test_constant_channels(write):
    images = np.full((COUNT, 3, HEIGHT, WIDTH), 2, np.float32)
    images[:, 1] = 0.25
    for op, theirs in [(ours.RandomAutocontrast(1), F.autocontrast), (ours.RandomEqualize(1), F.equalize)]:
        images = images.clip(0, 1) if theirs is F.equalize else images
        assert (batch(write(images), [op]) - theirs(torch.from_numpy(images))).abs().max() <= 1e-6


def test_values_for_the_model(write):
    images = draw("int16")
    path = write(images)
    given = torch.from_numpy(images).double()
    window = ((given - (-500 - 1000)) / 2000).clamp(0, 1)
    assert (batch(path, [ours.Window(-500, 2000)]) - window).abs().max() <= 1e-6
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1.0, 2.0, 4.0])
    normalised = ((window - mean[:, None, None]) / std[:, None, None]).float()
    ops = [ours.Window(-500, 2000), ours.Normalize(mean.tolist(), std.tolist())]
    assert (batch(path, ops) - normalised).abs().max() <= 1e-6
    assert (batch(path, [ours.ToFloat(scale=False)]) - given).abs().max() == 0
    low, high = given.amin((1, 2, 3), keepdim=True), given.amax((1, 2, 3), keepdim=True)
    assert (batch(path, [ours.NormalizeRange()]) - (given - low) / (high - low)).abs().max() <= 1e-6
    low, high = (torch.from_numpy(np.percentile(images, p, axis=(2, 3), keepdims=True)) for p in (5, 90))
    found = batch(path, [ours.NormalizeRange((5, 90), channel_wise=True)])
    assert (found - ((given - low) / (high - low)).clamp(0, 1)).abs().max() <= 1e-5


def test_bytes_run_as_planes_where_ops_need_floats(write):
    images = draw("uint8")
    found = batch(write(images), [ours.Resize((20, 24)), ours.Window(128, 100)])
    resized = F.resize(torch.from_numpy(images), [20, 24], antialias=True).double()
    assert ((resized - 78) / 100).clamp(0, 1).sub(found).abs().max() <= 0.0101  # a level of another rounding


def test_a_crop_of_bytes_is_exact(pngs, tmp_path):
    folder, pixels = pngs
    for path in folder.glob("*/*.png"):
        Image.fromarray((pixels[0] >> 8).astype(np.uint8)).save(path)
    found = images_of(folder, [ours.RandomHorizontalFlip(1), ours.CenterCrop((20, 30)), ours.Window(128, 100)])
    given = torch.from_numpy((pixels[0] >> 8).astype(np.float32)).permute(2, 0, 1)
    expected = F.center_crop(F.horizontal_flip(given), [20, 30])
    assert (((expected - 78) / 100).clamp(0, 1) - found).abs().max() <= 1e-6


# Missing values are often NaN.
def test_values_that_are_not_finite_do_not_count(write, stoker):
    images = draw("float32")
    images[:, :, 3, 4], images[:, :, 5, 6] = np.nan, np.inf
    path = write(images)
    for op in (ours.NormalizeRange(), ours.NormalizeRange((0, 100), channel_wise=True)):
        found = batch(path, [op])
        finite = torch.from_numpy(np.isfinite(images))
        assert found[finite].min() == 0 and found[finite].max() == 1 and found[~finite].isnan().any()
    batch(path, [ours.ColorJitter(hue=(0.2, 0.2))])
    stoker("show", path)
    low, high = images[np.isfinite(images)].min(), images[np.isfinite(images)].max()
    found = stoker("inspect", path, "--json").json()["fields"]["image"]["range"]
    assert found == pytest.approx([low, high])


def test_further_images_of_any_type(write, stoker, tmp_path):
    depth = draw("uint16", 1)
    np.savez(tmp_path / "x.npz", images=np.moveaxis(draw("uint8"), 1, -1), depth=np.moveaxis(depth, 1, -1), labels=np.arange(COUNT))
    data = package.open(tmp_path / "x.npz", fields={"depth": ("depth", "image")})
    assert data[1]["depth"].dtype == np.uint16
    loader = package.Loader(data, COUNT, ops=[ours.CenterCrop(16)], shuffle=False, framework="torch")
    (found,) = list(loader)
    expected = torch.from_numpy(depth)[:, :, 10:26, 18:34].double() / 65535
    assert (found["depth"].double() - expected).abs().max() <= 1e-6 and found["image"].shape == (COUNT, 3, 16, 16)
    assert stoker("inspect", "x.npz", "--verify", "--field", "depth:image", "--json").json()["bad"] == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_other_types_of_batches(write, dtype):
    images = draw("uint16")
    found = batch(write(images), [], dtype=dtype)
    assert found.dtype == getattr(torch, dtype)
    assert torch.equal(found, (torch.from_numpy(images).float() * np.float32(1 / 65535)).to(found.dtype))


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_grey_arrays_as_rgb(write, stoker, dtype):
    path = write(draw(dtype, 1))
    ops = [ours.RandomCrop(20), ours.RandomHorizontalFlip()]
    for cache in ("none", "ram"):
        grey, rgb = (batch(path, ops, channels=channels, cache=cache, seed=3) for channels in (None, 3))
        assert grey.shape[1] == 1 and torch.equal(rgb, grey.expand(-1, 3, -1, -1))
    # A model of RGB images gets them as such, and weights of RGB images for grey ones name the key.
    torch.save(torchvision.models.resnet18(num_classes=COUNT).state_dict(), path.parent / "rgb.pth")
    recipe = RECIPE_OF_GREY.format(path=path)
    (path.parent / "r.toml").write_text(recipe)
    assert "data.channels = 3" in stoker("train", "r.toml", "--out", "grey", status=1).err
    stoker("train", "r.toml", "--out", "run", "--set", "data.channels=3")
    assert len(stoker("predict", "run", path).out.splitlines()) == COUNT + 1


def test_batches_of_bytes_are_refused(write):
    with pytest.raises(package.InvalidArgument):
        batch(write(draw("uint16")), [], dtype="uint8")


@pytest.mark.parametrize(("dtype", "order"), [(">u2", "C"), ("<u2", "F"), (">f4", "F"), (">i2", "C"), ("<f8", "C")])
def test_byte_order_and_fortran_order(tmp_path, dtype, order):
    images = draw(np.dtype(dtype).newbyteorder("=").name, 3)
    np.save(tmp_path / "data.npy", np.asarray(images.astype(dtype), order=order))
    sample = package.open(tmp_path / "data.npy")[1]["image"]
    assert np.array_equal(sample, np.moveaxis(images[1], 0, -1).astype(np.dtype(dtype).newbyteorder("=")))


# Byte images keep 255 as white where the image overshoots, and so do others.
def test_what_a_bicubic_resize_overshoots_is_limited(write):
    images = np.zeros((COUNT, 1, HEIGHT, WIDTH), np.uint16)
    images[..., WIDTH // 2 :] = 65535
    found = batch(write(images), [ours.Resize((80, 99), interpolation="bicubic")])
    assert found.min() == 0 and found.max() == 1
    floats = batch(write(images.astype(np.float32)), [ours.Resize((80, 99), interpolation="bicubic")])
    assert floats.min() < 0 and floats.max() > 65535


@pytest.fixture
def pngs(tmp_path):
    """Of 16 bits, grey and colour, in two classes; and their pixels as (H, W, 3)."""
    pixels = []
    for name, channels in [("a/grey", 1), ("b/colour", 3)]:
        image = np.moveaxis(draw("uint16", channels)[0], 0, -1)
        path = tmp_path / f"photos/{name}.png"
        path.parent.mkdir(parents=True)
        write_png(path, image)
        pixels.append(np.broadcast_to(image, (*image.shape[:2], 3)))
    return tmp_path / "photos", np.array(pixels)


def write_png(path, image):
    """Pillow writes no colour of 16 bits."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, channels = image.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in image)
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 3: 2}[channels], 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


def images_of(path, ops=(), **options):
    (found,) = list(package.Loader(path, 2, ops=list(ops), shuffle=False, framework="torch", **options))
    return found["image"]


def test_pngs_of_16_bits_keep_their_depth(pngs):
    folder, pixels = pngs
    assert np.array_equal(package.open(folder)[1]["image"], (pixels[1] >> 8).astype(np.uint8))  # bytes, as of any file
    expected = torch.from_numpy(pixels.astype(np.float64)).permute(0, 3, 1, 2)
    assert (images_of(folder) - expected / 65535).abs().max() <= 1e-7
    weights = torch.tensor([19595, 38470, 7471], dtype=torch.float64)[:, None, None] / 65536
    grey = (expected * weights).sum(1, keepdim=True)
    assert (images_of(folder, channels=1) - grey / 65535).abs().max() <= 1e-5
    high = torch.from_numpy((pixels >> 8).astype(np.uint8)).permute(0, 3, 1, 2)
    assert torch.equal(images_of(folder, dtype="uint8"), high)
    posterized = images_of(folder, [ours.RandomPosterize(8, p=1)])  # the upper 8 of 16 bits
    assert (posterized - high * torch.tensor(256 / 65535)).abs().max() <= 1e-7


RECIPE = """
seed = 3
device = "cpu"
[data]
train = "{data}"
val = "{data}"
batch_size = 10
workers = {workers}
cache = "{cache}"
train_ops = [{{op = "random_crop", size = 24}}, {{op = "horizontal_flip"}}, {{op = "window", center = 0, width = 40000}}]
val_ops = [{{op = "center_crop", size = 24}}, {{op = "window", center = 0, width = 40000}}]
[model]
name = "convnet"
[train]
epochs = 2
deterministic = true
threads = 1
"""


def test_a_recipe_trains_resumes_and_predicts(stoker, tmp_path, write):
    images = np.concatenate([draw("int16", 5, seed) for seed in range(8)])
    images[::2] //= 3
    np.savez(tmp_path / "scans.npz", images=images, labels=np.arange(len(images)) % 2)

    def train(name, *options, workers=1, cache="none"):
        (tmp_path / "r.toml").write_text(RECIPE.format(data="scans.npz", workers=workers, cache=cache))
        return stoker("train", "r.toml", "--out", name, "--json", *options).json()["epochs"]

    whole = train("whole")
    assert [e["val_loss"] for e in train("two", workers=2, cache="ram")] == [e["val_loss"] for e in whole]
    train("halves", "--set", "train.epochs=1")
    resumed = train("halves", "--resume", "auto", "--set", "train.epochs=2")
    assert resumed[-1]["val_loss"] == whole[-1]["val_loss"]
    assert len(stoker("predict", "whole", "scans.npz").out.splitlines()) == len(images) + 1
    stoker("export", "whole", "-o", "whole.pt")
    about = {"stoker.json": ""}
    torch.jit.load(tmp_path / "whole.pt", _extra_files=about)
    assert json.loads(about["stoker.json"])["window"] == [-20000, 20000]
    one_sided = ["--set", 'data.val_ops=[{op = "center_crop", size = 24}]', "--set", "train.epochs=1"]
    assert "window is in data.train_ops only" in stoker("train", "r.toml", "--out", "sides", *one_sided).err
    found = stoker("inspect", "scans.npz", "--json").json()["fields"]["image"]
    assert found["dtype"] == "int16" and found["shape"] == [HEIGHT, WIDTH, 5]
    assert found["range"] == [images[:32].min(), images[:32].max()]
    stoker("show", "scans.npz", "--recipe", "r.toml", "--index", "3", "--npy", "x.npy")
    assert np.load(tmp_path / "x.npy").shape == (5, 24, 24)
    stoker("show", "scans.npz")
    assert "--codec raw" in stoker("pack", "scans.npz", "x.stk", "--codec", "raw", status=1).err


def test_ranges_are_of_samples_spread_evenly(stoker, tmp_path):
    images = np.full((200, 8, 8), 999, np.uint16)
    images[150:] = 7000  # those of the last class
    np.savez(tmp_path / "d.npz", images=images, labels=np.arange(200) // 50)
    for options in ([], ["--verify"]):
        text = stoker("inspect", "d.npz", *options).out
        assert "999 to 7000" in text and "13 bits in 16" in text


def test_prediction_names_other_channels(stoker, tmp_path, write):
    write(draw("uint16", 5)).rename(tmp_path / "five.npz")
    (tmp_path / "r.toml").write_text(RECIPE_OF_GREY.format(path="five.npz").replace('resnet18"', 'convnet"').split("weights")[0] + "[train]\nepochs = 1\n")
    stoker("train", "r.toml", "--out", "run")
    Image.new("RGB", (91, 83)).save(tmp_path / "photo.png")
    err = stoker("predict", "run", "photo.png", status=1).err
    assert "expected images of 5 channels, as in training, got 3" in err and "resize" not in err


def test_predicts_npy_files(stoker, tmp_path):
    for number, image in enumerate(draw("float32", 1)[:, 0]):
        (tmp_path / f"data/{number % 2}").mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / f"data/{number % 2}/{number}.npy", image)
    (tmp_path / "r.toml").write_text("""
device = "cpu"
[data]
train = "data"
batch_size = 2
train_ops = [{op = "normalize_range"}]
val_ops = [{op = "normalize_range", percentiles = [1, 99]}]
[model]
name = "convnet"
[train]
epochs = 1
""")
    stoker("train", "r.toml", "--out", "run")
    assert len(stoker("predict", "run", "data/0/0.npy").out.splitlines()) == 2
    assert len(stoker("predict", "run", "data/0/*.npy", "data/1/1.npy").out.splitlines()) == 2 + len(range(0, COUNT, 2))
    stoker("export", "run", "-o", "net.pt")
    about = {"stoker.json": ""}
    torch.jit.load(tmp_path / "net.pt", _extra_files=about)
    assert json.loads(about["stoker.json"])["normalize_range"] == [1, 99]
    assert "x.stk" in stoker("pack", "data", "d.npz", status=1).err


@pytest.mark.parametrize("dtype", [*TYPES, "uint8"])
@pytest.mark.parametrize("channels", [1, 3, 6])
def test_packing_keeps_every_type(write, stoker, dtype, channels):
    path = write(draw(dtype, channels))
    whole = batch(path, [ours.RandomCrop(20)], seed=2)
    for target in ("x.stk", "x.tar", "x.lmdb", "x.h5"):
        stoker("pack", path, target)
        assert torch.equal(batch(path.parent / target, [ours.RandomCrop(20)], seed=2), whole)
    stoker("unpack", "x.stk", "folder")
    picture = dtype == "uint8" and channels != 6
    endings = {file.suffix for file in (path.parent / "folder").rglob("*.*")}
    assert endings - {".csv", ".txt"} == {".png" if picture else ".npy"}
    options = {"channels": 1} if picture and channels == 1 else {}
    assert torch.equal(batch(path.parent / "folder", [ours.RandomCrop(20)], seed=2, **options), whole)


def test_folders_and_tables_of_arrays(stoker, tmp_path):
    """Arrays next to pictures may be their features, and are left out."""
    images = draw("uint16", 5)
    for number, image in enumerate(images):
        (tmp_path / f"data/{'ab'[number % 2]}").mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / f"data/{'ab'[number % 2]}/{number}.npy", image)
    order = [number for number in range(len(images)) if number % 2 == 0] + [number for number in range(len(images)) if number % 2]
    (found,) = list(package.Loader(tmp_path / "data", COUNT, shuffle=False, framework="torch"))
    np.testing.assert_allclose(found["image"], images[order] / 65535, atol=1e-6)
    rows = [f"{'ab'[number % 2]}/{number}.npy,{number}" for number in range(len(images))]
    (tmp_path / "data/labels.csv").write_text("path,label\n" + "\n".join(rows) + "\n")
    np.testing.assert_allclose(batch(tmp_path / "data/labels.csv", []), images / 65535, atol=1e-6)
    (tmp_path / "data/labels.csv").unlink()
    np.save(tmp_path / "data/a/bad.npy", np.zeros(3))
    bad = stoker("inspect", "data", "--verify", "--json", status=1).json()["bad"]
    assert [sample["key"] for sample in bad] == ["a/bad.npy"]
    Image.new("RGB", (8, 8)).save(tmp_path / "data/a/picture.png")
    samples = stoker("inspect", "data", "--json").json()
    assert samples["class_counts"] == [1, len(images) // 2]


def test_inspect_names_the_window_of_12_bits(stoker, write):
    images = (draw("uint16") >> 4).astype(np.uint16)
    line = next(line for line in stoker("inspect", write(images)).out.splitlines() if "values" in line)
    assert "12 bits in 16" in line and "center = 2048, width = 4096" in line
