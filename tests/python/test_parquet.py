# Parquet and Arrow files: values equal those that pyarrow and datasets read, in every encoding and compression that
# pyarrow writes; splits as datasets finds them; tables in memory; damage.
import decimal
import io
import json
import os
import pickle
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import stoker
from stoker import transforms as T

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def png(seed, height=9, width=11):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return pixels, file.getvalue()


def images(count=40, **columns):
    """A table as the Hub has it: a file with its name, and a class."""
    files = [{"bytes": png(i, 5 + i % 7)[1], "path": f"{i}.png"} for i in range(count)]
    return pa.table({"image": files, "label": [i % 3 for i in range(count)], **columns})


def check_images(data, count=40):
    assert len(data) == count
    for i in range(count):
        sample = data[i]
        assert np.array_equal(sample["image"], png(i, 5 + i % 7)[0]), i
        assert sample["label"] == i % 3


WAYS = {
    "plain": {"compression": "none", "use_dictionary": False},
    "dictionary": {"compression": "none"},
    "snappy": {},
    "gzip": {"compression": "gzip", "use_dictionary": False},
    "zstd": {"compression": "zstd"},
    "lz4": {"compression": "lz4", "use_dictionary": False},
    "brotli": {"compression": "brotli"},
    "pages": {"compression": "none", "use_dictionary": False, "data_page_size": 1, "write_batch_size": 4},
    "small dictionary": {"dictionary_pagesize_limit": 1, "data_page_size": 1, "write_batch_size": 4},
    "page index": {"write_page_index": True, "data_page_size": 1, "write_batch_size": 4, "use_dictionary": False},
    "version 2": {"data_page_version": "2.0", "data_page_size": 1, "write_batch_size": 4},
    "groups": {"row_group_size": 7},
    "check sums": {"write_page_checksum": True, "use_dictionary": False, "compression": "none"},
    "delta": {"use_dictionary": False, "column_encoding": {"image.bytes": "DELTA_LENGTH_BYTE_ARRAY"}},
    "delta bytes": {"use_dictionary": False, "column_encoding": {"image.bytes": "DELTA_BYTE_ARRAY"}},
}


@pytest.mark.parametrize("way", WAYS)
def test_images_in_all_encodings(tmp_path, way):
    pq.write_table(images(), tmp_path / "x.parquet", **WAYS[way])
    data = stoker.open(tmp_path / "x.parquet")
    assert data.format == "parquet" and data.classes == ["0", "1", "2"]
    check_images(data)
    assert data.key(7) == "x/7"


def test_a_binary_column_and_labels_of_text(tmp_path):
    names = ["dog", "cat", "ant", None]
    table = pa.table({"jpg": [png(i)[1] for i in range(8)], "label": [names[i % 4] for i in range(8)]})
    pq.write_table(table, tmp_path / "x.parquet")
    data = stoker.open(tmp_path / "x.parquet")
    assert data.classes == ["ant", "cat", "dog"]
    assert [data[i]["label"] for i in range(4)] == [2, 1, 0, -1]
    assert np.array_equal(data[5]["image"], png(5)[0])


def test_a_dictionary_column_of_labels(tmp_path):
    column = pa.array(["b", "a", "b", "c"]).dictionary_encode()
    table = images(4).set_column(1, "label", column)
    pq.write_table(table, tmp_path / "x.parquet")
    for data in (stoker.open(tmp_path / "x.parquet"), stoker.open(table)):
        assert data.classes == ["a", "b", "c"]
        assert [data[i]["label"] for i in range(4)] == [1, 0, 1, 2]


