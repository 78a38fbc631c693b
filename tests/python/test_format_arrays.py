# Files of arrays, written by NumPy, safetensors and torch: Stoker hands out their contents, to the pixel.
import tempfile

import numpy as np
import pytest

SHAPES = {
    "(N, H, W)": (5, 7, 6),
    "(N, H, W, 1)": (5, 7, 6, 1),
    "(N, H, W, C)": (5, 7, 6, 3),
    "(N, C, H, W)": (5, 3, 7, 6),
    "(N, 1, H, W)": (5, 1, 7, 6),
    "large (N, H, W, C)": (3, 90, 80, 3),
    "large (N, C, H, W)": (3, 3, 90, 80),
}


def images_of(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def rgb(image):
    """One sample as `show --npy` gives it, (H, W, 3)."""
    if image.ndim == 3 and image.shape[2] not in (1, 3):
        image = image.transpose(1, 2, 0)
    if image.ndim == 2:
        image = image[:, :, None]
    return np.broadcast_to(image, (*image.shape[:2], 3))


@pytest.fixture
def shown(stoker):
    def show(data, index):
        with tempfile.TemporaryDirectory() as folder:  # not among the data
            stoker("show", data, "--index", index, "--npy", f"{folder}/one.npy")
            return np.load(f"{folder}/one.npy")

    return show


@pytest.fixture
def check(stoker, shown):
    """The data set holds these images and these labels."""

    def compare(data, name, images, labels=None, classes=None):
        report = stoker("inspect", data, "--verify", "--json").json()
        assert (report["format"], report["samples"], report["bad"]) == (name, len(images), [])
        assert report["codecs"] == {"raw": len(images)}
        if labels is not None:
            names = classes or [str(label) for label in range(int(max(labels)) + 1)]
            assert report["classes"] == names
            assert report["class_counts"] == np.bincount(labels, minlength=len(names)).tolist()
        else:
            assert report["classes"] == []
        for index in (0, len(images) - 1):
            assert (shown(data, index) == rgb(images[index])).all()

    return compare


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(check, tmp_path, shape, order):
    images = images_of(shape)
    labels = np.arange(len(images)) % 3
    np.save(tmp_path / "images.npy", np.asarray(images, order=order))
    np.save(tmp_path / "labels.npy", labels)
    check(tmp_path / "images.npy", "npy", images, labels)
    check(tmp_path, "npy", images, labels)


@pytest.mark.parametrize("dtype, column", [("i1", False), (">i2", True), (">u4", False), ("<i8", True), ("<u8", False), ("bool", False)])
def test_label_types(check, tmp_path, dtype, column):
    images = images_of((4, 5, 6))
    labels = np.array([1, 0, 1, 1])
    np.save(tmp_path / "digits.npy", images)
    np.save(tmp_path / "digits_labels.npy", labels.astype(dtype).reshape((4, 1) if column else 4))
    check(tmp_path / "digits.npy", "npy", images, labels)


@pytest.mark.parametrize("dtype, order", [("u1", "C"), ("<f2", "F"), (">f8", "C")])
def test_one_hot(check, tmp_path, dtype, order):
    images = images_of((6, 5, 6))
    labels = np.array([2, 0, 1, 1, 2, 0])
    np.savez(tmp_path / "d.npz", x=images, y=np.asarray(np.eye(3, dtype=dtype)[labels], order=order))
    check(tmp_path / "d.npz", "npz", images, labels)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("shape", [(5, 3, 7, 6), (3, 90, 80, 3)])
def test_npz(check, tmp_path, save, shape):
    images = images_of(shape)
    labels = np.arange(len(images)) % 2
    classes = ["cat", "zäbra €"]
    keys = [f"{classes[label]}/{index}.png" for index, label in enumerate(labels)]
    save(tmp_path / "d.npz", image=images, label=labels.astype(np.int32), classes=classes, keys=keys)
    check(tmp_path / "d.npz", "npz", images, labels, classes)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_splits(stoker, check, tmp_path, save):
    train, test = images_of((6, 5, 6)), images_of((4, 5, 6), 1)
    path = tmp_path / "mnist.npz"
    save(path, x_train=train, y_train=np.arange(6) % 3, x_test=test, y_test=np.arange(4) % 2)
    check(path, "npz", train, np.arange(6) % 3)
    report = stoker("inspect", path, "--test", "--json").json()
    assert (report["samples"], report["class_counts"]) == (4, [2, 2])
    shown = stoker("show", path, "--json").json()
    assert [sample["key"] for sample in shown["samples"]] == [f"train/{index}" for index in range(6)]


@pytest.mark.parametrize("shape", [(5, 3, 7, 6), (3, 90, 80, 3)])
def test_safetensors(check, tmp_path, shape):
    safetensors = pytest.importorskip("safetensors.numpy")
    images = images_of(shape)
    labels = np.arange(len(images), dtype=np.int16) % 2
    safetensors.save_file({"images": images, "labels": labels}, tmp_path / "d.safetensors")
    check(tmp_path / "d.safetensors", "safetensors", images, labels)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool"])
def test_safetensors_of_torch(check, tmp_path, dtype):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    images = images_of((4, 3, 7, 6))
    labels = np.array([1, 0, 1, 1])
    tensors = {"data": torch.from_numpy(images), "targets": torch.from_numpy(labels).to(getattr(torch, dtype))}
    save_file(tensors, tmp_path / "d.safetensors")
    check(tmp_path / "d.safetensors", "safetensors", images, labels)


@pytest.mark.parametrize("shape", [(5, 3, 7, 6), (3, 90, 80, 3)])
def test_pt(check, tmp_path, shape):
    torch = pytest.importorskip("torch")
    images = images_of(shape)
    labels = np.arange(len(images)) % 3
    torch.save({"images": torch.from_numpy(images), "labels": torch.from_numpy(labels)}, tmp_path / "d.pt")
    check(tmp_path / "d.pt", "pt", images, labels)


def test_training_on_an_npz(stoker, recipe, tmp_path):
    """The order and the pixels of an npz are those of the stk set packed from it."""
    path = tmp_path / "d.npz"
    np.savez(path, x=images_of((40, 12, 10, 3)), y=np.arange(40) % 4)
    stoker("pack", path, tmp_path / "d.stk")
    ops = '{op = "random_resized_crop", size = 8}, {op = "horizontal_flip"}'
    arrays = []
    for data in (path, tmp_path / "d.stk"):
        made = recipe(ops, "batch_size = 8", train=data)
        stoker("show", "--recipe", made, "--index", 13, "--npy", "one.npy")
        arrays.append(np.load(tmp_path / "one.npy"))
    assert (arrays[0] == arrays[1]).all()
