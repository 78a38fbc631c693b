# Tables of small images for the tests of Parquet and Arrow, and the ways in which pyarrow writes them.
import io

import numpy as np
import pytest
from PIL import Image

pa = pytest.importorskip("pyarrow")


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