FIELDS = {
    "int8": (pa.array([-128, 5, 127], pa.int8()), None),
    "int16": (pa.array([-(2**15), 5, 2**15 - 1], pa.int16()), np.int16),
    "int32": (pa.array([-(2**31), 5, 2**31 - 1], pa.int32()), np.int32),
    "int64": (pa.array([-(2**63), 5, 2**63 - 1], pa.int64()), np.int64),
    "uint8": (pa.array([0, 5, 255], pa.uint8()), np.uint8),
    "uint16": (pa.array([0, 5, 65535], pa.uint16()), np.uint16),
    "float16": (pa.array(np.array([1.5, -2, 65504], np.float16)), np.float16),
    "float32": (pa.array([1.5, -2, 3e38], pa.float32()), np.float32),
    "float64": (pa.array([1.5, -2, 1e300], pa.float64()), np.float64),
    "bool": (pa.array([True, False, True]), np.uint8),
    "decimal": (pa.array([decimal.Decimal("1.25"), decimal.Decimal("-3.50"), decimal.Decimal("0.75")]), np.float64),
    "timestamp": (pa.array([1, 10**12, -5], pa.timestamp("us")), np.int64),
    "date": (pa.array([0, 20000, -1], pa.date32()), np.int32),
    "list": (pa.array([[1.0, 2], [3.0, 4], [5.0, 6]], pa.list_(pa.float32())), np.float32),
    "large list": (pa.array([[1, 2], [3, 4], [5, 6]], pa.large_list(pa.int32())), np.int32),
    "fixed list": (pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int64(), 2)), np.int64),
    "nested": (pa.array([[[1.0, 2], [3, 4]]] * 3, pa.list_(pa.list_(pa.float32()))), np.float32),
    "list of bool": (pa.array([[True, False], [False, True], [True, True]]), np.uint8),
}


@pytest.mark.parametrize("name", FIELDS)
def test_values_equal_pyarrows(tmp_path, name):
    column, dtype = FIELDS[name]
    table = images(3, value=column)
    pq.write_table(table, tmp_path / "x.parquet")
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    for source in (tmp_path / "x.parquet", tmp_path / "x.arrow", table, table.slice(1)):
        if dtype is None:  # fields have other types
            with pytest.raises(stoker.Unsupported):
                stoker.open(source, fields=["value"])
            continue
        data = stoker.open(source, fields=["value"])
        first = 3 - len(data)
        for i in range(len(data)):
            expected = column[first + i].as_py()
            if name in ("timestamp", "date"):
                expected = column[first + i].value
            found = data[i]["value"]
            assert found.dtype == dtype
            assert np.array_equal(found, np.array(expected, dtype)), (source, i)


def test_lists_of_any_length_and_boxes(tmp_path):
    boxes = [[[1.0, 2, 3, 4]] * (i % 3) for i in range(10)]
    objects = [{"bbox": box, "category": [7] * len(box)} for box in boxes]
    listed = [[{"bbox": one, "category": 7} for one in box] for box in boxes]
    table = images(10, boxes=boxes, objects=objects, listed=listed)
    pq.write_table(table, tmp_path / "x.parquet")
    names = {"boxes": ("boxes", "boxes"), "inner": ("objects.bbox", "boxes"), "flat": ("listed.bbox", "boxes"),
             "category": ("objects.category", "label"), "other": ("listed.category", "label")}
    for source in (tmp_path / "x.parquet", table):
        data = stoker.open(source, fields=names)
        for i in range(10):
            sample = data[i]
            expected = np.array(boxes[i], np.float32).reshape(-1, 4)
            for name in ("boxes", "inner", "flat"):
                assert sample[name].dtype == np.float32 and np.array_equal(sample[name], expected)
            for name in ("category", "other"):
                assert sample[name].dtype == np.int64 and sample[name].tolist() == [7] * len(boxes[i])


def test_nulls_are_bad_samples(tmp_path):
    table = images(4, value=pa.array([1.0, None, 3, 4]), items=pa.array([[1, 2], [3, 4], [5, None], [7, 8]]))
    files = table.column("image").to_pylist()
    files[3] = {"bytes": None, "path": None}
    table = table.set_column(0, "image", pa.array(files, table.schema.field("image").type))
    pq.write_table(table, tmp_path / "x.parquet")
    for source in (tmp_path / "x.parquet", table):
        data = stoker.open(source, fields=["value", "items"])
        assert data[0]["value"] == 1.0 and data[0]["items"].tolist() == [1, 2]
        for i in (1, 2, 3):
            with pytest.raises(stoker.DataError):
                data[i]


