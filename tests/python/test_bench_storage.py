# `stoker bench storage` on few records: every row is present, Stoker and the Python libraries compute the same sums,
# and a changed byte is an error.
import shutil
import sys

import pytest
from conftest import run_program

ROWS = ["folder", "lmdb", "hdf5", "webdataset", "webdataset-library", "npy", "stk"]
FEW = ["bench", "storage", "--count", "100", "--rounds", "1"]


@pytest.fixture
def peer(pytestconfig):
    for library in ("lmdb", "h5py", "webdataset", "xxhash"):
        pytest.importorskip(library)
    scripts = pytestconfig.rootpath / "bench/peers/storage"
    return ["--peer", "--python", sys.executable, "--peer-scripts", str(scripts)]


def check(document, with_peer):
    assert [size["bytes"] for size in document["records"]] == [784, 8112, 110592]
    assert [size["records"] for size in document["records"]] == [100, 16, 16]
    for size in document["records"]:
        assert [row["name"] for row in size["rows"]] == ROWS
        for row in size["rows"]:
            assert len(row["rounds"]) == 1 and row["samples_per_second"] > 0 and row["mb_per_second"] > 0
            compared = with_peer and row["name"] != "stk"
            assert ("ratio" in row) == compared
            if compared:
                assert row["ratio"] == pytest.approx(row["samples_per_second"] / row["peer_samples_per_second"])


@pytest.fixture(scope="module")
def own_files(program, tmp_path_factory):
    """The document of all rows, and the files that Stoker made for them. Tests must not change these."""
    folder = tmp_path_factory.mktemp("own")
    document = run_program(*FEW, "--json", "--data", "kept", cwd=folder).json()
    return document, folder / "kept"


def test_all_rows_of_own_files(own_files):
    check(own_files[0], with_peer=False)


@pytest.mark.slow
def test_all_rows_beside_python(stoker, peer, tmp_path):
    # Cold, as reading from memory takes 0.3 s for each of 39 rows.
    check(stoker(*FEW, *peer, "--cold", "--json", "--data", "kept").json(), with_peer=True)
    # Files kept in --data are reused, but only with the same --peer and --count.
    table = stoker(*FEW, *peer, "--data", "kept", "--only", "npy", "stk").out
    assert "webdataset" not in table and table.count("npy") == 3 and "in the page cache" in table
    assert "not in the page cache" not in table
    assert "made by stoker" in stoker(*FEW, "--data", "kept", status=1).err
    file = tmp_path / "kept/110592/records.npy"
    with file.open("r+b") as opened:
        opened.seek(-1000, 2)
        byte = opened.read(1)[0]
        opened.seek(-1000, 2)
        opened.write(bytes([byte ^ 1]))
    assert "records.npy" in stoker(*FEW, *peer, "--data", "kept", "--only", "npy", status=1).err


@pytest.mark.parametrize("file", ["records.lmdb", "records.stk/00000.stk"])
def test_a_damaged_byte_is_found(stoker, own_files, tmp_path, file):
    shutil.copytree(own_files[1], tmp_path / "kept")
    found = tmp_path / "kept/784" / file
    if not found.exists():
        found = max((tmp_path / "kept/784" / file.split("/")[0]).iterdir(), key=lambda path: path.stat().st_size)
    images = (tmp_path / "kept/784/folder/7/00000057.pgm").read_bytes()[-784:]
    content = found.read_bytes()
    if images not in content:  # in another shard
        found = next(path for path in found.parent.iterdir() if images in path.read_bytes())
        content = found.read_bytes()
    at = content.index(images) + 500
    found.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    row = {"lmdb": "lmdb", "h5": "hdf5"}.get(file.split(".")[-1], "webdataset" if "tar" in file else "stk")
    error = stoker(*FEW, "--data", "kept", "--only", row, status=1).err
    assert "hashes add up" in error and error.count("\n") == 1


def test_temporary_files_go(stoker, tmp_path):
    stoker(*FEW, "--only", "npy", env={"TMPDIR": str(tmp_path)})
    assert not list(tmp_path.iterdir())
