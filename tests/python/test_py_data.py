# stoker.open: single samples, subsets, fields, and the modules that the package imports.
import json
import os
import pickle
import re
import subprocess
import sys
import tarfile
import types
import warnings

import numpy as np
import pytest
from conftest import PYTHON_PACKAGE, ROOT, draw_noise
from PIL import Image

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")


def test_a_folder_of_images(drawn):
    data = stoker.open(drawn)
    assert len(data) == 24 and data.format == "image_folder" and data.classes == sorted(p.name for p in drawn.iterdir())
    for index in (0, 13, -1):
        sample = data[index]
        assert list(sample) == ["image", "label", "index", "key"]
        assert (sample["image"] == np.asarray(Image.open(drawn / sample["key"]))).all()
        assert data.classes[sample["label"]] == sample["key"].split("/")[0]
        assert sample["index"] == index % 24 and data.key(index) == sample["key"] and data.label(index) == sample["label"]
    assert [sample["key"] for sample in data] == [data.key(i) for i in range(24)]
    assert "24 samples, image_folder, 8 classes" in repr(data)


def test_subsets(drawn):
    data = stoker.open(drawn)
    keys = [data.key(i) for i in range(24)]
    part = data[4:20:3]
    assert [part.key(i) for i in range(len(part))] == keys[4:20:3]
    assert part[[1, 5, -1]][2]["key"] == part[-1]["key"] == keys[19]
    assert [sample["key"] for sample in part[::-1]] == keys[4:20:3][::-1]
    rest, share = data.split(0.3)
    both = [part.key(i) for part in (rest, share) for i in range(len(part))]
    assert len(share) < len(rest) and sorted(both) == sorted(keys)
    assert [sample["key"] for sample in pickle.loads(pickle.dumps(part[1:3]))] == keys[4:20:3][1:3]


def keys_of(data):
    return [data.key(i) for i in range(len(data))]


def test_a_split_of_a_part():
    data = stoker.open("synth:digits?count=2000")
    rest, test = data.split(0.2)
    train, val = rest.split(0.25)
    assert [len(part) / 2000 for part in (train, val, test)] == pytest.approx([0.6, 0.2, 0.2], abs=0.05)
    assert sorted(keys_of(train) + keys_of(val) + keys_of(test)) == sorted(keys_of(data))
    for part in (train, val, data[1000:].split(0.3)[1], train[5:100]):
        copy = pickle.loads(pickle.dumps(part))
        assert keys_of(copy) == keys_of(part)
        assert [keys_of(half) for half in copy.split(0.5)] == [keys_of(half) for half in part.split(0.5)]


def test_names_that_are_not_utf8(tmp_path):
    for name in (b"caf\xe9/\xe8.png", b"tea/x.png"):
        path = os.fsencode(tmp_path / "data") + b"/" + name
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Image.new("RGB", (8, 8)).save(os.fsdecode(path))
    data = stoker.open(tmp_path / "data")
    assert keys_of(data) == [os.fsdecode(b"caf\xe9/\xe8.png"), "tea/x.png"] and data[0]["key"] == data.key(0)
    assert data.classes == [os.fsdecode(b"caf\xe9"), "tea"] and "2 classes" in repr(data)
    with open(os.fsencode(tmp_path / "data") + b"/caf\xe9/\xe8.png", "wb") as file:
        file.write(b"no image")
    with pytest.raises(stoker.DataError) as caught:
        data[0]
    assert caught.value.key == data.key(0)


def test_files_that_are_left_out_are_warned_of(tmp_path):
    (tmp_path / "data/a").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "data/a/0.png")
    (tmp_path / "data/a/1.psd").write_bytes(b"8BPS")
    with pytest.warns(UserWarning, match="left out: 1 "):
        data = stoker.open(tmp_path / "data")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.loads(pickle.dumps(data))


@pytest.mark.parametrize("mask", [[True] + 23 * [False], np.arange(24) < 1, True, np.bool_(True)])
def test_masks_are_refused(drawn, mask):
    """They would be taken for the indices 0 and 1."""
    with pytest.raises(stoker.InvalidArgument, match="got truth values; numpy.flatnonzero"):
        stoker.open(drawn)[mask]


