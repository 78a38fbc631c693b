# Every file type that is read, written by Pillow (or by hand, where Pillow cannot): the pixels are those
# of Pillow's convert("RGB"). docs/codecs.md says where they are not, and the last test here.
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import run_program
from PIL import Image

HEIGHT, WIDTH = 23, 37


def noise(*shape, dtype=np.uint8, high=256):
    return np.random.default_rng(5).integers(0, high, (HEIGHT, WIDTH, *shape), dtype=dtype)


def smooth(channels):
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    planes = [6 * x, 11 * y, 3 * x + 5 * y, 255 - 4 * x]
    return np.stack(planes[:channels], axis=2).astype(np.uint8)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png16(samples, color_type):
    """16 bits a sample, which Pillow writes for grey alone."""
    height, width = samples.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
    header = struct.pack(">IIBBBBB", width, height, 16, color_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pnm(magic, samples, largest):
    data = samples.astype(">u2" if largest > 255 else "u1").tobytes()
    return b"%s\n# by hand\n%d %d\n%d\n" % (magic, WIDTH, HEIGHT, largest) + data


def bmp(bits, top_down=False, header=40, masks=()):
    """32 bits with masks, other headers and row orders: not what Pillow writes."""
    stride = (WIDTH * bits + 31) // 32 * 4
    rows = np.random.default_rng(6).integers(0, 256, HEIGHT * stride, dtype=np.uint8).tobytes()
    offset = 14 + header + (12 if masks and header == 40 else 0) + (1024 if bits == 8 else 0)
    head = struct.pack("<2sIHHI", b"BM", offset + len(rows), 0, 0, offset)
    info = struct.pack("<IiiHHIIiiII", header, WIDTH, -HEIGHT if top_down else HEIGHT, 1, bits, 3 if masks else 0,
                       len(rows), 0, 0, 0, 0)  # fmt: skip
    palette = np.random.default_rng(7).integers(0, 256, 1024, dtype=np.uint8).tobytes() if bits == 8 else b""
    body = info + struct.pack(f"<{len(masks)}I", *masks)
    return head + body.ljust(offset - 14 - len(palette), b"\0") + palette + rows


def write_all(folder):
    def save(name, image, **options):
        Image.fromarray(image).save(folder / name, **options) if isinstance(image, np.ndarray) else image.save(
            folder / name, **options
        )

    grey, rgb, rgba = noise(), noise(3), noise(4)
    palette = Image.fromarray(rgb).quantize(200)
    cmyk = Image.fromarray(smooth(4), "CMYK")
    save("jpeg_grey.jpg", smooth(1)[:, :, 0], quality=90)
    save("jpeg_420.jpg", smooth(3), quality=85)
    save("jpeg_444_progressive.jpg", smooth(3), quality=95, subsampling=0, progressive=True)
    save("jpeg_cmyk.jpg", cmyk, quality=90)
    save("png_grey.png", grey)
    save("png_rgb.png", rgb)
    save("png_rgba.png", rgba)
    save("png_grey_alpha.png", Image.fromarray(noise(2), "LA"))
    save("png_palette.png", palette)
    save("png_palette_transparent.png", palette, transparency=3)
    save("png_bits.png", Image.fromarray(grey > 127))
    save("png_palette_4bit.png", Image.fromarray(rgb).quantize(11), bits=4)
    (folder / "png_rgb16.png").write_bytes(png16(noise(3, dtype=np.uint16, high=65536), 2))
    (folder / "png_rgba16.png").write_bytes(png16(noise(4, dtype=np.uint16, high=65536), 6))
    (folder / "png_grey_alpha16.png").write_bytes(png16(noise(2, dtype=np.uint16, high=65536), 4))
    save("webp_lossy.webp", smooth(3), quality=80)
    save("webp_lossless.webp", rgb, lossless=True)
    save("webp_lossy_alpha.webp", smooth(4), quality=80)
    save("webp_lossless_alpha.webp", rgba, lossless=True, exact=True)
    save("bmp_24.bmp", rgb)
    save("bmp_32.bmp", rgba)
    save("bmp_grey.bmp", grey)
    save("bmp_palette.bmp", palette)
    save("bmp_bits.bmp", Image.fromarray(grey > 127))
    (folder / "bmp_8_top_down.bmp").write_bytes(bmp(8, top_down=True))
    (folder / "bmp_24_v5.bmp").write_bytes(bmp(24, header=124))
    (folder / "bmp_32_top_down.bmp").write_bytes(bmp(32, top_down=True))
    (folder / "bmp_32_masks.bmp").write_bytes(bmp(32, masks=(0xFF0000, 0xFF00, 0xFF)))
    (folder / "bmp_32_masks_v4.bmp").write_bytes(bmp(32, header=108, masks=(0xFF000000, 0xFF0000, 0xFF00, 0xFF)))
    save("ppm.ppm", rgb)
    save("pgm.pgm", grey)
    for largest in (1, 7, 100, 254):
        (folder / f"pgm_{largest}.pgm").write_bytes(pnm(b"P5", noise(high=largest + 1), largest))
        (folder / f"ppm_{largest}.ppm").write_bytes(pnm(b"P6", noise(3, high=largest + 1), largest))
    for largest in (256, 1023, 4095, 65535):
        samples = noise(3, dtype=np.uint16, high=largest + 1)
        (folder / f"ppm_{largest}.ppm").write_bytes(pnm(b"P6", samples, largest))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("codecs")
    (root / "data/one").mkdir(parents=True)
    write_all(root / "data/one")
    return root


def decoded(root, index):
    run_program("show", "data", "--index", index, "--npy", f"{index}.npy", cwd=root)
    return np.load(root / f"{index}.npy")


def test_pixels_are_pillows(folder):
    files = sorted((folder / "data/one").iterdir())
    with ThreadPoolExecutor(2) as pool:
        ours = list(pool.map(lambda index: decoded(folder, index), range(len(files))))
    for file, mine in zip(files, ours):
        with Image.open(file) as image:
            theirs = np.asarray(image.convert("RGB"))
        assert mine.shape == theirs.shape, file.name
        assert (mine == theirs).all(), (file.name, abs(mine.astype(int) - theirs).max())


def test_grey_of_16_bits_keeps_its_contrast(tmp_path):
    """Pillow's convert("RGB") turns everything above 255 of 65535 white."""
    samples = noise(dtype=np.uint16, high=65536)
    one = tmp_path / "data/one"
    one.mkdir(parents=True)
    (one / "0.pgm").write_bytes(pnm(b"P5", samples, 65535))
    (one / "1.png").write_bytes(png16(samples, 0))
    rounded, high_bytes = (decoded(tmp_path, index)[:, :, 0] for index in (0, 1))
    assert (rounded == np.rint(samples / 65535 * 255)).all()
    assert (high_bytes == samples >> 8).all()


def test_an_animation_is_refused(stoker, tmp_path):
    one = tmp_path / "data/one"
    one.mkdir(parents=True)
    frames = [Image.fromarray(np.full((8, 8, 3), level, np.uint8)) for level in (0, 200)]
    frames[0].save(one / "0.webp", save_all=True, append_images=frames[1:])
    assert "an animated WebP" in stoker("show", "data", "--index", 0, "--npy", "x.npy", status=1).err
