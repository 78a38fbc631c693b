# AVIF, GIF and JPEG 2000 as Pillow reads them; HEIC and JPEG XL as their own tools do, if these are installed.
# docs/codecs.md says where pixels differ.
import shutil
import subprocess

import numpy as np
import pytest
from conftest import run_program
from PIL import Image, ImageOps, features

HEIGHT, WIDTH = 23, 37


def smooth(channels, height=HEIGHT, width=WIDTH):
    y, x = np.mgrid[:height, :width]
    planes = [40 + 4 * x, 30 + 8 * y, 60 + 2 * x + 3 * y, 255 - 4 * x]
    return np.stack(planes[:channels], axis=2).astype(np.uint8)


def noise(channels):
    return np.random.default_rng(5).integers(0, 256, (HEIGHT, WIDTH, channels), dtype=np.uint8)


def grey():
    return Image.fromarray(smooth(1)[:, :, 0])


def with_orientation(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data/one").mkdir(parents=True)
    return tmp_path / "data/one"


def decoded(folder, setting=None):
    """By name. With `setting`, a key of [data], as a recipe has them decoded."""
    root = folder.parents[1]
    (root / "r.toml").write_text(f'[data]\ntrain = "data"\n{setting} = true\ntrain_ops = []\n')
    options = ["--recipe", "r.toml"] if setting else []
    pixels = {}
    for index, file in enumerate(sorted(folder.iterdir())):
        run_program("show", "data", *options, "--index", index, "--npy", "x.npy", cwd=root)
        array = np.load(root / "x.npy")
        pixels[file.name] = (np.rint(array.transpose(1, 2, 0) * 255) if setting else array).astype(int)
    return pixels


def differences(folder):
    """From Pillow's: the largest and the mean one of each file."""
    found = {}
    for name, ours in decoded(folder).items():
        with Image.open(folder / name) as image:
            theirs = np.asarray(image.convert("RGB")).astype(int)
        assert ours.shape == theirs.shape, name
        found[name] = (abs(ours - theirs).max(), abs(ours - theirs).mean())
    return found


def write_gifs(folder):
    palette = Image.fromarray(smooth(3)).quantize(64)
    palette.save(folder / "plain.gif", interlace=False)
    palette.save(folder / "interlaced.gif", interlace=True)
    palette.save(folder / "clear.gif", transparency=5)
    Image.fromarray(noise(3)).quantize(256).save(folder / "noise.gif")
    grey().save(folder / "grey.gif")
    grey().convert("1").save(folder / "bits.gif")
    # A canvas of 60 x 50, or one smaller than its frame, around a frame at (3, 2).
    for name, canvas in [("canvas", (60, 50)), ("small_canvas", (9, 9)), ("clear_canvas", (60, 50))]:
        gif = bytearray((folder / ("clear.gif" if name == "clear_canvas" else "plain.gif")).read_bytes())
        at = gif.index(b"\x2c\0\0\0\0" + WIDTH.to_bytes(2, "little"))
        gif[6:10] = b"".join(side.to_bytes(2, "little") for side in canvas)
        gif[at + 1 : at + 5] = b"\3\0\2\0"
        (folder / f"{name}.gif").write_bytes(gif)


def test_gif_pixels_are_pillows(folder):
    write_gifs(folder)
    assert set(differences(folder).values()) == {(0, 0)}


def write_jpeg2000s(folder):
    images = {"smooth": smooth(3), "noise": noise(3), "alpha": smooth(4), "large": smooth(3, 60, 50)}
    for name, pixels in images.items():
        image = Image.fromarray(pixels)
        image.save(folder / f"{name}.jp2")
        image.save(folder / f"{name}.j2k", irreversible=True, quality_mode="rates", quality_layers=[20, 8])
    image.save(folder / "tiles.jp2", tile_size=(32, 32), num_resolutions=3, offset=(5, 7), tile_offset=(2, 3))
    image.save(folder / "precincts.jpx", precinct_size=(32, 32), codeblock_size=(16, 16), progression="RPCL")
    grey().save(folder / "grey.jp2")
    Image.fromarray(smooth(2), "LA").save(folder / "grey_alpha.jp2")
    Image.fromarray(smooth(4), "CMYK").save(folder / "cmyk.jp2")
    Image.fromarray(smooth(3)).convert("YCbCr").save(folder / "ycc.jp2")


def test_jpeg_2000_pixels_are_pillows(folder):
    write_jpeg2000s(folder)
    assert set(differences(folder).values()) == {(0, 0)}


def test_grey_jpeg_2000_of_16_bits_keeps_its_contrast(folder):
    samples = np.random.default_rng(6).integers(0, 65536, (HEIGHT, WIDTH), dtype=np.uint16)
    Image.fromarray(samples).save(folder / "deep.jp2")
    ours = decoded(folder)["deep.jp2"][:, :, 0]
    assert (ours == np.minimum((samples.astype(int) + 128) >> 8, 255)).all()


needs_avif = pytest.mark.skipif(not features.check("avif"), reason="this Pillow writes no AVIF")


@needs_avif
def test_avif_pixels_are_nearly_pillows(folder):
    """libheif up to 1.18 converts chroma to RGB and back; of limited range it loses a level more."""
    for sampling in ("4:2:0", "4:2:2", "4:4:4", "4:0:0"):
        for limits in ("full", "limited"):
            name = f"{sampling.replace(':', '')}_{limits}.avif"
            Image.fromarray(smooth(3)).save(folder / name, quality=80, subsampling=sampling, range=limits)
    Image.fromarray(smooth(4)).save(folder / "alpha.avif", quality=80)
    grey().save(folder / "grey.avif", quality=80)
    for name, (largest, mean) in differences(folder).items():
        assert largest <= 5 and mean <= (1 if "limited" in name else 0.05), name


@needs_avif
def test_turns_of_an_avif_are_applied_on_request(folder):
    for orientation in range(1, 9):
        Image.fromarray(smooth(3)).save(
            folder / f"{orientation}.avif", exif=with_orientation(orientation), subsampling="4:4:4"
        )
    for name, ours in decoded(folder, "exif").items():
        with Image.open(folder / name) as image:
            theirs = np.asarray(ImageOps.exif_transpose(image).convert("RGB")).astype(int)
        assert ours.shape == theirs.shape and abs(ours - theirs).max() <= 5, name


def tool(name, *arguments):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    subprocess.run([name, *map(str, arguments)], check=True, capture_output=True)


@pytest.mark.parametrize("loss", [0, 1, 3])
def test_jpeg_xl_pixels_are_those_of_djxl(folder, loss):
    root = folder.parents[1]
    for name, pixels in [("smooth", smooth(3)), ("noise", noise(3)), ("alpha", smooth(4))]:
        Image.fromarray(pixels).save(root / f"{name}.png")
        tool("cjxl", root / f"{name}.png", folder / f"{name}.jxl", "-d", loss)
    for name, ours in decoded(folder).items():
        tool("djxl", folder / name, root / "theirs.png")
        theirs = np.asarray(Image.open(root / "theirs.png").convert("RGB")).astype(int)
        assert abs(ours - theirs).max() <= 1, name


def test_heic_pixels_are_those_of_heif_convert(folder):
    root = folder.parents[1]
    for name, pixels in [("smooth", smooth(3, 64, 80)), ("grey", smooth(3, 32, 48)[:, :, :1].repeat(3, axis=2))]:
        Image.fromarray(pixels).save(root / f"{name}.png")
        tool("heif-enc", "-q", 80, root / f"{name}.png", "-o", folder / f"{name}.heic")
    for name, ours in decoded(folder).items():
        tool("heif-convert", folder / name, root / "theirs.png")
        theirs = np.asarray(Image.open(root / "theirs.png").convert("RGB")).astype(int)
        assert abs(ours - theirs).max() <= 1, name


def test_cut_files_are_bad_samples(folder):
    root = folder.parents[1]
    Image.fromarray(smooth(3)).quantize(64).save(folder / "a.gif")
    Image.fromarray(smooth(3)).save(folder / "b.jp2")
    if features.check("avif"):
        Image.fromarray(smooth(3)).save(folder / "c.avif")
    files = sorted(folder.iterdir())
    Image.fromarray(smooth(3)).save(folder / "z.png")
    whole = {file: file.read_bytes() for file in files}
    for share in (0.4, 0.9):
        for file in files:
            file.write_bytes(whole[file][: int(share * len(whole[file]))])
        done = run_program("inspect", "data", "--verify", cwd=root, status=None)
        assert f"{len(files)} bad of {len(files) + 1} samples" in done.err
        for index, file in enumerate(files):
            error = run_program("show", "data", "--index", index, "--npy", "x.npy", cwd=root, status=1).err
            assert file.name in error and "got a truncated" in error


def test_an_animated_gif_is_refused_or_its_first_frame_is_pillows(folder):
    root = folder.parents[1]
    frames = [Image.fromarray(pixels).quantize(32) for pixels in (smooth(3), noise(3))]
    frames[0].save(folder / "a.gif", save_all=True, append_images=frames[1:])
    refused = run_program("show", "data", "--index", 0, "--npy", "x.npy", cwd=root, status=1).err
    assert "got an animated GIF; data.first_frame = true, or packing with --first-frame, reads" in refused
    with Image.open(folder / "a.gif") as image:
        assert (decoded(folder, "first_frame")["a.gif"] == np.asarray(image.convert("RGB"))).all()


def test_packing_keeps_the_files(folder):
    root = folder.parents[1]
    Image.fromarray(smooth(3)).quantize(64).save(folder / "a.gif")
    Image.fromarray(smooth(3)).save(folder / "b.jp2")
    for target in ("x.stk", "x.tar"):
        run_program("pack", "data", target, cwd=root)
        for index, file in enumerate(sorted(folder.iterdir())):
            run_program("show", target, "--index", index, "--npy", "x.npy", cwd=root)
            with Image.open(file) as image:
                assert (np.load(root / "x.npy") == np.asarray(image.convert("RGB"))).all(), (target, file.name)


def test_a_missing_library_is_named_with_its_package(folder):
    root = folder.parents[1]
    Image.fromarray(smooth(3)).quantize(64).save(folder / "a.gif")
    (root / "libraries").mkdir()
    (root / "libraries/libgif.so.7").write_text("no library")
    env = {"LD_LIBRARY_PATH": str(root / "libraries")}
    error = run_program("show", "data", "--index", 0, "--npy", "x.npy", cwd=root, status=None, env=env).err
    assert "[giflib]" in error
    assert error.endswith("; apt-get install libgif7\n") and error.count("\n") == 1