def test_an_array_without_dimensions_is_an_index(drawn):
    torch = pytest.importorskip("torch")
    data = stoker.open(drawn)
    for index in (torch.tensor(3), np.array(3), np.int64(3)):
        assert data[index]["key"] == data.key(3)
    assert [len(data[torch.tensor([3])]), len(data[np.array([], int)])] == [1, 0]
    for mask in (torch.tensor(True), np.array(True)):
        with pytest.raises(stoker.InvalidArgument, match="got truth values"):
            data[mask]


def test_fields(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 6, 1), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", images=pixels, labels=[2, 0, 1], m=pixels[..., 0], point=np.ones((3, 2, 2), np.float32))
    data = stoker.open(tmp_path / "d.npz", fields={"mask": ("m", "mask"), "point": "point"})
    assert data.fields == [("mask", "mask", "uint8", ()), ("point", "value", "float32", (2, 2))]
    assert data.fields[0].kind == "mask"
    assert {field.name for field in data.stored_fields} == {"m", "point"}
    sample = data[1]
    assert (sample["image"] == pixels[1]).all() and sample["label"] == 0
    assert (sample["mask"] == pixels[1, ..., 0]).all() and sample["mask"].dtype == np.uint8
    assert sample["point"].tolist() == [[1, 1], [1, 1]]


def test_tokens(tmp_path):
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "t.bin")
    data = stoker.open(tmp_path / "t.bin", context=9)
    assert len(data) == 11 and not data.has_image
    assert data[1]["tokens"].tolist() == list(range(9, 19))
    (batch,) = stoker.Loader(data, 11, shuffle=False)
    assert list(batch) == ["label", "index", "key", "tokens"] and batch["tokens"].shape == (11, 10)


def test_splits(mnist):
    assert (len(stoker.open(mnist)), len(stoker.open(mnist, split="test"))) == (60000, 10000)
    assert stoker.open(mnist)[0]["image"].shape == (28, 28, 1)


def test_mistakes_are_named(drawn, tmp_path):
    with pytest.raises(OSError, match="does not exist"):
        stoker.open(tmp_path / "nothing")
    with pytest.raises(stoker.InvalidArgument, match="a test split"):
        stoker.open(drawn, split="test")
    with pytest.raises(ValueError, match="a kind: value, label"):
        stoker.open(drawn, fields={"mask": ("mask", "picture")})
    for fields in ({"x": ("a", "b", "c")}, {"x": 5}, {"x": ("a", None)}, [3]):
        with pytest.raises(stoker.InvalidArgument, match=r"\[fields\] expected a name in the data or \(name, kind\)"):
            stoker.open(drawn, fields=fields)
    with pytest.raises(stoker.InvalidArgument, match=r"\[path\] expected a path or a URL, got list"):
        stoker.open([drawn])
    assert stoker.open(str(drawn).encode()).path == str(drawn)
    with pytest.raises(stoker.InvalidArgument, match="not image, label, index or key"):
        stoker.open(drawn, fields=["key"])
    with pytest.raises(IndexError, match="from -24 to 23, got 24"):
        stoker.open(drawn)[24]
    with pytest.raises(TypeError):
        stoker.open(drawn)[1.5]
    (tmp_path / "data/a").mkdir(parents=True)
    (tmp_path / "data/a/x.png").write_bytes(b"no image")
    with pytest.raises(stoker.DataError, match="a/x.png") as caught:
        stoker.open(tmp_path / "data")[0]
    assert caught.value.index == 0 and caught.value.key == "a/x.png"


def test_importing_the_package_is_cheap():
    text = "import sys, stoker; assert not {'torch', 'numpy', 'stoker._stoker'} & set(sys.modules), sys.modules.keys()"
    subprocess.run([sys.executable, "-c", text], check=True, env={"PYTHONPATH": str(PYTHON_PACKAGE)})
    text = "import time; t = time.perf_counter(); import stoker; print(time.perf_counter() - t)"
    times = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, env={"PYTHONPATH": str(PYTHON_PACKAGE)})
        times.append(float(done.stdout))
    assert min(times) < 0.06


