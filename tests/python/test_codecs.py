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


def bmp_pixels(bits, compression=0, header=40, rows=None, palette=b"", masks=(), offset=None, top_down=False):
    """A BMP of HEIGHT x WIDTH with each part given; the rows are noise by default."""
    if rows is None:
        size = HEIGHT * ((WIDTH * bits + 31) // 32 * 4)
        rows = np.random.default_rng(8).integers(0, 256, size, dtype=np.uint8).tobytes()
    height = -HEIGHT if top_down else HEIGHT
    if header == 12:
        info = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, WIDTH, height, 1, bits, compression, len(rows), 0, 0, 0, 0)
    info = (info + struct.pack(f"<{len(masks)}I", *masks)).ljust(header, b"\0") + palette
    begin = 14 + len(info)
    return struct.pack("<2sIHHI", b"BM", begin + len(rows), 0, 0, begin if offset is None else offset) + info + rows


def bmp_runs(bits):
    """Rows of runs, literals of even and odd length, skips, runs past the row's end, and a whole row without an end."""
    random = np.random.default_rng(9)
    runs = b""
    for row in range(HEIGHT):
        x = 0
        if row == 4:
            runs += bytes([0, 2, 5, 2])  # skips two rows and five pixels
            x = 5
        if row in (5, 6):
            continue
        while x < WIDTH:
            size = int(random.integers(1, 12))
            if random.random() < 0.5:
                runs += bytes([size, random.integers(0, 256)])
            elif 3 <= size <= WIDTH - x:
                data = random.integers(0, 256, size if bits == 8 else (size + 1) // 2, dtype=np.uint8).tobytes()
                runs += bytes([0, size]) + data + b"\0" * (len(data) % 2)
            else:
                continue
            x += size
        runs += b"\0\0" if row % 3 else b""
        if row % 3 == 0:
            runs += b"\0\0"
    return runs + b"\0\1"


def write_bmps(folder):
    random = np.random.default_rng(7)
    palette = {bits: random.integers(0, 256, 4 << bits, dtype=np.uint8).tobytes() for bits in (1, 4, 8)}
    core = {bits: random.integers(0, 256, 3 << bits, dtype=np.uint8).tobytes() for bits in (1, 4, 8)}
    files = {
        "rle8": bmp_pixels(8, 1, rows=bmp_runs(8), palette=palette[8]),
        "rle4": bmp_pixels(4, 2, rows=bmp_runs(4), palette=palette[4]),
        "rle8_top_down": bmp_pixels(8, 1, rows=bmp_runs(8), palette=palette[8], top_down=True),
        "rle8_os2": bmp_pixels(8, 1, header=64, rows=bmp_runs(8), palette=palette[8]),
        "555": bmp_pixels(16),
        "555_top_down": bmp_pixels(16, top_down=True),
        "555_masks": bmp_pixels(16, 3, masks=(0x7C00, 0x3E0, 0x1F), header=52),
        "565_masks": bmp_pixels(16, 3, masks=(0xF800, 0x7E0, 0x1F), header=56),
        "565_v5": bmp_pixels(16, 3, masks=(0xF800, 0x7E0, 0x1F), header=124, top_down=True),
        "24_masks": bmp_pixels(24, 3, masks=(0xFF0000, 0xFF00, 0xFF), header=108),
        "32_no_masks": bmp_pixels(32, 3, header=108),
        "os2_1": bmp_pixels(1, header=12, palette=core[1]),
        "os2_4": bmp_pixels(4, header=12, palette=core[4]),
        "os2_8": bmp_pixels(8, header=12, palette=core[8]),
        "os2_24": bmp_pixels(24, header=12),
        "os2_64": bmp_pixels(24, header=64),
        "os2_64_palette": bmp_pixels(4, header=64, palette=palette[4]),
        "palette_not_in_offset": bmp_pixels(8, palette=palette[8], offset=54),
        "no_offset": bmp_pixels(4, palette=palette[4], offset=0),
    }
    masks_of_32 = [
        (0xFF0000, 0xFF00, 0xFF, 0),
        (0xFF000000, 0xFF0000, 0xFF00, 0),
        (0xFF000000, 0xFF00, 0xFF, 0),
        (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
        (0xFF0000, 0xFF00, 0xFF, 0xFF000000),
        (0xFF000000, 0xFF00, 0xFF, 0xFF0000),
    ]
    for number, masks in enumerate(masks_of_32):
        files[f"32_masks_{number}"] = bmp_pixels(32, 3, masks=masks, header=108)
    for name, data in files.items():
        (folder / f"bmp_{name}.bmp").write_bytes(data)
    # The masks behind a header of 40 bytes are not part of it.
    for bits, masks in ((16, (0xF800, 0x7E0, 0x1F)), (32, (0xFF0000, 0xFF00, 0xFF))):
        plain = bmp_pixels(bits, 3, palette=struct.pack("<3I", *masks))
        (folder / f"bmp_{bits}_masks_behind.bmp").write_bytes(plain)


def write_pnms(folder):
    bits = noise(high=2)
    rows = b"\n".join(b" ".join(b"%d" % bit for bit in row) for row in bits)
    head = b"\n# by hand\n%d %d\n" % (WIDTH, HEIGHT)
    (folder / "text.pbm").write_bytes(b"P1" + head + rows)
    (folder / "text_packed.pbm").write_bytes(b"P1" + head + rows.replace(b" ", b"") + b"\n")
    (folder / "text_comments.PBM").write_bytes(b"P1" + head + rows.replace(b"\n", b" # the end of a row\n"))
    (folder / "binary.pbm").write_bytes(b"P4" + head + np.packbits(bits, axis=1).tobytes())
    for largest in (1, 9, 100, 255, 1023):
        for magic, channels in ((b"P2", ()), (b"P3", (3,))):
            if magic == b"P2" and largest > 255:
                continue  # grey of more than 8 bits is not Pillow's
            samples = noise(*channels, dtype=np.uint16, high=largest + 1)
            text = b"\r\n".join(b" ".join(b"%d" % value for value in row.ravel()) for row in samples)
            (folder / f"text_{magic.decode()}_{largest}.pnm").write_bytes(magic + head + b"%d\n" % largest + text)


def write_animations(folder):
    """PNGs whose first frame is or is not the still image, which is what Pillow opens."""
    frames = [Image.fromarray(noise(4) // level) for level in (1, 2, 3)]
    for name, options in (("first", {}), ("default", {"default_image": True})):
        frames[0].save(folder / f"apng_{name}.png", save_all=True, append_images=frames[1:], duration=50, **options)


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
    write_bmps(folder)
    write_pnms(folder)
    write_animations(folder)
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


def animations():
    """Name, frames and options: lossless, lossy, with alpha, and with a first frame smaller than the canvas."""
    rgb = [Image.fromarray(noise(3) // level) for level in (1, 2)]
    rgba = [Image.fromarray(noise(4) // level) for level in (1, 2)]
    dot = [Image.new("RGBA", (WIDTH, HEIGHT)) for _ in range(2)]
    for number, frame in enumerate(dot):
        frame.paste((200, 10 * number, 30, 255), (7 + number, 9, 21, 15))
    yield from [("a", rgb, {"lossless": True}), ("b", rgb, {"quality": 80}), ("c", rgba, {"lossless": True}),
                ("d", rgba, {"quality": 70}), ("e", dot, {"lossless": True, "minimize_size": True})]  # fmt: skip


def test_an_animation_is_refused_or_its_first_frame_is_pillows(stoker, tmp_path):
    one = tmp_path / "data/one"
    one.mkdir(parents=True)
    for name, frames, options in animations():
        frames[0].save(one / f"{name}.webp", save_all=True, append_images=frames[1:], **options)
    Image.fromarray(smooth(3)).save(one / "still.webp", lossless=True)
    (tmp_path / "r.toml").write_text('[data]\ntrain = "data"\nfirst_frame = true\ntrain_ops = []\n')
    refused = stoker("show", "data", "--index", 0, "--npy", "x.npy", status=1).err
    assert "got an animated WebP; data.first_frame = true, or packing with --first-frame, reads its first frame" in refused
    for index, file in enumerate(sorted(one.iterdir())):
        stoker("show", "data", "--recipe", "r.toml", "--index", index, "--npy", "x.npy")
        with Image.open(file) as image:
            theirs = np.asarray(image.convert("RGB"))
        mine = np.rint(np.load(tmp_path / "x.npy").transpose(1, 2, 0) * 255)
        assert (mine == theirs).all(), file.name
    stoker("pack", "data", "x.stk", "--codec", "raw", "--first-frame")
    assert "expected --first-frame, as the data" in stoker("pack", "data", "x.stk", "--codec", "raw", status=1).err
