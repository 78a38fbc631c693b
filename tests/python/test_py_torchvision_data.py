# Data sets of torchvision given to stoker.Loader: recognised and read in C++, with the samples of the data set in its
# order; or left to worker processes, where Python code of the program would be skipped.
import pickle
import warnings

import numpy as np
import pytest
import torch
import torchvision.transforms as v1
from torch.utils.data import DataLoader, Subset, random_split
from torchvision.datasets import CIFAR10, FashionMNIST, ImageFolder
from torchvision.transforms import v2

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")

EVALUATION = v1.Compose([v1.Resize(48), v1.CenterCrop(40), v1.ToTensor(), v1.Normalize([0.5], [0.25])])


def batches_of(data, **options):
    with pytest.warns(stoker.ReadInCpp, match="is read in C\\+\\+"):
        loader = stoker.Loader(data, 7, shuffle=False, **options)
    assert loader.dataset is data
    return list(loader)


def assert_equal_batches(data, **options):
    ours = batches_of(data, **options)
    theirs = list(DataLoader(data, batch_size=7))
    assert len(ours) == len(theirs)
    for (images, labels), (expected, expected_labels) in zip(ours, theirs):
        assert images.dtype == expected.dtype and images.shape == expected.shape
        assert labels.tolist() == expected_labels.tolist()
        assert (images.float() - expected.float()).abs().max() <= (1 if images.dtype == torch.uint8 else 4.1 / 255)


def test_a_folder_of_images(drawn):
    assert_equal_batches(ImageFolder(drawn, EVALUATION))
    assert_equal_batches(ImageFolder(drawn, v2.Compose([v2.PILToTensor(), v2.Resize(48), v2.CenterCrop(40)])))


def test_parts_of_it_in_their_order(drawn):
    whole = ImageFolder(drawn, EVALUATION)
    assert_equal_batches(Subset(whole, [20, 3, 3, 11]))
    for part in random_split(whole, [10, 14], torch.Generator().manual_seed(3)):
        assert_equal_batches(part)
    assert_equal_batches(Subset(Subset(whole, [9, 8, 7, 6]), [3, 1]))


def write_idx(path, array):
    sides = b"".join(side.to_bytes(4, "big") for side in array.shape)
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + sides + array.tobytes())


def test_files_of_arrays(tmp_path, monkeypatch):
    random = np.random.default_rng(4)
    raw = tmp_path / "FashionMNIST/raw"
    raw.mkdir(parents=True)
    for name, count in (("train", 20), ("t10k", 9)):
        write_idx(raw / f"{name}-images-idx3-ubyte", random.integers(0, 256, (count, 28, 28), dtype=np.uint8))
        write_idx(raw / f"{name}-labels-idx1-ubyte", random.integers(0, 10, count, dtype=np.uint8))
    for train in (True, False):
        assert_equal_batches(FashionMNIST(tmp_path, train, v1.ToTensor()))
    batches = tmp_path / CIFAR10.base_folder
    batches.mkdir()
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        pixels = random.integers(0, 256, (10, 3072), dtype=np.uint8)
        content = {"data": pixels, "labels": random.integers(0, 10, 10).tolist(), "batch_label": name}
        (batches / name).write_bytes(pickle.dumps(content, 2))
    (batches / "batches.meta").write_bytes(pickle.dumps({"label_names": [f"class {i}" for i in range(10)]}, 2))
    monkeypatch.setattr(CIFAR10, "_check_integrity", lambda self: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda path, md5: True)
    assert_equal_batches(CIFAR10(tmp_path, True, v1.ToTensor()))
    assert_equal_batches(Subset(CIFAR10(tmp_path, False, v1.ToTensor()), [4, 2]))


def test_order_and_state_are_those_of_the_path(drawn):
    data = ImageFolder(drawn, v1.Compose([v1.RandomResizedCrop(20), v1.ToTensor()]))
    with pytest.warns(stoker.ReadInCpp):
        given = stoker.Loader(data, 5, seed=3, workers=2)
    ops = stoker.transforms.from_torchvision(data.transform)
    named = stoker.Loader(drawn, 5, seed=3, workers=1, ops=ops, as_tuple=True)
    for (images, labels), (expected, expected_labels) in zip(given, named, strict=True):
        assert torch.equal(images, expected) and torch.equal(labels, expected_labels)
    assert given.state_dict() == named.state_dict()
    with pytest.warns(stoker.ReadInCpp):
        again = pickle.loads(pickle.dumps(given))
    assert torch.equal(next(iter(again))[0], next(iter(named))[0])


def test_ops_of_the_loader_for_a_data_set_without_a_transform(drawn):
    (images, _), *_ = batches_of(ImageFolder(drawn), ops=[stoker.transforms.CenterCrop(30)], dtype="uint8")
    assert images.shape == (7, 3, 30, 30) and images.dtype == torch.uint8
    with pytest.raises(stoker.InvalidArgument, match="none for ImageFolder with a transform"):
        stoker.Loader(ImageFolder(drawn, EVALUATION), ops=[stoker.transforms.CenterCrop(30)])


def test_arguments_of_the_loader_hold(drawn):
    (image, label, index), *_ = batches_of(ImageFolder(drawn, EVALUATION), as_tuple=("image", "label", "index"))
    assert index.tolist() == list(range(7)) and len(label) == 7 and image.dtype == torch.float32
    half = v2.Compose([v2.ToImage(), v2.CenterCrop(9), v2.ToDtype(torch.bfloat16, scale=True)])
    assert batches_of(ImageFolder(drawn, half))[0][0].dtype == torch.bfloat16
    assert batches_of(ImageFolder(drawn, EVALUATION), dtype="float16")[0][0].dtype == torch.float16
    assert batches_of(ImageFolder(drawn), ops=stoker.transforms.CenterCrop(5))[0][0].shape == (7, 3, 5, 5)
    in_python = [stoker.transforms.InPython(v1.ToTensor())]
    with pytest.raises(stoker.InvalidArgument, match="ImageFolder"):
        stoker.Loader(ImageFolder(drawn), ops=in_python)


class Own(ImageFolder):
    pass


IN_PYTHON = {
    "a class of the program": lambda folder: Own(folder, EVALUATION),
    "a function of the program": lambda folder: ImageFolder(folder, v1.Compose([EVALUATION, v1.Lambda(torch.neg)])),
    "labels of the program": lambda folder: ImageFolder(folder, EVALUATION, target_transform=lambda label: label + 1),
    "files of its choice": lambda folder: ImageFolder(folder, EVALUATION, is_valid_file=lambda path: "1" in path),
    "its own decoder": lambda folder: ImageFolder(folder, EVALUATION, loader=lambda path: v2.ToPILImage()(torch.ones(3, 9, 9))),
}


@pytest.mark.parametrize("case", IN_PYTHON)
def test_code_of_the_program_runs(drawn, case):
    data = IN_PYTHON[case](drawn)
    with warnings.catch_warnings():
        warnings.simplefilter("error", stoker.ReadInCpp)
        images, labels = next(iter(stoker.Loader(data, 7, shuffle=False, workers=0)))
    expected, expected_labels = next(iter(DataLoader(data, batch_size=7)))
    assert torch.equal(images, expected) and torch.equal(labels, expected_labels)
