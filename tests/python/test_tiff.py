# TIFF: arrays of any type as image files. tifffile and Pillow write and read them as references.
import io
import struct
import zlib

import numpy as np
import pytest
import stoker as package
import tifffile
import torch
from PIL import Image
from stoker import transforms as ours
from torchvision.transforms.v2 import functional as F

HEIGHT, WIDTH = 37, 53
TYPES = {"uint8": 255, "uint16": 65535, "int16": 32767, "float16": 1, "float32": 1, "float64": 1}


def draw(dtype, channels=1, seed=0):
    random = np.random.default_rng(seed)
    shape = (HEIGHT, WIDTH) if channels == 1 else (HEIGHT, WIDTH, channels)
    if np.dtype(dtype).kind == "f":
        return random.normal(size=shape).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data/a").mkdir(parents=True)
    return tmp_path / "data"


def load(folder, ops=(), **options):
    """The batch as (N, H, W, C), in the values of the files."""
    loader = package.Loader(folder, 64, ops=list(ops), shuffle=False, framework="torch", bad_samples=0, **options)
    (batch,) = list(loader)
    return np.moveaxis(batch["image"].numpy(), 1, -1)


def close(found, image, dtype):
    """A grey file gives three equal channels; whole numbers are scaled as by torchvision's to_dtype."""
    expected = np.asarray(image, np.float64).reshape(HEIGHT, WIDTH, -1) / TYPES.get(str(dtype), 1)
    np.testing.assert_allclose(found, np.repeat(expected, 3, -1) if expected.shape[-1] == 1 else expected, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"tile": (16, 16)}, {"rowsperstrip": 5}, {"compression": "zlib", "predictor": True},
                                     {"planarconfig": "separate"}, {"bigtiff": True}, {"byteorder": ">"}],
                         ids=["one strip", "tiles", "strips", "deflate", "planes", "BigTIFF", "big-endian"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float16", "float32", "float64"])
@pytest.mark.parametrize("channels", [1, 3, 7])
def test_pixels_are_tifffiles(folder, dtype, channels, options):
    if channels > 1:  # else tifffile makes pages of them
        options = {"planarconfig": "contig"} | options
    elif "planarconfig" in options:
        pytest.skip("planes need several channels")
    image = draw(dtype, channels)
    stored = np.moveaxis(image, -1, 0) if options.get("planarconfig") == "separate" else image
    if "predictor" in options and dtype.startswith("float"):  # tifffile has that predictor with imagecodecs only
        options = options | {"predictor": None}
    tifffile.imwrite(folder / "a/1.tif", stored, photometric="rgb" if channels == 3 else "minisblack", **options)
    np.testing.assert_array_equal(tifffile.imread(folder / "a/1.tif"), stored)
    close(load(folder)[0], image, dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int32"])
def test_types_that_become_others(folder, dtype):
    image = draw(dtype) // 2**8 if dtype != "int8" else draw(dtype)
    tifffile.imwrite(folder / "a/1.tif", image)
    close(load(folder)[0], np.asarray(image, np.float64) / (32767 if dtype == "int8" else 1), "float32")


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "YCbCr"])
@pytest.mark.parametrize("compression", [None, "tiff_lzw", "packbits", "jpeg", "group4"])
def test_pictures_are_pillows(folder, mode, compression):
    image = Image.fromarray(draw("uint8", 3)).convert(mode)
    if (compression == "group4" and mode != "1") or (compression == "jpeg" and mode in ("1", "P", "RGBA", "LA")):
        pytest.skip("a mode that this compression does not have")
    image.save(folder / "a/1.tif", compression=compression)
    read = Image.open(folder / "a/1.tif")
    if mode == "CMYK":  # its inks are four channels
        expected = np.asarray(read)
    else:
        expected = np.asarray(read.convert("RGB"))
    found = load(folder)[0] * 255
    tolerance = 2 if mode == "YCbCr" or (compression == "jpeg" and mode == "RGB") else 1e-3
    assert np.abs(found - expected).max() <= tolerance


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_orientation_is_applied_as_by_pillow(folder, orientation):
    Image.fromarray(draw("uint8", 3)).save(folder / "a/1.tif", tiffinfo={274: orientation})
    expected = np.asarray(Image.open(folder / "a/1.tif"))
    np.testing.assert_allclose(load(folder)[0] * 255, expected, atol=1e-3)


def test_ops_grey_and_the_window(folder):
    for number in range(3):
        tifffile.imwrite(folder / f"a/{number}.tiff", draw("uint16", 1, number) >> 4)
    crop = load(folder, [ours.CenterCrop(20), ours.Window(2048, 4096)], channels=1)
    for number in range(3):
        image = torch.from_numpy((draw("uint16", 1, number) >> 4).astype(np.float32))[None]
        np.testing.assert_allclose(crop[number, :, :, 0], F.center_crop(image, [20, 20])[0] / 4096, atol=1e-6)
    color = draw("uint16", 3)
    tifffile.imwrite(folder / "a/0.tiff", color, photometric="rgb")
    (folder / "a/1.tiff").unlink()
    (folder / "a/2.tiff").unlink()
    grey = load(folder, channels=1)[0, :, :, 0] * 65535
    assert np.abs(grey - color @ [0.299, 0.587, 0.114]).max() < 1


