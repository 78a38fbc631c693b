# CIFAR-10 and CIFAR-100 as pickles, made by the test, against torchvision. The binary form: cifar_test.cpp.
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


def write_ten(folder, form):
    folder.mkdir(exist_ok=True)
    for number in range(1, 7):
        planes, labels, _ = batch(number)
        name = f"data_batch_{number}" if number < 6 else "test_batch"
        names = [f"{index}.png" for index in range(COUNT)]
        content = {"batch_label": name, "labels": labels.tolist(), "data": planes, "filenames": names}
        write_pickle(folder / name, content, form)
    write_pickle(folder / "batches.meta", {"num_cases_per_batch": COUNT, "label_names": TEN}, form)


def write_hundred(folder, form):
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(["train", "test"]):
        planes, labels, coarse = batch(number)
        content = {"coarse_labels": coarse.tolist(), "fine_labels": labels.tolist(), "data": planes}
        write_pickle(folder / name, content, form)
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


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
@pytest.mark.parametrize("form", ["python 2", "protocol 0", "protocol 4"])
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
