# MDS and LitData as their libraries write them: the same values in the same order as those libraries read. The folders
# in shards/ were written by shards/write.py, with an old and a new release of each; expected.json is what the library
# reads. If a library is installed, it writes and reads new ones.
import base64
import io
import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import stoker as package
from PIL import Image

SHARDS = Path(__file__).with_name("shards")
MDS = sorted(SHARDS.glob("mds-*/*"))
LITDATA = sorted(SHARDS.glob("litdata-*/*"))
SAMPLES = [path for path in MDS + LITDATA if path.name != "tokens"]
STREAMS = [path for path in LITDATA if path.name == "tokens"]


def name_of(path):
    return f"{path.parent.name}-{path.name}"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


def leaves(value, name=""):
    """The leaves of a sample by the names of stoker's fields. Lists of numbers and of images are leaves."""
    structure = isinstance(value, dict) and not {"image", "bytes", "dtype"} & set(value)
    if not name or structure:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: leaf for own, entry in entries for key, leaf in leaves(entry, f"{name}.{own}" if name else str(own)).items()}
    return {name: value}


def expected_samples(folder):
    return [leaves(sample) for sample in json.loads((folder / "expected.json").read_text())]


def is_image(leaf):
    return isinstance(leaf, dict) and "image" in leaf


def kind_of(name, leaf):
    if is_image(leaf) or isinstance(leaf, list) and is_image(leaf[0]):
        return "image"
    return "bytes" if isinstance(leaf, str) or "bytes" in (leaf if isinstance(leaf, dict) else {}) else None


def further(sample):
    """The leaves that are neither image nor label."""
    taken = {image_name(sample), "label", "1"}
    return {name: leaf for name, leaf in sample.items() if name not in taken}


def image_name(sample):
    return next((name for name in ("image", "0", "raw") if name in sample), None)


def open_all(data, samples):
    """With all leaves but image and label as fields."""
    fields = {}
    for name, leaf in further(samples[-1]).items():
        kind = kind_of(name, leaf)
        fields[name.replace(".", "_")] = (name, kind) if kind else name
    return package.open(data, fields=fields)


def assert_value(got, leaf):
    if isinstance(leaf, dict) and "dtype" in leaf:
        got = np.asarray(got)
        if leaf["dtype"] not in ("int8", "uint32", "uint64", "bool"):  # these are int64, and uint8
            assert got.dtype.name == leaf["dtype"]
        assert list(got.shape) == leaf["shape"]
        np.testing.assert_array_equal(got.ravel(), np.array(leaf["values"], leaf["dtype"]).astype(got.dtype))
    elif is_image(leaf):
        wanted = np.array(leaf["image"], np.uint8)
        np.testing.assert_array_equal(got, wanted if wanted.ndim == 3 else np.stack([wanted] * 3, -1))  # grey
    elif isinstance(leaf, dict):
        assert got == base64.b64decode(leaf["bytes"])
    elif isinstance(leaf, str):
        assert got == leaf.encode()
    elif isinstance(leaf, list) and is_image(leaf[0]):
        np.testing.assert_array_equal(got, np.array([frame["image"] for frame in leaf], np.uint8))
    else:
        np.testing.assert_array_equal(got, np.array(leaf))


def image_of(sample):
    """The pixels of the leaf that is the image: LitData decodes JPEGs to planes."""
    leaf = sample[image_name(sample)]
    if is_image(leaf):
        return np.array(leaf["image"], np.uint8)
    if "bytes" in leaf:
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(leaf["bytes"]))))
    return np.array(leaf["values"], leaf["dtype"]).reshape(leaf["shape"]).transpose(1, 2, 0)


def label_of(sample):
    leaf = sample.get("label", sample.get("1"))
    return leaf["values"][0] if isinstance(leaf, dict) else leaf


def assert_samples(data, samples):
    assert len(data) == len(samples)
    for number, sample in enumerate(samples):
        got = data[number]
        assert got["label"] == label_of(sample)
        assert ("image" in got) == (image_name(sample) is not None)
        if "image" in got:
            np.testing.assert_array_equal(got["image"], image_of(sample))
        for name, leaf in further(sample).items():
            assert_value(got[name.replace(".", "_")], leaf)


@pytest.mark.parametrize("folder", SAMPLES, ids=name_of)
def test_values_are_those_of_the_library(folder):
    samples = expected_samples(folder)
    data = open_all(folder, samples)
    assert data.format == folder.parent.name.split("-")[0]
    assert_samples(data, samples)


@pytest.mark.parametrize("folder", STREAMS, ids=name_of)
def test_a_stream_of_tokens(folder):
    expected = json.loads((folder / "expected.json").read_text())
    data = package.open(folder, context=4)
    assert len(data) == len(expected)
    for number, block in enumerate(expected):
        assert data[number]["tokens"].tolist() == block["values"]
    with pytest.raises(package.InvalidArgument):
        package.open(folder)


