"""Writes the folders of this directory with the libraries themselves: `python write.py mds FOLDER` in an environment
with mosaicml-streaming, `python write.py litdata FOLDER` in one with litdata. Each folder gets expected.json: what the
library reads from it, in its order."""

import base64
import decimal
import io
import json
import os
import shutil
import sys

import numpy as np
from PIL import Image

SAMPLES = 3


def pixels(number, mode="RGB"):
    shape = (6, 5, 3) if mode == "RGB" else (6, 5)
    return (np.arange(np.prod(shape)) * (number + 3) % 251).astype(np.uint8).reshape(shape)


def image(number, mode="RGB"):
    return Image.fromarray(pixels(number, mode), mode if mode != "RGB" else None)


def jpeg(number):
    out = io.BytesIO()
    image(number).save(out, "JPEG", quality=95, subsampling=0)
    return out.getvalue()


def plain(value):
    """The value as JSON: arrays with their type, images as pixels."""
    if isinstance(value, Image.Image):
        return {"image": np.asarray(value).tolist()}
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return {"dtype": value.dtype.name, "shape": list(value.shape), "values": np.asarray(value).ravel().tolist()}
    if isinstance(value, (bytes, memoryview)):
        return {"bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value


def expect(folder, samples):
    with open(os.path.join(folder, "expected.json"), "w") as file:
        json.dump([plain(sample) for sample in samples], file, sort_keys=True)
        file.write("\n")


def begin(root, name):
    folder = os.path.join(root, name)
    shutil.rmtree(folder, ignore_errors=True)
    return folder


# ---- MDS ----

MDS_COLUMNS = {
    "image": "jpeg", "png": "png", "pil": "pil", "label": "int", "u8": "uint8", "i8": "int8", "u32": "uint32",
    "f16": "float16", "f32": "float32", "f64": "float64", "text": "str", "raw": "bytes", "free": "ndarray",
    "typed": "ndarray:int16", "fixed": "ndarray:float32:2,3", "json": "json", "si": "str_int", "sf": "str_float",
    "sd": "str_decimal", "frames": "jpeg_array", "more": "list[png]",
}  # fmt: skip


def mds_sample(number):
    return {
        "image": jpeg(number), "png": image(number, "L"), "pil": image(number), "label": number,
        "u8": number + 250, "i8": -number, "u32": 4_000_000_000 + number, "f16": number / 4, "f32": number / 3,
        "f64": number / 7, "text": "é" * number + "a", "raw": bytes(range(number)),
        "free": np.arange(2 * (number + 1), dtype=np.uint16).reshape(number + 1, 2),
        "typed": np.arange(number + 1, dtype=np.int16) - 2, "fixed": np.full((2, 3), number / 2, np.float32),
        "json": [[number, 1], [2, 3]], "si": 10**12 + number, "sf": number / 8, "sd": decimal.Decimal(number) / 4,
        "frames": [jpeg(number), jpeg(number + 1)], "more": [image(number), image(number + 1)],
    }  # fmt: skip


def write_mds(root):
    from streaming import MDSWriter, StreamingDataset
    from streaming.base.format.mds.encodings import is_mds_encoding

    columns = {name: encoding for name, encoding in MDS_COLUMNS.items() if is_mds_encoding(encoding)}
    for name, settings in {"plain": {}, "zstd": {"compression": "zstd:7", "hashes": ["xxh64"]}, "gz": {"compression": "gz"}}.items():
        folder = begin(root, name)
        chosen = columns if name == "plain" else {"image": "jpeg", "label": "int"}
        with MDSWriter(out=folder, columns=chosen, size_limit=3600 if name == "plain" else 1400, **settings) as out:
            for number in range(SAMPLES):
                sample = mds_sample(number)
                out.write({key: sample[key] for key in chosen})
        copy = folder + ".read"  # reading leaves unpacked shards behind
        shutil.copytree(folder, copy)
        data = StreamingDataset(local=copy, shuffle=False, batch_size=1)
        expect(folder, [data[i] for i in range(len(data))])
        shutil.rmtree(copy)


# ---- LitData ----


def lit_sample(number):
    import torch

    return {
        "image": Image.open(io.BytesIO(jpeg(number))), "label": number, "pil": image(number), "text": "é" * number + "a",
        "real": number / 7, "flag": number % 2 == 1, "raw": bytes(range(number)),
        "row": np.arange(number + 1, dtype=np.float32), "array": np.arange(6, dtype=np.int16).reshape(2, 3) + number,
        "tensor": torch.arange(4).reshape(2, 2) * number, "ids": torch.arange(number + 1, dtype=torch.int32),
        "nested": {"inner": number * 2},
    }  # fmt: skip


def lit_write(folder, rows, item_loader=None, **settings):
    from litdata.streaming.writer import BinaryWriter

    os.makedirs(folder)
    more = {} if item_loader is None else {"item_loader": item_loader}
    writer = BinaryWriter(folder, **{"chunk_size": 2, **settings, **more})
    for number, row in enumerate(rows):
        writer[number] = row
    writer.done()
    writer.merge(1)
    index = os.path.join(folder, "index.json")
    content = json.load(open(index))
    content.pop("updated_at", None)
    json.dump(content, open(index, "w"), sort_keys=True)


def lit_read(folder, **settings):
    from litdata import StreamingDataset

    copy = folder + ".read"  # reading replaces compressed chunks
    shutil.copytree(folder, copy)
    data = StreamingDataset(copy, shuffle=False, **settings)
    expect(folder, [data[i] for i in range(len(data))])
    shutil.rmtree(copy)


def write_litdata(root):
    import litdata
    import torch
    from litdata.streaming.item_loader import TokensLoader
    from litdata.streaming.writer import BinaryWriter

    rows = [lit_sample(number) for number in range(SAMPLES)]
    few = [{"image": row["image"], "label": row["label"]} for row in rows]
    new = "compression_level" in BinaryWriter.__init__.__code__.co_varnames
    lit_write(begin(root, "plain"), rows)
    if new:
        nested = [{**row, "list": [0.5 * n, 1.5], "boxes": [[n, 1, 2, 3]]} for n, row in enumerate(few)]
        lit_write(begin(root, "lists"), nested)
        flat = [{"raw": jpeg(n), "text": "é" * n, "label": n, "real": n / 7, "flag": n == 1} for n in range(SAMPLES)]
        lit_write(begin(root, "rows"), flat)
        lit_write(begin(root, "rows-zstd"), [{"label": n, "text": "words " * (n % 3)} for n in range(300)],
                  compression="zstd", chunk_size=280)  # fmt: skip
        for level in ("batch", "sample", "chunk"):
            lit_write(begin(root, level), few, compression="zstd", compression_level=level,
                      **({"compression_batch_size": 2, "chunk_size": 3} if level == "batch" else {}))  # fmt: skip
    else:
        lit_write(begin(root, "chunk"), few, compression="zstd")
    lit_write(begin(root, "tuple"), [(jpeg(number), number) for number in range(SAMPLES)])
    for name in sorted(os.listdir(root)):
        lit_read(os.path.join(root, name))
    tokens = begin(root, "tokens")
    lit_write(tokens, [torch.arange(n, n + 7 + n, dtype=torch.int32) for n in range(5)], TokensLoader(5) if new else None, chunk_size=30)
    lit_read(tokens, item_loader=TokensLoader(block_size=5))
    print(litdata.__version__)


if __name__ == "__main__":
    {"mds": write_mds, "litdata": write_litdata}[sys.argv[1]](sys.argv[2])
