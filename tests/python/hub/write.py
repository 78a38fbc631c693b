"""Writes a folder of this directory with the datasets and pyarrow of the environment: `python write.py FOLDER`. Its
expected.json is what these libraries read from the files, in their order."""

import decimal
import io
import json
import shutil
import sys
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

SAMPLES = 7


def pixels(number):
    return (np.arange(6 * 5 * 3) * (number + 3) % 251).astype(np.uint8).reshape(6, 5, 3)


def png(number):
    out = io.BytesIO()
    Image.fromarray(pixels(number)).save(out, "PNG")
    return out.getvalue()


def made():
    features = datasets.Features({
        "image": datasets.Image(),
        "label": datasets.ClassLabel(names=["owl", "emu", "kea"]),
        "caption": datasets.Value("string"),
        "scores": datasets.Sequence(datasets.Value("float32")),
        "objects": [{"bbox": datasets.Sequence(datasets.Value("float32"), length=4)}],
        "grid": datasets.Array2D((2, 3), "int16"),
    })
    rows = [{
        "image": {"bytes": png(i), "path": f"{i}.png"}, "label": i % 3, "caption": "x" * i, "scores": [i / 4] * (i % 3),
        "objects": [{"bbox": [0.0, 1.0, 2.0, float(i)]}] * (i % 2), "grid": [[i, 1, 2], [3, 4, 5]],
    } for i in range(SAMPLES)]
    return datasets.Dataset.from_list(rows, features=features)


def expected(data):
    """As datasets reads it."""
    found = []
    for row in data:
        boxes = [one["bbox"] for one in row["objects"]]
        found.append({"image": np.asarray(row["image"].convert("RGB")).tolist(), "label": row["label"],
                      "caption": row["caption"], "scores": row["scores"], "boxes": boxes, "grid": row["grid"]})
    return found


def types(path):
    """Columns that datasets does not write."""
    table = pa.table({
        "image": [png(i) for i in range(SAMPLES)],
        "label": pa.array(["b", "a", None, "b", "c", "a", "c"]).dictionary_encode(),
        "price": pa.array([decimal.Decimal(i) / 4 for i in range(SAMPLES)], pa.decimal128(9, 2)),
        "when": pa.array([i * 1000 for i in range(SAMPLES)], pa.timestamp("ms")),
        "flag": pa.array([i % 2 == 0 for i in range(SAMPLES)]),
        "pair": pa.array([[i, -i] for i in range(SAMPLES)], pa.list_(pa.int32(), 2)),
    })
    pq.write_table(table, path, row_group_size=3)
    read = pq.read_table(path)
    return {
        "label": read["label"].to_pylist(), "price": [float(value) for value in read["price"].to_pylist()],
        "when": read["when"].cast(pa.int64()).to_pylist(), "flag": [int(value) for value in read["flag"].to_pylist()],
        "pair": read["pair"].to_pylist(),
    }


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "parquet").mkdir(parents=True)
    data = made()
    for number in range(2):
        data.shard(2, number, contiguous=True).to_parquet(folder / f"parquet/train-0000{number}-of-00002.parquet")
    datasets.DatasetDict(train=data, test=data.select([4, 2])).save_to_disk(folder / "saved")
    loaded = datasets.load_dataset("parquet", data_files=str(folder / "parquet/*.parquet"), split="train",
                                   cache_dir=str(folder / "cache"))
    result = {"rows": expected(loaded), "test": expected(datasets.load_from_disk(folder / "saved")["test"]),
              "types": types(folder / "types.parquet")}
    shutil.rmtree(folder / "cache")
    (folder / "expected.json").write_text(json.dumps(result))
    print(f"datasets {datasets.__version__}, pyarrow {pa.__version__}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
