# TFRecord: the shards that TensorFlow 2.21 and 1.15 wrote (tests/formats/tfrecord/files/make.py), and where TensorFlow
# is installed, others that it writes and reads here.
import io
import json
import shutil

import numpy as np
import pytest
from conftest import ROOT
from PIL import Image

import stoker as package

FILES = ROOT / "tests/formats/tfrecord/files"
PLAIN = FILES / "plain-*-of-00002"
SIDES = [f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")]
FIELDS = {
    "boxes": (",".join(SIDES), "boxes"),
    "score": "score",
    "position": "position",
    "tokens": ("tokens", "tokens"),
    "text": "image/class/text",
    "classes": ("image/object/class/label", "label"),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


def options(fields):
    """As the command line takes them."""
    texts = []
    for name, source in fields.items():
        source = [source] if isinstance(source, str) else source
        texts += ["--field", f"{name}={':'.join(source)}"]
    return texts


def expected(number):
    """Sample `number` of the committed shards."""
    row, column = np.mgrid[:5, :7]
    sides = np.array([[k / 8, k / 16, k / 8 + 0.5, k / 8 + 0.25] for k in range(number % 3)], np.float32).reshape(-1, 4)
    return {
        "image": ((row * 40 + column * 3 + number) % 256).astype(np.uint8),
        "label": number % 3,
        "boxes": sides * np.float32([7, 5, 7, 5]),
        "score": np.float32(number / 4),
        "position": np.float32([number, -number, 1.5]),
        "tokens": np.arange(-1, number),
        "text": f"class {number % 3}".encode(),
        "classes": np.arange(number % 3),
    }


@pytest.mark.parametrize("release", [".", "tensorflow-1.15"])
@pytest.mark.parametrize("name", ["plain-*-of-00002", "plain-{00000,00001}-of-00002", "gzip.tfrecord", "zlib.tfrecord"])
def test_shards_of_tensorflow(release, name):
    data = package.open(FILES / release / name, fields=FIELDS)
    assert len(data) == 6 and list(data.classes) == ["0", "1", "2"]
    for number in range(6):
        sample, wanted = data[number], expected(number)
        assert (np.asarray(sample["image"])[..., 0] == wanted["image"]).all() and sample["label"] == wanted["label"]
        for field in ("boxes", "score", "position", "tokens", "classes"):
            assert np.asarray(sample[field]).dtype == np.asarray(wanted[field]).dtype, field
            assert np.array_equal(sample[field], wanted[field]), field
        assert sample["text"] == wanted["text"]


@pytest.mark.parametrize("name", ["plain-*-of-00002", "gzip.tfrecord"])
def test_inspect_lists_the_features(stoker, name):
    report = stoker("inspect", FILES / name, "--verify", "--json").json()
    assert (report["format"], report["samples"], report["codecs"]) == ("tfrecord", 6, {"png": 6})
    assert report["classes"] == ["0", "1", "2"] and report["class_counts"] == [2, 2, 2]
    shapes = {name: field["shape"] for name, field in report["fields"].items() if "/" in name or name == "score"}
    assert shapes["score"] == [] and shapes["image/height"] == [] and "several" not in report["fields"]


def test_show_and_pack_keep_everything(stoker, tmp_path):
    stoker("show", PLAIN, "--index", 4, "--npy", "one.npy")
    assert (np.load(tmp_path / "one.npy")[..., 0] == expected(4)["image"]).all()
    stoker("pack", PLAIN, "x.stk", *options(FIELDS))
    packed, source = (package.open(data, fields=FIELDS) for data in (tmp_path / "x.stk", PLAIN))
    assert len(packed) == 6
    for ours, theirs in zip(packed, source):
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert np.array_equal(ours[name], theirs[name]), name


def test_a_loader_reads_compressed_shards_in_the_same_order(tmp_path):
    def epoch(data, workers):
        loader = package.Loader(data, 4, workers=workers, seed=3, shuffle_window=0, framework="numpy")
        return [(batch["image"].tobytes(), batch["label"].tolist()) for batch in loader]

    first = epoch(PLAIN, 1)
    assert first == epoch(PLAIN, 2) == epoch(FILES / "gzip.tfrecord", 2) == epoch(FILES / "zlib.tfrecord", 1)
    windows = package.Loader(FILES / "gzip.tfrecord", 6, framework="numpy")
    (batch,) = windows
    assert sorted(batch["label"].tolist()) == [0, 0, 1, 1, 2, 2]


def test_sequences_are_refused_in_one_line(stoker):
    done = stoker("inspect", FILES / "sequence.tfrecord", status=1)
    assert "SequenceExample" in done.err and done.err.count("\n") == 1


@pytest.fixture
def splits(tmp_path):
    """A folder as TensorFlow Datasets writes it."""
    folder = tmp_path / "set/1.0.0"
    folder.mkdir(parents=True)
    for number, split in enumerate(("train", "test")):
        shutil.copy(FILES / f"plain-0000{number}-of-00002", folder / f"set-{split}.tfrecord-00000-of-00001")
    (folder / "image-class-label.labels.txt").write_text("cat\ndog\nemu\n")
    (folder / "features.json").write_text("{}")
    return folder


def test_splits_and_names_of_tensorflow_datasets(stoker, splits):
    train, test = (package.open(splits, split=split) for split in ("train", "test"))
    assert (len(train), len(test)) == (4, 2)
    assert list(train.classes) == ["cat", "dog", "emu"]
    assert [sample["label"] for sample in test] == [1, 2]
    report = stoker("inspect", splits, "--json").json()
    assert report["samples"] == 4


def test_a_damaged_record_is_a_bad_sample(stoker, tmp_path):
    content = bytearray((FILES / "plain-00000-of-00002").read_bytes())
    content[int.from_bytes(content[:8], "little") + 16 + 40] ^= 1
    (tmp_path / "x.tfrecord").write_bytes(content)
    done = stoker("inspect", "x.tfrecord", "--verify", "--json", status=1)
    report = json.loads(done.out)
    assert report["samples"] == 4 and [bad["key"] for bad in report["bad"]] == ["x.tfrecord/1"]
    (tmp_path / "y.tfrecord").write_bytes(content[:-3])
    done = stoker("inspect", "y.tfrecord", status=1)
    assert "y.tfrecord" in done.err and done.err.count("\n") == 1


# ---- With TensorFlow ----


@pytest.fixture(scope="module")
def tf():
    return pytest.importorskip("tensorflow")


def feature(tf, value):
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    values = np.ravel(value)
    if values.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def encoded(number, kind):
    draw = np.random.default_rng(number)
    out = io.BytesIO()
    Image.fromarray(draw.integers(0, 256, (20 + number % 7, 31, 3), np.uint8)).save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_all_that_tensorflow_reads(tf, tmp_path, compression):
    draw = np.random.default_rng(0)
    path = tmp_path / "x.tfrecord"
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for number in range(50):
            kinds = {
                "image": encoded(number, "png" if number % 2 else "jpeg"),
                "label": number % 10,
                "ids": draw.integers(-(2**63), 2**63 - 1, draw.integers(0, 9)),
                "point": draw.normal(size=3).astype(np.float32),
                "curve": draw.normal(size=draw.integers(1, 6)).astype(np.float32),
                "caption": f"caption \u00e9 {number}".encode() * (number % 3),
            }
            features = tf.train.Features(feature={name: feature(tf, value) for name, value in kinds.items()})
            writer.write(tf.train.Example(features=features).SerializeToString())
    schema = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "ids": tf.io.VarLenFeature(tf.int64),
        "point": tf.io.FixedLenFeature([3], tf.float32),
        "curve": tf.io.VarLenFeature(tf.float32),
        "caption": tf.io.FixedLenFeature([], tf.string),
    }
    theirs = tf.data.TFRecordDataset(str(path), compression_type=compression)
    fields = {"ids": ("ids", "tokens"), "point": "point", "curve": "curve", "caption": "caption"}
    data = package.open(path, fields=fields)
    count = 0
    for ours, record in zip(data, theirs):
        wanted = tf.io.parse_single_example(record, schema)
        pixels = np.asarray(Image.open(io.BytesIO(wanted["image"].numpy())).convert("RGB"))
        if wanted["image"].numpy().startswith(b"\x89PNG"):
            assert (np.asarray(ours["image"]) == pixels).all()
        assert np.asarray(ours["image"]).shape == pixels.shape and ours["label"] == wanted["label"].numpy()
        assert np.array_equal(ours["ids"], wanted["ids"].values.numpy())
        assert np.array_equal(ours["curve"], wanted["curve"].values.numpy())
        assert np.array_equal(ours["point"], wanted["point"].numpy())
        assert ours["caption"] == wanted["caption"].numpy()
        count += 1
    assert count == len(data) == 50


@pytest.mark.parametrize("release", [".", "tensorflow-1.15"])
def test_the_committed_shards_are_those_of_tensorflow(tf, release):
    folder = FILES / release
    shards = sorted(map(str, folder.glob("plain-*")))
    for path, compression in [(shards, ""), (str(folder / "gzip.tfrecord"), "GZIP"), (str(folder / "zlib.tfrecord"), "ZLIB")]:
        records = list(tf.data.TFRecordDataset(path, compression_type=compression).as_numpy_iterator())
        assert len(records) == 6
        for number, record in enumerate(records):
            example = tf.train.Example.FromString(record).features.feature
            wanted = expected(number)
            assert list(example["tokens"].int64_list.value) == wanted["tokens"].tolist()
            assert list(example["position"].float_list.value) == wanted["position"].tolist()