def test_every_name_is_there():
    for name in stoker.__all__:
        assert getattr(stoker, name) is not None
    assert set(stoker.__all__) <= set(dir(stoker))
    with pytest.raises(AttributeError, match="no attribute 'lodaer'"):
        stoker.lodaer


class Frame:
    """What pandas and polars have in common."""

    def __init__(self, **columns):
        self.columns = list(columns)
        self._values = columns

    def __getitem__(self, name):
        return self._values[name]


ROWS = {
    "path": ["a.png", "b, c.png", "d.png"],
    "label": ["dog", "cat", None],
    "age": np.array([1.5, np.nan, 3]),
    "tame": [True, False, True],
}


def test_labels_from_a_table(tmp_path):
    for i, name in enumerate(ROWS["path"]):
        Image.new("RGB", (4, 3), (i, 0, 0)).save(tmp_path / name)
    (tmp_path / "rows.csv").write_text('path,label,age,tame\na.png,dog,1.5,1\n"b, c.png",cat,,0\nd.png,,3,1\n')
    fields = {"age": "age", "tame": ("tame", "label")}
    tables = [ROWS, Frame(**ROWS), tmp_path / "rows.csv", str(tmp_path / "rows.csv")]
    for table in tables:
        data = stoker.open(tmp_path, labels=table, fields=fields)
        assert data.classes == ["cat", "dog"] and len(data) == 3 and data.path == str(tmp_path)
        assert [data.label(i) for i in range(3)] == [1, 0, -1] and data.key(1) == "b, c.png"
        assert data[0]["age"] == 1.5 and data[1:][1]["tame"] == 1
        with pytest.raises(stoker.DataError, match="a number for age"):
            data[1]
        again = pickle.loads(pickle.dumps(data[[2, 0]]))
        assert [again.key(i) for i in range(2)] == ["d.png", "a.png"] and again[0]["image"][0, 0, 0] == 2
    batches = stoker.Loader(stoker.open(tmp_path, labels=ROWS, label="tame"), 3, shuffle=False)
    assert next(iter(batches))["label"].tolist() == [1, 0, 1]


@pytest.mark.parametrize("module", ["pandas", "polars", "pyarrow"])
def test_labels_from_a_data_frame(tmp_path, module):
    library = pytest.importorskip(module)
    Image.new("RGB", (4, 3)).save(tmp_path / "a.png")
    columns = {"label": ["x", None], "file": ["a.png", "b.png"], "age": [2.0, None]}
    frame = library.table(columns) if module == "pyarrow" else library.DataFrame(columns)
    data = stoker.open(tmp_path, labels=frame, fields=["age"])
    assert data.classes == ["x"] and data[0]["age"] == 2 and data.label(1) == -1
    parquet = tmp_path / "rows.parquet"
    if module == "pyarrow":
        pytest.importorskip("pyarrow.parquet").write_table(frame, parquet)
    else:
        getattr(frame, "to_parquet" if module == "pandas" else "write_parquet")(parquet)
    assert stoker.open(tmp_path, labels=parquet).classes == ["x"]


def test_bytes_of_a_column_are_text(tmp_path):
    """As pyarrow gives columns that another program wrote without saying that they are text."""
    Image.new("RGB", (4, 3)).save(tmp_path / "a.png")
    data = stoker.open(tmp_path, labels={"path": [b"a.png"], "label": ["ä".encode()]})
    assert data.classes == ["ä"] and data.key(0) == "a.png"
    with pytest.raises(stoker.InvalidArgument, match="text in UTF-8 in column 'path', got"):
        stoker.open(tmp_path, labels={"path": [b"\xff.png"]})


def test_labels_of_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    names = [f"{i}.png" for i in range(12)]
    for labels in (torch.arange(12), list(torch.arange(12)), np.arange(12)):
        data = stoker.open(tmp_path, labels={"path": names, "label": labels})
        assert [data.label(i) for i in range(12)] == list(range(12)) and len(data.classes) == 12
    truths = stoker.open(tmp_path, labels={"path": names[:2], "label": torch.tensor([True, False])})
    assert truths.classes == ["false", "true"]