def test_everywhere_a_sample_goes(stoker, folder):
    (folder / "b").mkdir()
    for number in range(12):
        tifffile.imwrite(folder / f"{'ab'[number % 2]}/{number}.tif", draw("uint16", 5, number) >> 4, planarconfig="contig")
    text = stoker("inspect", "data", "--verify").out
    assert "codecs    tiff 12" in text and "12 bits in 16" in text
    found = stoker("inspect", "data", "--json").json()["fields"]["image"]
    assert found["dtype"] == "uint16" and found["shape"] == [HEIGHT, WIDTH, 5]
    whole = load(folder)
    for name in ("data.stk", "data.tar"):
        stoker("pack", "data", name)
        np.testing.assert_array_equal(load(folder.parent / name), whole)
    stoker("unpack", "data.stk", "again")
    assert (folder.parent / "again/a/0.tif").read_bytes() == (folder / "a/0.tif").read_bytes()
    assert "[pack]" in stoker("pack", "data", "raw.stk", "--codec", "raw", status=1).err
    for workers, cache in ((1, "none"), (3, "none"), (2, "ram")):
        np.testing.assert_array_equal(load(folder, [ours.RandomCrop(20)], seed=4, workers=workers, cache=cache),
                                      load(folder, [ours.RandomCrop(20)], seed=4))
    (folder.parent / "r.toml").write_text("""
device = "cpu"
[data]
train = "data"
val = "25%"
batch_size = 4
train_ops = [{op = "random_crop", size = 24}, {op = "window", center = 2048, width = 4096}]
val_ops = [{op = "center_crop", size = 24}, {op = "window", center = 2048, width = 4096}]
[model]
name = "convnet"
[train]
epochs = 1
""")
    stoker("train", "r.toml", "--out", "run")
    assert len(stoker("predict", "run", "data/a").out.splitlines()) == 7
    stoker("show", "data")


def test_further_pages_are_named(stoker, folder):
    tifffile.imwrite(folder / "a/1.tif", draw("uint16", 5), photometric="minisblack")  # 37 pages of 53 x 5
    assert "pages     1 have several; the first is read" in stoker("inspect", "data").out
    with pytest.warns(UserWarning, match="several pages"):
        package.open(folder)


def test_masks(stoker, tmp_path):
    for name in ("images", "masks"):
        (tmp_path / "data" / name).mkdir(parents=True)
    masks = [np.kron(np.random.default_rng(i).integers(0, 3, (4, 4)), np.ones((8, 8))).astype(np.uint8) for i in range(3)]
    for number, mask in enumerate(masks):
        tifffile.imwrite(tmp_path / f"data/images/{number}.tif", np.zeros((32, 32, 3), np.uint8), photometric="rgb")
        tifffile.imwrite(tmp_path / f"data/masks/{number}.tif", mask, compression="zlib")
    palette = Image.fromarray(masks[0]).convert("P")
    palette.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    palette.putdata(masks[0].ravel())
    palette.save(tmp_path / "data/masks/0.tif")
    (batch,) = list(package.Loader(tmp_path / "data", 3, shuffle=False))
    np.testing.assert_array_equal(batch["mask"], masks)


def encoded(image, **options):
    file = io.BytesIO()
    tifffile.imwrite(file, image, **options)
    return file.getvalue()


