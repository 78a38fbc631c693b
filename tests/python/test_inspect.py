# `stoker inspect`: counts, sizes and classes equal those of Pillow and the folder; --verify lists exactly the bad
# samples.
import base64
import json
import shutil
import zlib
from collections import Counter

import pytest
from PIL import Image


def test_photos(stoker, photos):
    files = sorted(photos.glob("*/*"))
    report = stoker("inspect", photos, "--verify", "--json").json()
    sizes = [Image.open(file).size for file in files]
    assert report["format"] == "image_folder"
    assert report["samples"] == len(files)
    assert report["classes"] == sorted({file.parent.name for file in files})
    assert report["class_counts"] == [n for _, n in sorted(Counter(file.parent.name for file in files).items())]
    assert report["codecs"] == {"jpeg": len(files)}
    assert report["bytes"] == sum(file.stat().st_size for file in files)
    assert report["bad"] == []
    image = report["fields"]["image"]
    assert image["shape"] == [None, None, 3]
    assert image["width"] == [min(w for w, _ in sizes), max(w for w, _ in sizes)]
    assert image["height"] == [min(h for _, h in sizes), max(h for _, h in sizes)]


def test_idx(stoker, mnist):
    report = stoker("inspect", mnist, "--json").json()
    assert (report["format"], report["samples"], report["codecs"]) == ("idx", 60000, {"raw": 60000})
    assert report["classes"] == [str(digit) for digit in range(10)]
    assert report["class_counts"] == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert report["fields"]["image"]["shape"] == [28, 28, 1]
    assert stoker("inspect", mnist, "--test", "--json").json()["samples"] == 10000


def test_test_split_of_a_folder_is_refused(stoker, drawn):
    assert "--test" in stoker("inspect", drawn, "--test", status=1).err


def test_synth_without_files(stoker):
    report = stoker("inspect", "synth:digits?count=300&seed=1", "--json").json()
    assert report["samples"] == 300 and sum(report["class_counts"]) == 300


@pytest.fixture
def spoilt(drawn, tmp_path):
    """A copy of the photos in which 4 of 24 files are bad."""
    folder = tmp_path / "spoilt"
    shutil.copytree(drawn, folder)
    cut = folder / "stars/00001.jpg"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    (folder / "dots/00000.jpg").write_text("not an image at all\n")
    (folder / "rings/00002.jpg").write_bytes(b"")
    (folder / "waves/00001.jpg").write_bytes(b"II*\0\x10\0\0\0")
    return folder


def test_verify_lists_the_bad_samples_and_no_others(stoker, spoilt):
    done = stoker("inspect", spoilt, "--verify", "--json", status=1)
    bad = done.json()["bad"]
    assert [sample["key"] for sample in bad] == [
        "dots/00000.jpg",
        "rings/00002.jpg",
        "stars/00001.jpg",
        "waves/00001.jpg",
    ]
    reasons = [sample["reason"] for sample in bad]
    assert 'text "not an image' in reasons[0] and "no bytes" in reasons[1] and "a TIFF" in reasons[3]
    assert bad[0]["offset"] == 0
    assert 0 < bad[2]["offset"] <= (spoilt / "stars/00001.jpg").stat().st_size
    assert len(done.err.splitlines()) == 1 and "4 bad of 24 samples" in done.err


def test_without_verify_only_headers_are_read(stoker, spoilt):
    done = stoker("inspect", spoilt, "--json", status=1)
    assert "stars/00001.jpg" not in [sample["key"] for sample in done.json()["bad"]]
    assert done.json()["codecs"] == {"jpeg": 21, "tiff": 1, "unknown": 2}


def test_large_folders_are_sampled(stoker, drawn, tmp_path):
    folder = tmp_path / "many"
    for label, file in enumerate(sorted(drawn.glob("*/00000.jpg"))):
        (folder / f"c{label}").mkdir(parents=True)
        for number in range(150):
            (folder / f"c{label}/{number:03}.jpg").symlink_to(file)
    report = stoker("inspect", folder, "--json").json()
    assert (report["samples"], report["codecs_sampled"], report["codecs"]) == (1200, 1000, {"jpeg": 1000})
    assert report["class_counts"] == [150] * 8
    assert "1,000 samples spread evenly" in stoker("inspect", folder).out


def test_table(stoker, drawn):
    lines = stoker("inspect", drawn, "--verify").out.splitlines()
    assert lines[0] == str(drawn)
    assert "  samples   24 in 8 classes" in lines
    assert "  codecs    jpeg 24" in lines
    assert "stars            3" in lines
    assert lines[-1].startswith("verified: 24 samples decoded in ")


# A deflated shard with one raw pixel and label 2^62, which is valid as its schema lists no classes.
LARGE_LABEL = (
    "eNrrLC7J5uWS4mJkIA8kJiUzUAIYGSgDDlCaGUoHWOp3TolfXwEzmxFJjghjSAbZTFBLWKECmbmJ6alMSAI5iUmpOQT93wClD0Lp"
    "utZdSU/ctgU5QhWoQcUzmGOWT17poMvARF5YFrZFGx83Xl/ZCY13ADRUGnE="
)


def test_a_large_label_allocates_no_memory(stoker, tmp_path):
    folder = tmp_path / "any.stk"
    folder.mkdir()
    (folder / "shard-000000.stk").write_bytes(zlib.decompress(base64.b64decode(LARGE_LABEL)))
    shard = {"samples": 1, "bytes": 512, "hash": "79af33c7335b8671"}
    manifest = {"format": "stk", "version": 1, "samples": 1, "origin": {}, "shards": [shard]}
    (folder / "stk.json").write_text(json.dumps(manifest))
    report = stoker("inspect", folder, "--json", "--verify").json()
    assert (report["samples"], report["codecs"], report["bad"]) == (1, {"raw": 1}, [])


def test_parts_verify_every_sample_once(stoker, spoilt):
    whole = stoker("inspect", spoilt, "--verify", "--json", status=1).json()
    assert whole["read"] == 24 and len(whole["bad"]) == 4
    for count in (1, 5, 26):
        parts = [stoker("inspect", spoilt, "--verify", "--part", f"{i}/{count}", "--json", status=None) for i in range(count)]
        reports = [part.json() for part in parts]
        assert sum((report["bad"] for report in reports), []) == whole["bad"]
        assert sum(report["read"] for report in reports) == 24
        assert [part.status for part in parts] == [1 if report["bad"] else 0 for report in reports]
    refused = stoker("inspect", spoilt, "--verify", "--part", "5/5", status=1).err
    assert "[--part] expected " in refused and "got 5/5" in refused
    assert "part 0/5" in stoker("inspect", spoilt, "--verify", "--part", "0/5", status=None).out
    assert "--verify" in stoker("inspect", spoilt, "--part", "0/5", status=2).err
