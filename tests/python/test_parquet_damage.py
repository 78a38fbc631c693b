# Damaged, foreign and hostile Parquet and Arrow files: bad samples or one clear line.
import json
from pathlib import Path

import numpy as np
import pytest
from parquet_tables import WAYS, check_images, images, png

import stoker

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


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


def test_a_damaged_page_of_labels(tmp_path):
    count = 20_000
    table = pa.table({"image": [{"bytes": b"P6 1 1 255\nabc", "path": None}] * count, "label": np.arange(count) * 7919 % 1000})
    settings = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True, "write_statistics": False}
    pq.write_table(table, tmp_path / "x.parquet", **settings)
    chunk = pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0).column(2)
    whole = bytearray((tmp_path / "x.parquet").read_bytes())
    whole[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0x55
    (tmp_path / "x.parquet").write_bytes(whole)
    data = stoker.open(tmp_path / "x.parquet")
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


def test_a_compressed_buffer_that_states_another_size(tmp_path):
    """1 TiB in some hundred bytes is refused before memory is allocated; so is a size that memory has room for."""
    table = images(4)
    with pa.ipc.new_file(tmp_path / "x.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_table(table)
    whole = (tmp_path / "x.arrow").read_bytes()
    assert len(stoker.open(tmp_path / "x.arrow")) == 4
    place = whole.find(b"\x04\x22\x4d\x18") - 8  # the size in front of a frame
    for size in (1 << 40, len(whole) << 16):
        (tmp_path / "y.arrow").write_bytes(whole[:place] + size.to_bytes(8, "little") + whole[place + 8 :])
        with pytest.raises(stoker.DataError, match="y.arrow.*more than the file"):
            stoker.open(tmp_path / "y.arrow")