def test_keys_and_the_index_as_a_path():
    folder = SHARDS / "mds-0.13/plain"
    shards = json.loads((folder / "index.json").read_text())["shards"]
    keys = [f"{shard['raw_data']['basename']}/{i}" for shard in shards for i in range(shard["samples"])]
    assert [package.open(folder)[i]["key"] for i in range(3)] == keys
    assert [package.open(folder / "index.json")[i]["key"] for i in range(3)] == keys


def test_commands(stoker, tmp_path):
    for data in ("mds-0.13/zstd", "litdata-0.2.76/batch"):
        report = stoker("inspect", SHARDS / data, "--verify", "--json").json()
        assert (report["samples"], report["format"]) == (3, data.split("-")[0])
        packed = tmp_path / f"{data[:3]}.stk"
        stoker("pack", SHARDS / data, packed)
        assert_samples(package.open(packed), expected_samples(SHARDS / data))


def test_splits(stoker, tmp_path):
    shutil.copytree(SHARDS / "mds-0.13/gz", tmp_path / "data/train")
    shutil.copytree(SHARDS / "mds-0.13/plain", tmp_path / "data/val")
    train = package.open(tmp_path / "data", split="train")
    val = package.open(tmp_path / "data", split="test")
    assert train.path.endswith("train") and val.path.endswith("val")
    # What merge_index of the library writes: the shards of all folders below.
    indices = [json.loads((tmp_path / "data" / part / "index.json").read_text()) for part in ("train", "val")]
    for part, index in zip(("train", "val"), indices):
        for shard in index["shards"]:
            for key in ("raw_data", "zip_data"):
                if shard[key]:
                    shard[key]["basename"] = f"{part}/{shard[key]['basename']}"
    (tmp_path / "data/index.json").write_text(json.dumps({"shards": indices[0]["shards"], "version": 2}))
    merged = package.open(tmp_path / "data")
    assert merged[0]["key"].startswith("train/shard.00000")


class Counted(SimpleHTTPRequestHandler):
    """Serves ranges, as stores of objects do."""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        begin, end = int(first), min(int(last or len(content) - 1), len(content) - 1)
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Range", f"bytes {begin}-{end}/{len(content)}")
        self.send_header("Content-Length", str(end - begin + 1))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(content[begin : end + 1])


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Counted, directory=str(SHARDS))) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_address[1]}"
        served.shutdown()
        thread.join()


@pytest.mark.parametrize("folder", SAMPLES, ids=name_of)
def test_remote_shards(server, folder):
    url = f"{server}/{folder.relative_to(SHARDS)}"
    samples = expected_samples(folder)
    assert_samples(open_all(f"{url}/index.json", samples), samples)
    loader = package.Loader(open_all(f"{url}/", samples), 2, shuffle=True, workers=2)
    labels = sorted(int(label) for batch in loader for label in batch["label"])
    assert labels == sorted(map(label_of, samples))


def test_a_url_without_an_index(server):
    with pytest.raises(package.Error) as error:
        package.open(f"{server}/mds-0.13")
    assert "index.json" in str(error.value)


def test_chunks_that_a_reader_has_replaced(tmp_path):
    """The library removes compressed chunks of a local folder and leaves their content under another name."""
    folder = shutil.copytree(SHARDS / "litdata-0.2.76/chunk", tmp_path / "chunk")
    samples = expected_samples(folder)
    compressed = package.open(folder)
    for number, chunk in enumerate(sorted(folder.glob("*.zstd.bin"))):
        content = b"".join(zstd_content(chunk))
        chunk.unlink()
        chunk.with_name(chunk.name.replace(".zstd", "")).write_bytes(content)
    assert_samples(package.open(folder), samples)
    assert len(compressed) == 3


def zstd_content(path):
    run = subprocess.run(["zstd", "-dc", path], capture_output=True, check=False)
    if run.returncode != 0:
        pytest.skip("no zstd program")
    return [run.stdout]


def damaged(tmp_path, source, change):
    folder = shutil.copytree(SHARDS / source, tmp_path / "damaged", dirs_exist_ok=True)
    index = json.loads((folder / "index.json").read_text())
    change(folder, index)
    (folder / "index.json").write_text(json.dumps(index))
    return folder


def first_shard(index, **values):
    index["shards"][0].update(values)


def first_chunk(index, **values):
    index["chunks"][0].update(values)


INDEX_FAULTS = {
    "another count": ("mds-0.13/plain", lambda _, index: first_shard(index, samples=7), package.DataError),
    "outside": ("mds-0.13/plain", lambda _, index: index["shards"][0]["raw_data"].update(basename="../x"), package.DataError),
    "another size": ("mds-0.13/gz", lambda _, index: index["shards"][0]["zip_data"].update(bytes=5), package.DataError),
    "brotli": ("mds-0.13/gz", lambda _, index: first_shard(index, compression="br:3"), package.Unsupported),
    "lines of JSON": ("mds-0.13/plain", lambda _, index: first_shard(index, format="json"), package.Unsupported),
    "version 3": ("mds-0.13/plain", lambda _, index: index.update(version=3), package.Unsupported),
    "missing file": ("mds-0.13/plain", lambda folder, _: next(folder.glob("*.mds")).unlink(), package.IoError),
    "no columns": ("mds-0.13/plain", lambda _, index: first_shard(index, column_names=None), package.DataError),
    "another count of items": ("litdata-0.2.76/plain", lambda _, index: first_chunk(index, chunk_size=9), package.DataError),
    "encrypted": ("litdata-0.2.76/plain", lambda _, index: index["config"].update(encryption={"a": 1}), package.Unsupported),
    "Parquet": ("litdata-0.2.76/plain", lambda _, index: index["config"].update(item_loader="ParquetLoader"), package.Unsupported),
    "another structure": ("litdata-0.2.76/plain", lambda _, index: index["config"].update(data_spec="[1, {}]"), package.DataError),
    "no chunks": ("litdata-0.2.76/plain", lambda _, index: index.update(chunks=[]), package.DataError),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEX_FAULTS)
