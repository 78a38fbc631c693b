# Files of torch.save: plain tensors, tensors out of order, shared or of other types; and pickles that try to be more.
import io
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


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_protocols(check, protocol):
    check({"x": torch.from_numpy(IMAGES), "y": torch.from_numpy(LABELS)}, IMAGES, LABELS, pickle_protocol=protocol)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "bool"])
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


def test_arrays(check):
    check({"images": IMAGES, "labels": LABELS}, IMAGES, LABELS)


def test_bfloat16_images_are_refused(stoker, tmp_path):
    torch.save({"images": torch.from_numpy(IMAGES).to(torch.bfloat16)}, tmp_path / "d.pt")
    error = stoker("inspect", "d.pt", status=1).err
    assert "bfloat16" in error and "images" in error
    torch.save({"images": torch.from_numpy(IMAGES).to(torch.float32)}, tmp_path / "d.pt")
    assert "float32" in stoker("inspect", "d.pt", status=1).err


def test_unused_bfloat16_is_no_obstacle(check):
    check({"images": torch.from_numpy(IMAGES), "weights": torch.zeros(3, dtype=torch.bfloat16)}, IMAGES)


def test_nesting_is_refused(stoker, tmp_path):
    torch.save({"train": {"images": torch.from_numpy(IMAGES)}}, tmp_path / "d.pt")
    error = stoker("inspect", "d.pt", status=1).err
    assert '"train"' in error and "uint8 tensor of (5, 7, 6, 3)" in error and "stack" in error


def test_repeated_elements_are_refused(stoker, tmp_path):
    torch.save({"images": torch.zeros(1, 1, 1, dtype=torch.uint8).expand(1000, 100, 100)}, tmp_path / "d.pt")
    assert "share memory" in stoker("inspect", "d.pt", status=1).err


def test_old_format(stoker, tmp_path):
    torch.save(torch.from_numpy(IMAGES), tmp_path / "d.pt", _use_new_zipfile_serialization=False)
    error = stoker("inspect", "d.pt", status=1).err
    assert "torch before 1.6" in error and "recent torch" in error
    for content, got in ((b"", "0 bytes"), (b"\x89HDF\r\n", "4 bytes: 89 48 44 46")):
        (tmp_path / "d.pt").write_bytes(content)
        assert f"as torch.save writes it, got {got}; load" in stoker("inspect", "d.pt", status=1).err


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


@pytest.mark.parametrize("protocol", range(6))
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
        assert "d.pt" in error and "at byte" in error
        assert not harm.exists()


def test_lies_about_the_storage_are_refused(stoker, tmp_path):
    torch.save(torch.from_numpy(IMAGES), tmp_path / "d.pt")
    size = IMAGES.shape[0]
    lie = b"K" + bytes([size])
    assert lie in zipfile.ZipFile(tmp_path / "d.pt").read("d/data.pkl")
    rewritten(tmp_path / "d.pt", zipfile.ZIP_STORED, lambda content: content.replace(lie, b"K" + bytes([size + 1])))
    assert "within the 630 elements" in stoker("inspect", "d.pt", status=1).err


def test_damage_never_crashes(stoker, tmp_path):
    buffer = io.BytesIO()
    torch.save({"images": torch.from_numpy(IMAGES), "labels": torch.from_numpy(LABELS)}, buffer)
    whole = buffer.getvalue()
    rng = np.random.default_rng(1)
    for _ in range(40):
        damaged = bytearray(whole[: rng.integers(1, len(whole) + 1)] if rng.random() < 0.3 else whole)
        for _ in range(rng.integers(1, 6)):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        (tmp_path / "d.pt").write_bytes(damaged)
        assert stoker("inspect", "d.pt", status=None).status in (0, 1)