def test_tensors_keep_their_permutation(tmp_path):
    values = np.arange(4 * 2 * 3 * 5, dtype=np.uint16).reshape(4, 2, 3, 5)
    plain = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    kind = pa.fixed_shape_tensor(pa.uint16(), [2, 3, 5], permutation=[2, 0, 1])
    storage = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 30)
    table = pa.table({"plain": plain, "turned": pa.ExtensionArray.from_storage(kind, storage)})
    pq.write_table(table, tmp_path / "x.parquet")
    for source in (tmp_path / "x.parquet", table):
        data = stoker.open(source, fields=["plain", "turned"])
        assert not data.has_image
        for i in range(4):
            assert np.array_equal(data[i]["plain"], values[i])
            assert np.array_equal(data[i]["turned"], values[i].transpose(2, 0, 1))


def test_images_as_numbers(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 4000, (6, 7, 5), np.uint16)
    table = pa.table({"image": pixels.tolist(), "label": [0, 1] * 3})
    table = table.set_column(0, "image", table.column(0).cast(pa.list_(pa.list_(pa.uint16()))))
    pq.write_table(table, tmp_path / "x.parquet")
    data = stoker.open(tmp_path / "x.parquet")
    for i in range(6):
        assert data[i]["image"].dtype == np.uint16
        assert np.array_equal(data[i]["image"].squeeze(), pixels[i])


def test_lists_of_files_are_clips(tmp_path):
    clips = [[{"bytes": png(10 * i + frame)[1], "path": None} for frame in range(5)] for i in range(3)]
    pq.write_table(pa.table({"image": clips, "label": [0, 1, 2]}), tmp_path / "x.parquet")
    data = stoker.open(tmp_path / "x.parquet")
    assert data[2]["image"].shape == (5, 9, 11, 3)
    assert np.array_equal(data[2]["image"][4], png(24)[0])


def test_text_without_an_image(tmp_path):
    table = pa.table({"text": ["a word", "", "ünï"], "ids": [[1, 2], [3], []]})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(stoker.DataError):
        stoker.open(tmp_path / "x.parquet")
    data = stoker.open(tmp_path / "x.parquet", fields={"text": "text", "ids": ("ids", "tokens")})
    assert [data[i]["text"] for i in range(3)] == [b"a word", b"", "ünï".encode()]
    assert [data[i]["ids"].tolist() for i in range(3)] == [[1, 2], [3], []]