def test_columns_that_nobody_asked_for_may_hold_anything(tmp_path):
    Image.new("RGB", (4, 3)).save(tmp_path / "a.png")
    rows = {
        "image": [b"\xff\xd8", b"\xff"],
        "Path": ["a.png", "b.png"],
        "class": ["x", "y"],
        "embedding": list(np.ones((2, 3))),
        "lists": [[1, 2], [3]],
        "age": [1.5, 2.5],
        "left": [1, 2],
        "right": [3, 4],
    }
    plain = stoker.open(tmp_path, labels=rows)
    assert (plain.classes, plain.key(1)) == (["x", "y"], "b.png")
    assert [field.kind for field in plain.stored_fields if field.name == "age"] == ["value"]
    data = stoker.open(tmp_path, labels=rows, fields={"sides": ("left, right", "value"), "age": "age"})
    assert data[0]["sides"].tolist() == [1, 3] and data[0]["age"] == 1.5
    for options, column, kind in [
        ({"fields": ["embedding"]}, "embedding", "ndarray"),
        ({"fields": {"x": "age,lists"}}, "lists", "list"),
        ({"label": "embedding"}, "embedding", "ndarray"),
    ]:
        with pytest.raises(stoker.InvalidArgument, match=f"a number in each cell of column '{column}', got a {kind}"):
            stoker.open(tmp_path, labels=rows, **options)
    with pytest.raises(stoker.InvalidArgument, match="in column 'image'"):
        stoker.open(tmp_path, labels=rows, image="image")


def test_the_usual_names_of_columns_are_those_of_the_engine():
    from stoker import _labels

    source = (ROOT / "src/stoker/formats/table/table_dataset.cpp").read_text()
    for name, ours in [("kPaths", _labels._PATHS), ("kLabels", _labels._LABELS)]:
        listed = re.search(rf"{name} = {{(.*?)}};", source, re.DOTALL)[1]
        assert tuple(re.findall(r'"(\w+)"', listed)) == ours


def test_absolute_paths_within_the_folder(tmp_path, monkeypatch):
    """As glob gives them."""
    for name in ("a, 1.png", "masks/m.png"):
        draw_noise(tmp_path / "data" / name)
    folder = tmp_path / "data"
    rows = {"path": [folder / "a, 1.png"], "mask": [str(folder / "masks/m.png")], "label": [f"{folder}/x"]}
    (tmp_path / "rows.csv").write_text(f'path,mask,label\n"{rows["path"][0]}",{rows["mask"][0]},{folder}/x\n')
    monkeypatch.chdir(tmp_path)
    for table in (rows, "rows.csv"):
        for opened in (folder, "data", "./data/"):
            data = stoker.open(opened, labels=table, fields={"mask": ("mask", "label")})
            assert data.key(0) == "a, 1.png" and data.classes == [f"{folder}/x"]
            assert data[0]["image"].shape == (16, 16, 3)
        data = stoker.open(folder, labels=table, fields={"mask": ("mask", "image")})
        assert data[0]["mask"].shape == (16, 16, 3)
    with pytest.raises(stoker.DataError, match="a path within the table's folder"):
        stoker.open(folder, labels={"path": [str(tmp_path / "b.png")]})