def test_a_damaged_index_is_refused_when_it_is_opened(tmp_path, name):
    source, change, error = INDEX_FAULTS[name]
    with pytest.raises(error):
        package.open(damaged(tmp_path, source, change))


def test_a_damaged_sample_is_a_bad_sample(stoker, tmp_path):
    folder = shutil.copytree(SHARDS / "mds-0.13/plain", tmp_path / "data")
    shard = folder / "shard.00001.mds"
    content = bytearray(shard.read_bytes())
    content[8:12] = (10**6).to_bytes(4, "little")  # the end of its only sample
    shard.write_bytes(content)
    data = package.open(folder)
    assert data[0]["label"] == 0 and data[2]["label"] == 2
    with pytest.raises(package.DataError) as error:
        data[1]
    assert "shard.00001.mds" in str(error.value)
    assert stoker("inspect", folder, "--verify", status=1)


def arrow_chunk(table):
    """A chunk as LitData writes rows of numbers, text and bytes: a stream behind empty samples."""
    arrow = pytest.importorskip("pyarrow")
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream = sink.getvalue().to_pybytes()
    count = table.num_rows
    head = np.array([count] + [4 * (count + 2)] * (count + 1), np.uint32).tobytes()
    return head + stream + len(stream).to_bytes(4, "little") + b"LDARW01\0"


def rows_folder(tmp_path, columns, config):
    arrow = pytest.importorskip("pyarrow")
    folder = shutil.copytree(SHARDS / "litdata-0.2.76/rows", tmp_path / "rows")
    for chunk in folder.glob("*.bin"):
        chunk.unlink()
    index = json.loads((folder / "index.json").read_text())
    index["config"].update(config)
    index["chunks"] = [{**index["chunks"][0], "chunk_size": len(columns["label"]), "filename": "chunk-0-0.bin"}]
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "chunk-0-0.bin").write_bytes(arrow_chunk(arrow.table(columns)))
    return folder


ROWS = {"raw": [b"\x89PNG\r\n\x1a\n1"] * 3, "text": ["a", "b", "c"], "label": [4, 5, 6], "real": [0.5] * 3, "flag": [True] * 3}


def test_a_null_is_one_bad_sample(tmp_path):
    folder = rows_folder(tmp_path, {**ROWS, "text": ["a", None, "c"]}, {})
    data = package.open(folder, fields={"text": ("text", "bytes"), "raw": ("raw", "bytes")})
    assert [data[i]["text"] for i in (0, 2)] == [b"a", b"c"]
    assert [data[i]["label"] for i in (0, 2)] == [4, 6]
    with pytest.raises(package.DataError):
        data[1]


def test_rows_among_compressed_chunks(tmp_path):
    """The library never compresses chunks of Arrow rows as a whole."""
    folder = rows_folder(tmp_path, ROWS, {"compression": "zstd", "compression_level": "chunk"})
    data = package.open(folder, fields={"text": ("text", "bytes"), "raw": ("raw", "bytes")})
    assert [data[i]["label"] for i in range(3)] == ROWS["label"]


def test_pickles_are_not_read(tmp_path):
    def pickled(folder, index):
        for shard in index["shards"]:
            at = shard["column_names"].index("raw")
            shard["column_encodings"][at] = "pkl"

    folder = damaged(tmp_path, "mds-0.13/plain", pickled)
    assert package.open(folder)[0]["label"] == 0
    with pytest.raises(package.Unsupported):
        package.open(folder, fields=["raw"])


@pytest.mark.parametrize("library", ["mds", "litdata"])
def test_what_an_installed_library_writes(tmp_path, library):
    """The library of this Python, or of the one that STOKER_MDS_PYTHON or STOKER_LITDATA_PYTHON names."""
    python = os.environ.get(f"STOKER_{library.upper()}_PYTHON")
    if python is None:
        pytest.importorskip({"mds": "streaming", "litdata": "litdata"}[library])
    writer = [python or sys.executable, SHARDS / "write.py", library, tmp_path / "new"]
    subprocess.run(writer, check=True, capture_output=True)
    folders = sorted(folder for folder in (tmp_path / "new").iterdir() if folder.name != "tokens")
    assert len(folders) >= 3
    for folder in folders:
        samples = expected_samples(folder)
        assert_samples(open_all(folder, samples), samples)