def raw_tiff(pixels, height=8, width=8, bits=8, bands=1, **others):
    """One strip. `others`: tags by name."""
    names = {"compression": 259, "photometric": 262, "planar": 284, "format": 339, "tile_width": 322, "tile_length": 323, "colors": 320}
    tags = {256: width, 257: height, 258: bits, 259: 1, 262: 1, 277: bands, 278: height}
    tags |= {names[name]: value for name, value in others.items() if name != "colors"}
    places, sizes = (324, 325) if "tile_width" in others else (273, 279)
    planes = bands if others.get("planar") == 2 else 1
    tags |= {places: [8 + i * (len(pixels) // planes) for i in range(planes)], sizes: [len(pixels) // planes] * planes}
    tags[258] = [bits] * bands
    if "colors" in others:
        tags[320] = [i * 65535 // ((3 << bits) - 1) for i in range(3 << bits)]
    lists, body = b"", b""
    start = 8 + len(pixels)
    for number, value in sorted(tags.items()):
        values = value if isinstance(value, list) else [value]
        kind, code = (4, "I") if number in (places, sizes) or max(values) > 65535 else (3, "H")
        packed = struct.pack(f"<{len(values)}{code}", *values)
        place = packed.ljust(4, b"\0")
        if len(packed) > 4:
            place = struct.pack("<I", start + len(lists))
            lists += packed + b"\0" * (len(packed) % 2)
        body += struct.pack("<HHI", number, kind, len(values)) + place
    return b"II*\0" + struct.pack("<I", start + len(lists)) + pixels + lists + struct.pack("<H", len(tags)) + body + bytes(4)


def jpeg_of(side):
    file = io.BytesIO()
    Image.new("L", (side, side), 99).save(file, "JPEG")
    return file.getvalue()


HOSTILE = {
    "a compression that is not read": raw_tiff(bytes(64), compression=34661),
    "pixels that the file lacks": raw_tiff(bytes(64), height=16384, width=16384, bands=64),
    "a tile larger than the image": raw_tiff(zlib.compress(bytes(1000)), 1, 1, compression=8, tile_width=32768, tile_length=32768),
    "a JPEG smaller than its strip": raw_tiff(jpeg_of(8), 96, 96, compression=7),
    "a signed palette": raw_tiff(bytes(64), photometric=3, format=2, colors=True),
    "signed YCbCr": raw_tiff(bytes(192), bands=3, photometric=6, format=2),
    "YCbCr in planes": raw_tiff(jpeg_of(8) * 3, bands=3, photometric=6, planar=2, compression=7),
    "too many bands": raw_tiff(bytes(65 * 64), bands=65),
    "too many pixels": raw_tiff(bytes(64), height=2**31, width=8, compression=5),
    "integers of 64 bits": raw_tiff(bytes(512), bits=64),
    "CIELAB": raw_tiff(bytes(192), bands=3, photometric=8),
}


def test_the_raw_writer_is_sound(folder):
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    (folder / "a/1.tif").write_bytes(raw_tiff(pixels.tobytes()))
    assert (np.asarray(Image.open(folder / "a/1.tif")) == pixels).all()
    (folder / "a/1.tif").write_bytes(raw_tiff(pixels.tobytes(), photometric=3, colors=True))
    np.testing.assert_allclose(load(folder)[0] * 255, np.asarray(Image.open(folder / "a/1.tif").convert("RGB")), atol=1e-3)


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_bad_samples(stoker, folder, case):
    (folder / "a/1.tif").write_bytes(HOSTILE[case])
    (reason,) = (sample["reason"] for sample in stoker("inspect", "data", "--verify", "--json", status=1).json()["bad"])
    assert reason.startswith("expected ") and ", got " in reason


def test_flipped_bits_give_the_same_pixels_or_none(folder):
    """The pixels of a damaged file must not depend on the memory that it is decoded into."""
    random = np.random.default_rng(3)
    for number in range(80):
        file = io.BytesIO()
        Image.fromarray(draw("uint8", 3)).save(file, "TIFF", compression=("tiff_lzw", "jpeg", "packbits", None)[number % 4])
        whole = file.getvalue()
        flipped = bytearray(whole)
        for at in random.integers(0, len(whole), 2):
            flipped[at] ^= 1 << random.integers(8)
        (folder / f"a/{number}.tif").write_bytes(flipped)
    data = package.open(folder)
    decoded = 0
    for number in range(80):
        try:
            first, second = data[number]["image"], data[number]["image"]
        except package.errors.Error:
            continue
        decoded += 1
        np.testing.assert_array_equal(first, second)
    assert 0 < decoded < 80


def test_a_sample_in_python_has_the_stored_type(folder):
    for number, (dtype, channels) in enumerate([("uint16", 5), ("float32", 3), ("uint8", 3), ("int16", 1)]):
        (folder / "a/1.tif").unlink(missing_ok=True)
        image = draw(dtype, channels)
        tifffile.imwrite(folder / "a/1.tif", image, **({"planarconfig": "contig"} if channels > 1 else {}))
        found = package.open(folder)[0]["image"]
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found, image if channels > 1 else np.repeat(image[..., None], 3, -1))


def test_damage_is_a_bad_sample(stoker, folder):
    whole = encoded(draw("uint16", 3), photometric="rgb", rowsperstrip=4, compression="zlib")
    cases = {"0": whole, "cut": whole[: len(whole) // 2], "header": whole[:8], "empty": b"II*\0" + bytes(4)}
    for name, content in cases.items():
        (folder / f"a/{name}.tif").write_bytes(content)
    bad = {sample["key"] for sample in stoker("inspect", "data", "--verify", "--json", status=1).json()["bad"]}
    assert bad == {"a/cut.tif", "a/header.tif", "a/empty.tif"}


def test_overviews_are_no_pages(stoker, folder):
    with tifffile.TiffWriter(folder / "a/1.tif") as file:
        file.write(draw("uint16"))
        file.write(draw("uint16")[::2, ::2], subfiletype=1)
    assert "pages" not in stoker("inspect", "data").out
