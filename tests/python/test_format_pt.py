# Files of torch.save: plain tensors, tensors out of order, shared or of other types; and pickles that try to be more.
import argparse
import collections
import pickle
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def images_of(shape=(5, 7, 6, 3), seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def rgb(image):
    """One sample as `show --npy` gives it, (H, W, 3)."""
    if image.ndim == 3 and image.shape[2] not in (1, 3):
        image = image.transpose(1, 2, 0)
    if image.ndim == 2:
        image = image[:, :, None]
    return np.broadcast_to(image, (*image.shape[:2], 3))


@pytest.fixture
def check(stoker, tmp_path):
    def compare(saved, images, labels=None, classes=None, **options):
        torch.save(saved, tmp_path / "d.pt", **options)
        report = stoker("inspect", "d.pt", "--verify", "--json").json()
        assert (report["format"], report["samples"], report["bad"]) == ("pt", len(images), [])
        if labels is not None:
            names = classes or [str(label) for label in range(int(max(labels)) + 1)]
            assert report["classes"] == names
            assert report["class_counts"] == np.bincount(labels, minlength=len(names)).tolist()
        for index in (0, len(images) - 1):
            stoker("show", "d.pt", "--index", index, "--npy", "one.npy")
            assert (np.load(tmp_path / "one.npy") == rgb(images[index])).all()

    return compare


IMAGES = images_of()
LABELS = np.array([2, 0, 1, 1, 2])


@pytest.mark.parametrize("kind", [dict, list, tuple])
def test_containers(check, kind):
    images, labels = torch.from_numpy(IMAGES), torch.from_numpy(LABELS)
    saved = {"images": images, "labels": labels} if kind is dict else kind([images, labels])
    check(saved, IMAGES, LABELS)


@pytest.mark.parametrize("shape", [(5, 7, 6), (5, 7, 6, 1), (5, 1, 7, 6), (5, 3, 7, 6), (3, 90, 80, 3)])
def test_single_tensor(check, shape):
    images = images_of(shape)
    check(torch.from_numpy(images), images)


@pytest.mark.parametrize("protocol", [3, 5])
def test_protocols(check, protocol):
    check({"x": torch.from_numpy(IMAGES), "y": torch.from_numpy(LABELS)}, IMAGES, LABELS, pickle_protocol=protocol)


@pytest.mark.parametrize("dtype", ["int16", "bool"])
def test_label_types(check, dtype):
    labels = LABELS % 2
    check({"images": torch.from_numpy(IMAGES), "labels": torch.from_numpy(labels.astype(dtype))}, IMAGES, labels)


def test_strided(check):
    base = images_of((6, 14, 12, 3))
    tensor = torch.from_numpy(base)[1:, ::2, ::2]
    check({"images": tensor, "labels": torch.from_numpy(np.repeat(LABELS, 3))[::3]}, base[1:, ::2, ::2], LABELS)


def test_transposed_and_channels_last(check):
    tensor = torch.from_numpy(IMAGES)
    check(tensor.permute(0, 3, 1, 2), IMAGES)
    check(tensor.permute(0, 3, 1, 2).contiguous(), IMAGES)
    planes = torch.from_numpy(images_of((5, 3, 7, 6))).to(memory_format=torch.channels_last)
    check(planes, images_of((5, 3, 7, 6)))


def test_shared_storage(check):
    both = torch.from_numpy(images_of((9, 7, 6)))
    check({"train_images": both[:5], "test_images": both[5:]}, images_of((9, 7, 6))[:5])


def test_what_lies_beside(check):
    classes = ["cat", "dog", "zäbra"]
    saved = {
        "images": torch.from_numpy(IMAGES),
        "labels": LABELS.tolist(),
        "classes": classes,
        "version": 3,
        "mean": 0.5,
        "made by": "us",
        "settings": {"size": 7, "name": None},
    }
    check(saved, IMAGES, LABELS, classes)


def test_unused_bfloat16_is_no_obstacle(check):
    check({"images": torch.from_numpy(IMAGES), "weights": torch.zeros(3, dtype=torch.bfloat16)}, IMAGES)


def test_objects_and_tensors_of_newer_types_lie_beside(check):
    """What nobody asks for is left alone: torch writes these types by another function, and classes by their names."""
    fp8 = torch.zeros(3).to(torch.float8_e4m3fn)
    beside = {"a": argparse.Namespace(lr=1), "b": collections.Counter("ab"), "c": {1, 2}, "d": fp8, "e": 1 << 70,
              "f": torch.zeros(3, dtype=torch.complex64), "g": np.array([None, "x"], dtype=object)}  # fmt: skip
    check({**beside, "images": torch.from_numpy(IMAGES), "labels": torch.from_numpy(LABELS)}, IMAGES, LABELS)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_labels_of_newer_types(check, dtype):
    check({"images": torch.from_numpy(IMAGES), "labels": torch.from_numpy(LABELS).to(dtype)}, IMAGES, LABELS)


def test_tensors_of_other_classes(check):
    tv_tensors = pytest.importorskip("torchvision.tv_tensors", reason="needs torchvision")
    images = tv_tensors.Image(torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).copy()))
    check({"images": images, "labels": torch.nn.Parameter(torch.from_numpy(LABELS), False)}, IMAGES, LABELS)


def rewritten(path, method, change=None):
    """The members of a zip file, packed anew."""
    with zipfile.ZipFile(path) as file:
        members = [(name, file.read(name)) for name in file.namelist()]
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members:
            file.writestr(name, change(content) if change and name.endswith("data.pkl") else content)


def test_packed_anew(stoker, tmp_path):
    torch.save({"images": torch.from_numpy(IMAGES), "labels": torch.from_numpy(LABELS)}, tmp_path / "d.pt")
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        rewritten(tmp_path / "d.pt", method)
        assert stoker("inspect", "d.pt", "--verify", "--json").json()["class_counts"] == [1, 2, 2]


class Call:
    def __init__(self, function, *arguments):
        self.state = function, arguments

    def __reduce__(self):
        return self.state


@pytest.mark.parametrize("protocol", [0, 4])
def test_calls_are_refused_by_name(stoker, tmp_path, protocol):
    import os

    harm = tmp_path / "harm"
    calls = {
        "posix.system": Call(os.system, f"touch {harm}"),
        "eval": Call(eval, f"open({str(harm)!r}, 'w')"),
        "__import__": Call(__import__, "os"),
        "getattr": Call(getattr, "text", "upper"),
        "exec": [Call(dict, Call(exec, "1"))],
    }
    for name, call in calls.items():
        torch.save(torch.from_numpy(IMAGES), tmp_path / "d.pt")
        rewritten(tmp_path / "d.pt", zipfile.ZIP_STORED, lambda _, call=call: pickle.dumps(call, protocol))
        error = stoker("inspect", "d.pt", status=1).err
        assert name in error or (name == "exec" and "dict" in error)
        assert "d.pt" in error and error.count("\n") == 1
        assert not harm.exists()