def test_files_without_bytes(tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.png").write_bytes(png(1)[1])
    names = [str(tmp_path / "files/a.png"), "files/a.png", "files/none.png"]
    table = pa.table({"image": [{"bytes": None, "path": name} for name in names], "label": [0, 1, 2]})
    table = table.cast(pa.schema([("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())]))
    pq.write_table(table, tmp_path / "x.parquet")
    data = stoker.open(tmp_path / "x.parquet")
    for i in range(2):
        assert np.array_equal(data[i]["image"], png(1)[0])
    with pytest.raises(stoker.DataError, match="none.png"):
        data[2]


@pytest.mark.parametrize("name", ["path", "file_name", "image"])
def test_a_column_of_names(tmp_path, name):
    (tmp_path / "files").mkdir()
    for i in range(4):
        (tmp_path / f"files/{i}.png").write_bytes(png(i)[1])
    names = [f"files/{i}.png" if i % 2 else str(tmp_path / f"files/{i}.png") for i in range(4)]
    pq.write_table(pa.table({"caption": ["x"] * 4, name: names, "label": ["b", "a"] * 2}), tmp_path / "x.parquet")
    data = stoker.open(tmp_path / "x.parquet", fields=["caption"])
    for i in range(4):
        assert np.array_equal(data[i]["image"], png(i)[0]) and data[i]["label"] == 1 - i % 2


def test_whole_floats_are_labels(tmp_path):
    """pandas makes floats of integers with missing ones."""
    for missing in (None, float("nan")):
        table = images(4).set_column(1, "label", pa.array([1.0, missing, 0, 2], pa.float64()))
        data = stoker.open(table)
        assert [data[i]["label"] for i in range(4)] == [1, -1, 0, 2]
    targets = images(4).set_column(1, "label", pa.array([1.5, 2, 3, 4]))
    assert stoker.open(targets, fields={"target": "label"})[0]["target"] == 1.5
    assert stoker.open(targets)[0]["label"] == -1
    with pytest.raises(stoker.Unsupported):
        stoker.open(targets, label="label")


def test_columns_that_hold_no_images_are_refused(tmp_path):
    table = pa.table({"score": [1.0, 2], "image": [[[1, 2]], [[3, 4]]]})  # int64
    for name in ("score", "image"):
        with pytest.raises(stoker.Unsupported, match=name):
            stoker.open(table, image=name)


# ---- Hugging Face's datasets ----


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A data set of datasets with three splits, and a place for its files."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    features = datasets.Features(
        {"img": datasets.Image(), "fine_label": datasets.ClassLabel(names=["owl", "emu"]), "size": datasets.Value("int32")}
    )

    def split(first, count):
        rows = [{"img": {"bytes": png(i)[1], "path": None}, "fine_label": i % 2, "size": i} for i in range(first, first + count)]
        return datasets.Dataset.from_list(rows, features=features)

    return datasets, datasets.DatasetDict(train=split(0, 30), validation=split(30, 10), test=split(40, 5)), tmp_path_factory.mktemp("hub")


def check_hub(data, first, count):
    assert len(data) == count and data.classes == ["owl", "emu"]
    for i in range(count):
        sample = data[i]
        assert np.array_equal(sample["image"], png(first + i)[0]) and sample["label"] == (first + i) % 2
        assert sample["size"] == first + i


def test_saved_to_disk(hub, tmp_path):
    _, splits, _ = hub
    splits.save_to_disk(tmp_path / "dict", num_shards={"train": 3, "validation": 1, "test": 1})
    check_hub(stoker.open(tmp_path / "dict", fields=["size"]), 0, 30)
    check_hub(stoker.open(tmp_path / "dict", split="validation", fields=["size"]), 30, 10)
    check_hub(stoker.open(tmp_path / "dict", split="test", fields=["size"]), 40, 5)
    check_hub(stoker.open(tmp_path / "dict/test", fields=["size"]), 40, 5)
    splits["train"].shuffle(seed=3).save_to_disk(tmp_path / "shuffled")
    again = hub[0].load_from_disk(tmp_path / "shuffled")
    data = stoker.open(tmp_path / "shuffled", fields=["size"])
    assert [data[i]["size"] for i in range(30)] == again["size"][:]


def test_parquet_of_datasets(hub, tmp_path):
    _, splits, _ = hub
    (tmp_path / "data").mkdir()
    splits["train"].shard(2, 0, contiguous=True).to_parquet(tmp_path / "data/train-00000-of-00002.parquet")
    splits["train"].shard(2, 1, contiguous=True).to_parquet(tmp_path / "data/train-00001-of-00002.parquet")
    splits["test"].to_parquet(tmp_path / "data/test-00000-of-00001.parquet")
    check_hub(stoker.open(tmp_path, fields=["size"]), 0, 30)
    check_hub(stoker.open(tmp_path / "data/train-*.parquet", fields=["size"]), 0, 30)
    check_hub(stoker.open(tmp_path, split="test", fields=["size"]), 40, 5)
    splits["validation"].to_parquet(tmp_path / "data/validation-00000-of-00001.parquet")
    check_hub(stoker.open(tmp_path, split="validation", fields=["size"]), 30, 10)
    check_hub(stoker.open(tmp_path, split="test", fields=["size"]), 40, 5)
    snapshot = tmp_path / "datasets--me--mine/snapshots/0123"
    shutil.copytree(tmp_path / "data", snapshot / "data")
    check_hub(stoker.open(tmp_path / "datasets--me--mine", fields=["size"]), 0, 30)


def test_the_card_names_the_files(hub, tmp_path):
    datasets, splits, _ = hub
    for name, split in (("a", "train"), ("b", "test")):
        (tmp_path / name).mkdir()
        splits[split].to_parquet(tmp_path / name / "0.parquet")
    head = "---\nlicense: mit\nconfigs:\n- config_name: small\n  data_files: \"b/*.parquet\"\n- config_name: default\n  data_files:\n"
    (tmp_path / "README.md").write_text(head + "  - split: train\n    path: a/*\n  - split: test\n    path:\n    - b/0.parquet\n---\n# text\n")
    check_hub(stoker.open(tmp_path, fields=["size"]), 0, 30)
    check_hub(stoker.open(tmp_path, split="test", fields=["size"]), 40, 5)
    loaded = datasets.load_dataset(str(tmp_path), "default", cache_dir=str(tmp_path / "cache"))
    assert loaded["train"].num_rows == 30 and loaded["test"].num_rows == 5


def test_folders_of_one_split_are_any_split(hub, program, stoker, tmp_path):
    """Two saved folders are data.train and data.val."""
    _, splits, _ = hub
    splits["train"].save_to_disk(tmp_path / "mine")
    (tmp_path / "holdout").mkdir()
    splits["test"].to_parquet(tmp_path / "holdout/part-0.parquet")
    recipe = tmp_path / "recipe.toml"
    ops = '[{op = "resize", size = [8, 8]}]'
    recipe.write_text(f'[data]\ntrain = "mine"\nval = "holdout"\nbatch_size = 10\ntrain_ops = {ops}\nval_ops = {ops}\n'
                      '[model]\nname = "mlp"\n[train]\nepochs = 1\n')
    done = stoker("train", recipe, "--out", "run", "--json").json()
    assert 0 <= done["epochs"][0]["val_accuracy"] <= 1
    assert stoker("eval", "run", "mine", "--json").status == 0


def test_the_cache_of_load_dataset(hub, tmp_path):
    datasets, splits, _ = hub
    splits["train"].to_parquet(tmp_path / "train.parquet")
    loaded = datasets.load_dataset("parquet", data_files=str(tmp_path / "train.parquet"), cache_dir=str(tmp_path / "cache"))
    folder = loaded["train"].cache_files[0]["filename"].rsplit("/", 1)[0]
    check_hub(stoker.open(folder, fields=["size"]), 0, 30)


def test_a_dataset_in_memory(hub):
    datasets, splits, _ = hub
    check_hub(stoker.open(splits["train"], fields=["size"]), 0, 30)
    chosen = splits["train"].shuffle(seed=1).select(range(3, 20))
    data = stoker.open(chosen, fields=["size"])
    assert [data[i]["size"] for i in range(17)] == chosen["size"][:]
    again = pickle.loads(pickle.dumps(data))
    assert [again[i]["size"] for i in range(17)] == chosen["size"][:]
    with pytest.raises(stoker.InvalidArgument, match="DatasetDict"):
        stoker.open(splits)
    with pytest.raises(stoker.InvalidArgument, match="set_transform"):
        stoker.open(splits["train"].with_transform(lambda rows: rows))
    with pytest.raises(stoker.InvalidArgument, match="IterableDataset"):
        stoker.open(splits["train"].to_iterable_dataset())


def test_a_table_is_not_copied(hub):
    table = pa.table({"image": [{"bytes": b"\x89PNG" + bytes(2**20), "path": None}] * 64})
    before = pa.total_allocated_bytes()
    data = stoker.open(table)
    assert pa.total_allocated_bytes() - before < 2**20
    del table
    assert len(data) == 64


# ---- The pipeline ----


def batches(data, workers, batch_size=8, **settings):
    ops = [T.RandomResizedCrop(8), T.RandomHorizontalFlip()]
    loader = stoker.Loader(data, batch_size, ops=ops, workers=workers, seed=5, framework="numpy", **settings)
    return [(batch["index"].tolist(), batch["image"].tobytes()) for _ in range(2) for batch in loader]


def test_one_order_for_any_workers_and_ranks(tmp_path):
    pq.write_table(images(48), tmp_path / "x.parquet", row_group_size=10)
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, images(1).schema) as writer:
        writer.write_table(images(48))
    for data in (tmp_path / "x.parquet", tmp_path / "x.arrow"):
        one = batches(str(data), 1)
        assert one == batches(str(data), 3)
        halves = [batches(str(data), 2, 4, rank=rank, world_size=2) for rank in range(2)]
        assert [index for index, _ in one] == [a + b for (a, _), (b, _) in zip(*halves)]


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_resume_and_bad_samples(tmp_path, compression):
    """Also of data that are shuffled within windows."""
    table = images(60)
    files = table.column("image").to_pylist()
    files[7] = {"bytes": b"no image", "path": None}
    table = table.set_column(0, "image", pa.array(files, table.schema.field("image").type))
    pq.write_table(table, tmp_path / "x.parquet", compression=compression, use_dictionary=False, row_group_size=16)

    def loader(workers):
        settings = {"seed": 2, "framework": "numpy", "shuffle_window": 20, "bad_samples": 1}
        return stoker.Loader(tmp_path / "x.parquet", 6, ops=[T.RandomResizedCrop(8)], workers=workers, **settings)

    def content(batches):
        return [(batch["index"].tolist(), batch["image"].tobytes()) for batch in batches]

    with pytest.warns(stoker.BadSampleWarning):
        whole = content(loader(1))
    first, second = loader(2), loader(3)
    with pytest.warns(stoker.BadSampleWarning):
        begun = iter(first)
        part = content(next(begun) for _ in range(4))
        second.load_state_dict(first.state_dict())
        assert part + content(second) == whole


def test_inspect_pack_and_show(stoker, tmp_path):
    pq.write_table(images(20, size=pa.array(range(20), pa.int32()), text=["x"] * 20), tmp_path / "x.parquet")
    report = stoker("inspect", "x.parquet", "--json").json()
    assert report["format"] == "parquet" and report["samples"] == 20 and len(report["classes"]) == 3
    assert [report["fields"][name]["kind"] for name in ("size", "text")] == ["value", "bytes"]
    assert stoker("inspect", "x.parquet", "--verify", "--json").json()["bad"] == []
    stoker("pack", "x.parquet", "x.stk", "--field", "size")
    packed = stoker("inspect", "x.stk", "--json").json()
    assert packed["samples"] == 20 and packed["fields"]["size"]["dtype"] == "int32"
    stoker("show", "x.parquet", "-o", "grid.png")
    assert Image.open(tmp_path / "grid.png").size[0] > 20


def test_the_module_is_not_taken_from_the_working_directory(stoker, program, tmp_path):
    """The name that a program of PATH is called by lacks its folder."""
    pq.write_table(images(4), tmp_path / "x.parquet")
    for name in program.parent.glob("libstoker_arrow-*.so"):
        (tmp_path / name.name).write_bytes(b"no library")
    done = subprocess.run(["stoker", "inspect", "x.parquet"], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stderr


# ---- Damage ----


def test_cut_and_foreign_files(tmp_path):
    pq.write_table(images(), tmp_path / "x.parquet")
    whole = (tmp_path / "x.parquet").read_bytes()
    for size in (0, 3, 8, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.parquet").write_bytes(whole[:size])
        with pytest.raises(stoker.DataError, match="cut.parquet"):
            stoker.open(tmp_path / "cut.parquet")
    (tmp_path / "x.arrow").write_bytes(b"ARROW1\0\0" + bytes(100))
    with pytest.raises(stoker.DataError):
        stoker.open(tmp_path / "x.arrow")


def test_files_of_other_columns(tmp_path):
    pq.write_table(images(4), tmp_path / "train-0.parquet")
    pq.write_table(images(4, more=[1, 2, 3, 4]), tmp_path / "train-1.parquet")
    with pytest.raises(stoker.DataError, match="train-1.parquet"):
        stoker.open(tmp_path)


@pytest.mark.parametrize("way", ["plain", "snappy", "check sums", "version 2"])
def test_damaged_pages_are_bad_samples(tmp_path, way):
    settings = WAYS[way] | {"write_page_checksum": True, "use_dictionary": False, "write_statistics": False, "data_page_size": 1, "write_batch_size": 4}
    pq.write_table(images(), tmp_path / "x.parquet", **settings)
    whole = bytearray((tmp_path / "x.parquet").read_bytes())
    place = whole.find(png(20, 5 + 20 % 7)[1][-40:-20])  # also in compressed pages: these bytes do not repeat
    assert place > 0
    whole[place] ^= 0x55
    (tmp_path / "x.parquet").write_bytes(whole)
    data = stoker.open(tmp_path / "x.parquet")
    good = 0
    for i in range(40):
        try:
            assert np.array_equal(data[i]["image"], png(i, 5 + i % 7)[0])
            good += 1
        except stoker.DataError as error:
            assert "x.parquet" in str(error)
    assert 0 < good < 40


def test_any_changed_byte_is_an_error_or_harmless(tmp_path):
    """No crash: each byte of a small file is changed in turn."""
    pq.write_table(images(3, value=[[1, 2], [3], []]), tmp_path / "x.parquet", compression="zstd")
    whole = (tmp_path / "x.parquet").read_bytes()
    generator = np.random.default_rng(0)
    for place in generator.choice(len(whole), 300, replace=False):
        changed = bytearray(whole)
        changed[place] ^= int(generator.integers(1, 256))
        (tmp_path / "y.parquet").write_bytes(changed)
        try:
            data = stoker.open(tmp_path / "y.parquet", fields=["value"])
            for i in range(len(data)):
                try:
                    data[i]
                except stoker.DataError:
                    pass
        except stoker.Error:
            pass


def test_a_configuration_must_be_chosen(tmp_path):
    pq.write_table(images(4), tmp_path / "x.parquet")
    card = "---\nconfigs:\n- config_name: a\n  data_files: x.parquet\n- config_name: b\n  data_files: x.parquet\n---\n"
    (tmp_path / "README.md").write_text(card)
    with pytest.raises(stoker.DataError, match="a, b"):
        stoker.open(tmp_path)


def test_files_of_other_types_and_features(tmp_path):
    pq.write_table(images(4), tmp_path / "train-0.parquet")
    table = images(4)
    pq.write_table(table.set_column(1, "label", pa.array([[1], [], [2], [0]])), tmp_path / "train-1.parquet")
    with pytest.raises(stoker.DataError, match="train-1.parquet"):
        stoker.open(tmp_path)
    for number, names in enumerate((["a", "b", "c"], ["b", "a", "c"])):
        features = {"info": {"features": {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}}}
        marked = table.replace_schema_metadata({"huggingface": json.dumps(features)})
        pq.write_table(marked, tmp_path / f"train-{number}.parquet")
    with pytest.raises(stoker.DataError, match="train-1.parquet"):
        stoker.open(tmp_path)


def test_a_stream_is_used_once(tmp_path):
    class Twice:
        capsule = images(2).__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    assert len(stoker.open(Twice())) == 2
    with pytest.raises(stoker.InvalidArgument):
        stoker.open(Twice())


def test_the_first_images_may_be_bad(tmp_path):
    """A binary column is one of images if the first value that is there is one."""
    values = [None, None] + [png(i)[1] for i in range(6)]
    pq.write_table(pa.table({"picture": pa.array(values, pa.binary()), "label": [0, 1] * 4}), tmp_path / "x.parquet")
    data = stoker.open(tmp_path / "x.parquet")
    assert np.array_equal(data[2]["image"], png(0)[0])
    with pytest.raises(stoker.DataError):
        data[0]


def test_plain_files_are_read_in_place(tmp_path):
    pq.write_table(images(), tmp_path / "plain.parquet", **WAYS["plain"])
    data = stoker.open(tmp_path / "plain.parquet")
    check_images(data)
    assert "plain.parquet" in Path("/proc/self/maps").read_text()


def test_files_outside_of_the_folder_by_relative_names(tmp_path):
    (tmp_path / "secret.png").write_bytes(png(1)[1])
    (tmp_path / "data").mkdir()
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"image": pa.array([{"bytes": None, "path": "../secret.png"}], kind)}), tmp_path / "data/x.parquet")
    with pytest.raises(stoker.DataError):
        stoker.open(tmp_path / "data/x.parquet")[0]


def test_a_damaged_page_of_labels_is_decoded_once(tmp_path):
    count = 20_000
    table = pa.table({"image": [{"bytes": b"P6 1 1 255\nabc", "path": None}] * count, "label": np.arange(count) * 7919 % 1000})
    settings = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True, "write_statistics": False}
    pq.write_table(table, tmp_path / "x.parquet", **settings)
    chunk = pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0).column(2)
    whole = bytearray((tmp_path / "x.parquet").read_bytes())
    whole[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0x55
    (tmp_path / "x.parquet").write_bytes(whole)
    begin = time.monotonic()
    data = stoker.open(tmp_path / "x.parquet")
    assert time.monotonic() - begin < 30  # a minute and more if each row decodes it again
    with pytest.raises(stoker.DataError):
        data[5]


def test_tensors_of_lists_are_refused(tmp_path):
    inner = pa.FixedSizeListArray.from_arrays(pa.array(range(24), pa.uint8()), 3)
    kind = pa.fixed_shape_tensor(pa.list_(pa.uint8(), 3), [2, 2], permutation=[1, 0])
    table = images(2, value=pa.ExtensionArray.from_storage(kind, pa.FixedSizeListArray.from_arrays(inner, 4)))
    with pytest.raises(stoker.Unsupported):
        stoker.open(table, fields=["value"])


def test_a_dictionary_with_a_null(tmp_path):
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array(["a", None, "b"]))
    data = stoker.open(images(4).set_column(1, "label", column))
    assert data.classes == ["a", "b"] and [data[i]["label"] for i in range(4)] == [0, -1, 1, 0]