def test_parquet_files_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "rows.parquet").write_bytes(b"no table")
    for name in ("polars", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)
    reader = types.ModuleType("pyarrow.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", types.ModuleType("pyarrow"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", reader)
    for error, expected, message in [
        (ValueError("Parquet magic bytes not found\nin footer"), stoker.InvalidArgument, "a Parquet file, got Parquet"),
        (FileNotFoundError(2, "No such file"), stoker.IoError, "No such file"),
        (ImportError("no usable engine"), stoker.Unsupported, "pip install pyarrow"),
    ]:
        def read_table(path, error=error):
            raise error

        reader.read_table = read_table
        with pytest.raises(expected, match=message) as caught:
            stoker.open(tmp_path, labels=tmp_path / "rows.parquet")
        assert "\n" not in str(caught.value)


def test_tables_that_are_none(tmp_path):
    cases = [
        (5, stoker.InvalidArgument, "a DataFrame, a dict of columns, or a .csv or .parquet file, got int"),
        ({"path": ["a"], "label": []}, stoker.InvalidArgument, "columns of one length"),
        (tmp_path / "absent.csv", stoker.IoError, "No such file"),
        ({"path": ["../a.png"]}, stoker.DataError, "within the table's folder"),
    ]
    for table, error, message in cases:
        with pytest.raises(error, match=message):
            stoker.open(tmp_path, labels=table)
    with pytest.raises(stoker.InvalidArgument, match="neither split, context nor clips"):
        stoker.open(tmp_path, labels={"path": []}, split="test")


def test_labels_of_another_name_are_asked_for(tmp_path):
    draw_noise(tmp_path / "0.png", 0)
    (tmp_path / "labels.csv").write_text("path,klass\n0.png,a\n")
    for table in ({"path": ["0.png"], "klass": ["a"]}, tmp_path / "labels.csv"):
        with pytest.raises(stoker.InvalidArgument, match="column label, class or target, got path, klass; label=NAME"):
            stoker.open(tmp_path, labels=table)
        assert stoker.open(tmp_path, labels=table, label="klass").classes == ["a"]
    assert stoker.open(tmp_path, labels={"path": ["0.png"], "age": [3]}, fields=["age"])[0]["age"] == 3
    assert stoker.open(tmp_path, labels={"path": ["0.png"]})[0]["label"] == -1
    with pytest.raises(stoker.InvalidArgument, match="expected columns, as .*, got '0.png': 'a'"):
        stoker.open(tmp_path, labels={"0.png": "a"})


@pytest.fixture
def coco(tmp_path):
    """Two images with boxes of the categories cat and dog, in a folder of an unusual name."""
    (tmp_path / "coco/annotations").mkdir(parents=True)
    (tmp_path / "coco/photos").mkdir()
    for i in range(2):
        Image.new("RGB", (16, 16)).save(tmp_path / f"coco/photos/{i}.png")
    document = {
        "images": [{"id": i, "file_name": f"{i}.png", "width": 16, "height": 16} for i in range(2)],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [
            {"id": i, "image_id": image, "category_id": category, "bbox": [1, 2, 3, 4]}
            for i, (image, category) in enumerate([(0, 1), (1, 2), (1, 1)])
        ],
    }
    path = tmp_path / "coco/annotations/instances_train.json"
    path.write_text(json.dumps(document))
    return path


def test_the_images_of_an_annotation_file_lie_beside_its_folder(coco):
    data = stoker.open(coco, image="photos")
    assert data[1]["image"].shape == (16, 16, 3) and data[1]["labels"].tolist() == [1, 0]


def test_numbers_of_packed_boxes_have_no_names_to_compare(coco, tmp_path):
    fields = ["boxes", "labels"]
    data = stoker.open(coco, image="photos", fields=fields)
    stoker.pack(data, tmp_path / "x.stk", progress=False)
    packed = stoker.open(tmp_path / "x.stk", fields={"boxes": ("boxes", "boxes"), "labels": ("labels", "label")})
    both = stoker.Loader([data, packed], 4, shuffle=False, workers=0)
    assert [part.tolist() for part in next(iter(both))["labels"]] == [[0], [1, 0]] * 2


def test_an_archive_beside_a_table_is_not_read(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    (folder / "labels.csv").write_text("path,label\na.png,3\n")
    with tarfile.open(folder / "images.tar", "w") as tar:
        tar.add(folder / "a.png", "b.png")
    data = stoker.open(folder)
    assert data.format == "table" and data.label(0) == 3


def test_a_value_of_an_unknown_type_is_a_bad_sample_of_a_tar(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for i, value in enumerate([np.zeros(2, np.complex64), np.ones(2, np.float32), np.ones(2, np.float32)]):
            Image.new("RGB", (8, 8)).save(tmp_path / "image.png")
            np.save(tmp_path / "value.npy", value)
            tar.add(tmp_path / "image.png", f"{i}.png")
            tar.add(tmp_path / "value.npy", f"{i}.value.npy")
    data = stoker.open(tmp_path / "x.tar", fields=["value"])
    assert [field.dtype for field in data.fields] == ["float32"] and data[1]["value"].tolist() == [1, 1]
    with pytest.raises((stoker.DataError, stoker.Unsupported), match="<c8"):
        data[0]
