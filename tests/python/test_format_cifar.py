# CIFAR-10 and CIFAR-100 in both published forms, made by the test, against what went in and against torchvision.
import pickle

import numpy as np
import pytest

COUNT = 7  # images a batch
TEN = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FINE = [f"fine {label}" for label in range(100)]
COARSE = [f"coarse {label}" for label in range(20)]


def batch(seed, count=COUNT):
    """(N, 3072) planes, fine labels, coarse labels."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 256, (count, 3072), dtype=np.uint8), rng.integers(0, 10, count), rng.integers(0, 20, count))


def pixels(planes):
    return planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def as_python_2(value):
    """The value as Python 2 pickled it with protocol 2: text as SHORT_BINSTRING, NumPy under its old names."""
    if isinstance(value, str):
        return b"U" + bytes([len(value)]) + value.encode()
    if isinstance(value, dict):
        return b"}(" + b"".join(as_python_2(key) + as_python_2(entry) for key, entry in value.items()) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(as_python_2(entry) for entry in value) + b"e"
    if isinstance(value, np.ndarray):
        shape = b"".join(b"J" + int(side).to_bytes(4, "little") for side in value.shape)
        content = value.tobytes()
        return (
            b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR(K\x01("
            + shape
            + b"tcnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
            + len(content).to_bytes(4, "little")
            + content
            + b"tb"
        )
    return b"K" + bytes([value])


def write_pickle(path, content, form):
    if form == "python 2":
        path.write_bytes(b"\x80\x02" + as_python_2(content) + b".")
        return
    protocol = int(form.removeprefix("protocol "))
    if "bytes" in form or protocol == 2:
        content = {key.encode(): value for key, value in content.items()}
    path.write_bytes(pickle.dumps(content, protocol))


FORMS = ["binary", "python 2", *[f"protocol {protocol}" for protocol in range(6)]]


def write_ten(folder, form):
    folder.mkdir(exist_ok=True)
    for number in range(1, 7):
        planes, labels, _ = batch(number)
        name = f"data_batch_{number}" if number < 6 else "test_batch"
        if form == "binary":
            records = np.concatenate([labels[:, None].astype(np.uint8), planes], axis=1)
            (folder / f"{name}.bin").write_bytes(records.tobytes())
        else:
            names = [f"{index}.png" for index in range(COUNT)]
            content = {"batch_label": name, "labels": labels.tolist(), "data": planes, "filenames": names}
            write_pickle(folder / name, content, form)
    if form == "binary":
        (folder / "batches.meta.txt").write_text("\n".join(TEN) + "\n\n")
    else:
        write_pickle(folder / "batches.meta", {"num_cases_per_batch": COUNT, "label_names": TEN}, form)


def write_hundred(folder, form):
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(["train", "test"]):
        planes, labels, coarse = batch(number)
        if form == "binary":
            both = np.stack([coarse, labels], axis=1).astype(np.uint8)
            (folder / f"{name}.bin").write_bytes(np.concatenate([both, planes], axis=1).tobytes())
        else:
            content = {"coarse_labels": coarse.tolist(), "fine_labels": labels.tolist(), "data": planes}
            write_pickle(folder / name, content, form)
    if form == "binary":
        (folder / "fine_label_names.txt").write_text("\n".join(FINE) + "\n")
        (folder / "coarse_label_names.txt").write_text("\n".join(COARSE) + "\n")
    else:
        write_pickle(folder / "meta", {"fine_label_names": FINE, "coarse_label_names": COARSE}, form)


@pytest.fixture
def check(stoker, tmp_path):
    def compare(data, planes, labels, classes, *options):
        report = stoker("inspect", data, *options, "--verify", "--json").json()
        assert (report["format"], report["samples"], report["bad"]) == ("cifar", len(planes), [])
        assert report["classes"] == classes
        assert report["class_counts"] == np.bincount(labels, minlength=len(classes)).tolist()
        for index in (0, len(planes) // 2, len(planes) - 1) if not options else ():
            stoker("show", data, "--index", index, "--npy", "one.npy")
            assert (np.load(tmp_path / "one.npy") == pixels(planes)[index]).all()

    return compare


@pytest.mark.parametrize("form", FORMS)
def test_ten(check, tmp_path, form):
    write_ten(tmp_path / "cifar", form)
    parts = [batch(number) for number in range(1, 6)]
    check("cifar", np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), TEN)
    check("cifar", *batch(6)[:2], TEN, "--test")


@pytest.mark.parametrize("form", FORMS)
def test_hundred(check, tmp_path, form):
    write_hundred(tmp_path / "cifar", form)
    check("cifar", *batch(0)[:2], FINE)
    check("cifar", *batch(1)[:2], FINE, "--test")


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
@pytest.mark.parametrize("form", ["python 2", "protocol 4"])
def test_against_torchvision(check, tmp_path, name, form):
    datasets = pytest.importorskip("torchvision.datasets")
    original = getattr(datasets, name)
    folder = tmp_path / original.base_folder
    (write_ten if name == "CIFAR10" else write_hundred)(folder, form)

    class Unchecked(original):  # torchvision knows the published files by their checksums
        meta = {**original.meta, "md5": None}

        def _check_integrity(self):
            return True

    for train in (True, False):
        known = Unchecked(tmp_path, train=train)
        planes = known.data.transpose(0, 3, 1, 2).reshape(-1, 3072)
        check(folder, planes, np.array(known.targets), known.classes, *([] if train else ["--test"]))


def test_names_are_optional(check, tmp_path):
    write_ten(tmp_path / "cifar", "binary")
    (tmp_path / "cifar" / "batches.meta.txt").unlink()
    check("cifar", *batch(6)[:2], [str(label) for label in range(10)], "--test")


@pytest.mark.parametrize("form", ["binary", "python 2"])
def test_missing_batches_are_named(stoker, tmp_path, form):
    write_ten(tmp_path / "cifar", form)
    name = "data_batch_4" + (".bin" if form == "binary" else "")
    (tmp_path / "cifar" / name).unlink()
    assert name in stoker("inspect", "cifar", status=1).err


def test_cut_records_are_refused(stoker, tmp_path):
    write_ten(tmp_path / "cifar", "binary")
    path = tmp_path / "cifar" / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1])
    error = stoker("inspect", "cifar", status=1).err
    assert "data_batch_2.bin @ byte 18438" in error and "3073 bytes" in error


def test_labels_beyond_the_classes_are_bad_samples(stoker, tmp_path):
    write_ten(tmp_path / "cifar", "binary")
    path = tmp_path / "cifar" / "data_batch_2.bin"
    records = bytearray(path.read_bytes())
    records[3073 * 2] = 200
    path.write_bytes(records)
    report = stoker("inspect", "cifar", "--verify", "--json", status=1).json()
    (bad,) = report["bad"]
    assert bad["index"] == COUNT + 2 and "a label below 10, got 200" in bad["reason"]
    assert report["samples"] == 5 * COUNT and sum(report["class_counts"]) == 5 * COUNT - 1
    assert "bad  train/9 @ byte 6146: expected a label below 10" in stoker("inspect", "cifar", status=1).out
    shown = stoker("show", "cifar", "--json")
    (sample,) = (sample for sample in shown.json()["samples"] if "error" in sample)
    assert sample["index"] == COUNT + 2 and sample["label"] == -1 and "a label below 10" in sample["error"]
    assert len(shown.json()["samples"]) == 5 * COUNT


def test_calls_in_a_batch_are_refused(stoker, tmp_path):
    write_ten(tmp_path / "cifar", "python 2")
    harm = tmp_path / "harm"
    (tmp_path / "cifar" / "data_batch_1").write_bytes(b"cos\nsystem\n(S'touch %s'\ntR." % bytes(harm))
    error = stoker("inspect", "cifar", status=1).err
    assert "os.system" in error and "data_batch_1" in error
    assert not harm.exists()