def test_state_of_a_saved_dataset_stays_in_its_folder(tmp_path):
    pq.write_table(images(4), tmp_path / "x.parquet")
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../x.arrow"}]}))
    with pytest.raises(stoker.DataError):
        stoker.open(tmp_path)


# ---- Files of two releases each of datasets and pyarrow, written by tests/python/hub/write.py ----

HUB = Path(__file__).parent / "hub"


@pytest.mark.parametrize("release", sorted(path.name for path in HUB.iterdir() if path.is_dir()))
@pytest.mark.parametrize("place", ["parquet", "saved", "saved test"])
def test_files_of_releases(release, place):
    expected = json.loads((HUB / release / "expected.json").read_text())
    rows = expected["test"] if place == "saved test" else expected["rows"]
    fields = {"caption": "caption", "scores": "scores", "boxes": ("objects.bbox", "boxes"), "grid": "grid"}
    split = "test" if place == "saved test" else "train"
    data = stoker.open(HUB / release / place.split()[0], split=split, fields=fields)
    assert len(data) == len(rows) and data.classes == ["owl", "emu", "kea"]
    for i, row in enumerate(rows):
        sample = data[i]
        assert sample["image"].tolist() == row["image"] and sample["label"] == row["label"]
        assert sample["caption"].decode() == row["caption"] and sample["scores"].tolist() == row["scores"]
        assert sample["boxes"].tolist() == row["boxes"]
        assert sample["grid"].dtype == np.int16 and sample["grid"].tolist() == row["grid"]


@pytest.mark.parametrize("release", sorted(path.name for path in HUB.iterdir() if path.is_dir()))
def test_types_of_releases(release):
    expected = json.loads((HUB / release / "expected.json").read_text())["types"]
    data = stoker.open(HUB / release / "types.parquet", fields=["price", "when", "flag", "pair"])
    assert data.classes == ["a", "b", "c"]
    for i, label in enumerate(expected["label"]):
        sample = data[i]
        assert sample["label"] == (-1 if label is None else "abc".index(label))
        for name in ("price", "when", "flag", "pair"):
            assert sample[name].tolist() == expected[name][i], name
