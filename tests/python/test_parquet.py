# Parquet and Arrow files: values equal those that pyarrow reads, in every encoding and compression that pyarrow writes;
# order, resume and the commands.
import decimal
import os
import subprocess

import numpy as np
import pytest
from parquet_tables import WAYS, check_images, images, png

import stoker
from PIL import Image
from stoker import transforms as T

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


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
