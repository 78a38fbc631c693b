# WebDataset shards as Python's tarfile and the webdataset library write them, read by the program: the same samples
# in the same order, and nothing that leads out of the archive.
import io
import json
import tarfile

import numpy as np
import pytest
from conftest import shared
from PIL import Image

webdataset = pytest.importorskip("webdataset")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


def pixels(number, height=5, width=7):
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), np.uint8)


def png(number):
    out = io.BytesIO()
    Image.fromarray(pixels(number)).save(out, "png")
    return out.getvalue()


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def add(tar, name, content=b"", kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.type = kind
    info.linkname = link
    tar.addfile(info, io.BytesIO(content))


def keys(stoker, data):
    report = stoker("show", data, "--json").json()
    return [sample["key"] for sample in report["samples"]]


def shown(stoker, tmp_path, data, index):
    stoker("show", data, "--index", index, "--npy", "one.npy")
    return np.load(tmp_path / "one.npy")


FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
NAMES = {
    "short.png",
    "class name/\u00e9t\u00e9 \u96ea.png",
    "d" * 120 + "/" + "n" * 80 + ".png",  # over 100 bytes, which ustar divides
}
LONG = {"/".join(["deep"] * 60) + "/" + "x" * 90 + ".png", "y" * 240 + ".png"}  # over 255 bytes


@pytest.mark.parametrize("kind", FORMATS)
def test_names_of_every_format(stoker, tmp_path, kind):
    names = sorted(NAMES if kind == "ustar" else NAMES | LONG)
    with tarfile.open(tmp_path / "x.tar", "w", format=FORMATS[kind]) as tar:
        for number, name in enumerate(names):
            add(tar, name.rsplit("/", 1)[0] + "/", kind=tarfile.DIRTYPE)
            add(tar, name, png(number))
            add(tar, name[:-3] + "cls", str(number).encode())
            add(tar, f"link-{number}.png", kind=tarfile.SYMTYPE, link="../short.png")
            add(tar, f"hard-{number}.png", kind=tarfile.LNKTYPE, link="short.png")
            add(tar, f"fifo-{number}.png", kind=tarfile.FIFOTYPE)
            add(tar, f"device-{number}.png", kind=tarfile.CHRTYPE)
    report = stoker("inspect", "x.tar", "--verify", "--json").json()
    assert (report["format"], report["samples"], report["codecs"]) == ("webdataset", len(names), {"png": len(names)})
    assert report["class_counts"] == [1] * len(names) and report["bytes"] == (tmp_path / "x.tar").stat().st_size
    assert keys(stoker, "x.tar") == names
    for number in range(len(names)):
        assert (shown(stoker, tmp_path, "x.tar", number) == pixels(number)).all()


@pytest.mark.parametrize("name", ["a/../../out.png", "/etc/out.png"])
def test_names_that_lead_out_are_refused(stoker, tmp_path, name):
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        add(tar, "good.png", png(0))
        add(tar, name, png(1))
    done = stoker("inspect", "x.tar", "--json", status=1)
    assert f"x.tar: {name} @ byte " in done.err and done.out == "" and done.err.count("\n") == 1


def test_a_folder_packed_by_tar_keeps_its_keys(stoker, drawn, tmp_path):
    for name, prefix in (("plain.tar", ""), ("dotted.tar", "./")):
        with tarfile.open(tmp_path / name, "w") as tar:
            for path in sorted(drawn.rglob("*"), key=lambda path: str(path.relative_to(drawn))):
                tar.add(path, prefix + str(path.relative_to(drawn)), recursive=False)
        assert keys(stoker, name) == keys(stoker, drawn)
        assert (shown(stoker, tmp_path, name, 5) == shown(stoker, tmp_path, drawn, 5)).all()


@pytest.fixture
def shards(tmp_path):
    """Four shards by webdataset's own ShardWriter, 25 samples."""
    with webdataset.ShardWriter(str(tmp_path / "train-%06d.tar"), maxcount=7, verbose=0) as writer:
        for i in range(25):
            writer.write({"__key__": f"{i % 3}/{i:04}", "png": pixels(i), "cls": i % 4, "json": {"label": 99}})
    return tmp_path / "train-{000000..000003}.tar"


def test_shards_of_the_library(stoker, shards, tmp_path):
    report = stoker("inspect", shards, "--verify", "--json").json()
    assert (report["samples"], report["classes"], report["class_counts"]) == (25, list("0123"), [7, 6, 6, 6])
    listed = stoker("show", shards, "--json").json()["samples"]
    library = webdataset.WebDataset(str(shards), shardshuffle=False, empty_check=False).decode("rgb8")
    count = 0
    for index, sample in enumerate(library):
        assert listed[index]["key"] == sample["__key__"] + ".png"
        assert listed[index]["label"] == sample["cls"]
        if index % 6 == 0:
            assert (shown(stoker, tmp_path, shards, index) == sample["png"]).all()
        count += 1
    assert count == 25
    for same in ("train-*.tar", ".", "train-00000{0,1,2,3}.tar"):
        assert stoker("show", same, "--json").json()["samples"] == listed


def test_the_library_groups_as_we_do(stoker, tmp_path):
    """Names with several dots, in capitals, hidden, its own, in folders with dots: the same samples with images."""
    names = ["a.b/1.jpg.png", "a.b/1.PNG", "a.b/1.cls", "__meta__", "__x__/2.png", "2.png", "2.seg.png", "noext", "3.PNG",
             "d/4.x", "d/4.png", "d/5.txt", "d.e/f/6.png", "d.e/f/7.png"]  # fmt: skip
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for number, name in enumerate(names):
            add(tar, name, b"1" if name.endswith("cls") else png(number))
    samples = [
        sample
        for sample in webdataset.WebDataset(str(tmp_path / "x.tar"), shardshuffle=False, empty_check=False)
        if "png" in sample
    ]
    ours = keys(stoker, "x.tar")
    assert [key[: -len(".png")] for key in ours] == [sample["__key__"] for sample in samples]
    for index, sample in enumerate(samples):
        assert (shown(stoker, tmp_path, "x.tar", index) == np.asarray(Image.open(io.BytesIO(sample["png"])))).all()


def test_arrays_and_json(stoker, tmp_path):
    with webdataset.TarWriter(str(tmp_path / "x.tar")) as writer:
        for i in range(6):
            array = pixels(i) if i % 2 else pixels(i).transpose(2, 0, 1)
            array = np.asfortranarray(array) if i > 3 else array
            writer.write({"__key__": f"s{i}", "npy": npy(array), "json": json.dumps({"id": i, "label": i % 3}).encode()})
    report = stoker("inspect", "x.tar", "--json").json()
    assert (report["codecs"], report["class_counts"]) == ({"raw": 6}, [2, 2, 2])
    assert keys(stoker, "x.tar") == [f"s{i}" for i in range(6)]
    for i in range(6):
        assert (shown(stoker, tmp_path, "x.tar", i) == pixels(i)).all()


@pytest.mark.parametrize("shard, extension", [("compressed", "txt.gz"), ("mpdata", "mp"), ("tendata", "ten"), ("testgz", "txt.gz")])
def test_shards_of_webdatasets_own_tests(stoker, tmp_path, shard, extension):
    """Members of any extension, without images: the webdataset library's testdata folder."""
    source = shared("webdataset") / f"{shard}.tar"
    theirs = {sample["__key__"]: sample[extension] for sample in webdataset.WebDataset(str(source), shardshuffle=False)}
    field = f"content={extension}:bytes"
    report = stoker("inspect", source, "--field", field, "--json").json()
    assert report["samples"] == len(theirs) and report["fields"]["content"]["kind"] == "bytes"
    stoker("pack", source, "x.stk", "--field", field)
    stoker("pack", "x.stk", "x.tar", "--field", field)  # by the name that it had in the source
    packed = webdataset.WebDataset(str(tmp_path / "x.tar"), shardshuffle=False)
    assert {sample["__key__"]: sample["content.bin"] for sample in packed} == theirs
    assert list(theirs) == [sample["__key__"] for sample in webdataset.WebDataset(str(tmp_path / "x.tar"), shardshuffle=False)]
