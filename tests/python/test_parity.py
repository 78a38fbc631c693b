# The model's inputs against Pillow and torchvision: the same files, the same order, the same pixels.
import gzip
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from conftest import run_program
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

RESIZE = '{op = "resize", size = 256}, {op = "center_crop", size = 224}'
CHOSEN = range(0, 96, 8)  # of the photos; a run of the program each


def arrays(folder, data, indices, *options):
    """Sample by sample as `show --npy` writes it."""

    def one(index):
        run_program("show", data, "--index", index, "--npy", f"{index}.npy", *options, cwd=folder)
        return np.load(folder / f"{index}.npy")

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(indices, pool.map(one, indices)))


@pytest.fixture(scope="module")
def folder(photos):
    return ImageFolder(photos)


@pytest.fixture(scope="module")
def decoded(folder, photos, tmp_path_factory):
    return arrays(tmp_path_factory.mktemp("decoded"), photos, CHOSEN)


def test_decoded_pixels_are_pillows(decoded, folder):
    for index, ours in decoded.items():
        theirs = np.asarray(folder[index][0])  # RGB
        assert ours.dtype == np.uint8 and ours.shape == theirs.shape
        assert (ours == theirs).all(), folder.samples[index]


@pytest.fixture(scope="module")
def cropped(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("cropped")
    (path / "recipe.toml").write_text(f'[data]\ntrain = "{photos}"\ntrain_ops = [{RESIZE}]\n')
    return arrays(path, photos, CHOSEN, "--recipe", "recipe.toml")


@pytest.mark.parametrize("kind", ["tensor", "pil"])
def test_resize_and_center_crop_are_torchvisions(cropped, folder, kind):
    theirs = v2.Compose([v2.Resize(256, antialias=True), v2.CenterCrop(224), v2.PILToTensor()])
    same = []
    for index, ours in cropped.items():
        assert ours.dtype == np.float32 and ours.shape == (3, 224, 224)
        image = folder[index][0]
        wanted = theirs(image if kind == "pil" else F.pil_to_tensor(image)).numpy()
        difference = abs(np.rint(ours * 255) - wanted)
        assert difference.max() <= 1, folder.samples[index]
        same.append((difference == 0).mean())
    assert np.mean(same) > 0.99


def test_normalize_is_torchvisions(photos, folder, tmp_path):
    (tmp_path / "recipe.toml").write_text(
        f'[data]\ntrain = "{photos}"\ntrain_ops = [{RESIZE}, {{op = "normalize", preset = "imagenet"}}]\n'
    )
    std = [0.229, 0.224, 0.225]
    theirs = v2.Compose(
        [
            v2.PILToTensor(),
            v2.Resize(256, antialias=True),
            v2.CenterCrop(224),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], std),
        ]
    )
    level = 1.001 / 255 / np.array(std).reshape(3, 1, 1)
    for index, ours in arrays(tmp_path, photos, CHOSEN[:6], "--recipe", "recipe.toml").items():
        assert (abs(ours - theirs(folder[index][0]).numpy()) <= level).all()


@pytest.mark.parametrize("size", ["[60, 90]", "[301, 17]", "500"])
def test_other_sizes(drawn, recipe, tmp_path, size):
    path = recipe(f'{{op = "resize", size = {size}}}', train=drawn)
    (ours,) = arrays(tmp_path, drawn, [5], "--recipe", path).values()
    wanted = v2.Resize(eval(size), antialias=True)(F.pil_to_tensor(ImageFolder(drawn)[5][0])).numpy()
    assert ours.shape == wanted.shape
    assert abs(np.rint(ours * 255) - wanted).max() <= 1


@pytest.mark.parametrize("size", ["[101, 80]", "[20, 901]"])
def test_center_crop_of_odd_sizes_and_beyond_the_image(drawn, recipe, tmp_path, size):
    path = recipe(f'{{op = "center_crop", size = {size}}}', train=drawn)
    (ours,) = arrays(tmp_path, drawn, [11], "--recipe", path).values()
    wanted = v2.CenterCrop(eval(size))(F.pil_to_tensor(ImageFolder(drawn)[11][0])).numpy()
    assert ours.shape == wanted.shape and (np.rint(ours * 255) == wanted).all()


def test_random_resized_crop_depends_on_seed_epoch_and_sample(drawn, recipe, stoker, tmp_path):
    path = recipe('{op = "random_resized_crop", size = 64}, {op = "horizontal_flip"}', train=drawn, top="seed = 9")

    def crop(*options):
        stoker("show", drawn, "--recipe", path, "--index", 7, "--npy", "crop.npy", *options)
        return np.load(tmp_path / "crop.npy")

    first = crop()
    assert first.shape == (3, 64, 64) and 0 <= first.min() < first.max() <= 1
    assert (first == crop("--seed", 9, "--epoch", 0)).all()
    assert (crop("--epoch", 4) == crop("--epoch", 4)).all()
    others = [crop("--epoch", epoch).tobytes() for epoch in range(1, 5)] + [crop("--seed", 10).tobytes()]
    assert len({first.tobytes(), *others}) == 6


def test_folder_order_is_torchvisions(stoker, photos, folder):
    names = [path.removeprefix(f"{photos}/") for path, _ in folder.samples]
    samples = stoker("show", photos, "--json").json()["samples"]
    assert [(sample["key"], sample["label"]) for sample in samples] == list(zip(names, folder.targets))[:64]
    assert stoker("inspect", photos, "--json").json()["classes"] == folder.classes
    for index in (64, 80, 95):
        (sample,) = stoker("show", photos, "--index", index, "--json").json()["samples"]
        assert (sample["key"], sample["label"]) == (names[index], folder.targets[index])


def test_folder_order_with_awkward_names(stoker, drawn, tmp_path):
    file = next(drawn.glob("*/*.jpg"))
    for name in (
        "b/x10.jpg b/x9.jpg b/X.JPG b/sub/a.jpeg b/sub-a/z.jpg b/é.jpg B/q.jpg a-b/1.jpg a/b/c/2.jpg a/b-c/3.jpg "
        "a/b.jpg a/notes.txt ä/0.jpg"
    ).split():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(file)
    theirs = ImageFolder(tmp_path / "data")
    samples = stoker("show", "data", "--json").json()["samples"]
    wanted = [(path.removeprefix(f"{tmp_path}/data/"), label) for path, label in theirs.samples]
    assert [(sample["key"], sample["label"]) for sample in samples] == wanted
    assert stoker("inspect", "data", "--json").json()["classes"] == theirs.classes


def test_mnist_is_what_numpy_reads(mnist, recipe, tmp_path):
    images = np.frombuffer(gzip.decompress((mnist / "train-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress((mnist / "train-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    images = images.reshape(-1, 28, 28)
    indices = [1, 59999]
    for index, ours in arrays(tmp_path, mnist, indices).items():
        assert (ours == images[index][:, :, None].repeat(3, 2)).all()
        report = run_program("show", mnist, "--index", index, "--json", cwd=tmp_path).json()
        assert report["samples"][0]["label"] == labels[index]
    path = recipe('{op = "normalize", preset = "mnist"}', train=mnist)
    for index, ours in arrays(tmp_path, mnist, indices, "--recipe", path).items():
        wanted = (images[index][None].astype(np.float64) / 255 - 0.1307) / 0.3081
        assert ours.shape == (1, 28, 28) and abs(ours - wanted).max() < 1e-5
