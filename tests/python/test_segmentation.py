# A class for each pixel with the built-in fcn_resnet50, from a folder of images and masks.
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.models import resnet50

SIDE = 32


@pytest.fixture
def folder(tmp_path):
    """A bright square on noise; masks of 0 and 255."""
    random = np.random.default_rng(1)
    for name in ("images", "masks"):
        (tmp_path / "data" / name).mkdir(parents=True)
    for number in range(10):
        image, mask = random.integers(0, 120, (SIDE, SIDE, 3), dtype=np.uint8), np.zeros((SIDE, SIDE), np.uint8)
        top, left = random.integers(0, SIDE - 16, 2)
        image[top : top + 16, left : left + 16] += 120
        mask[top : top + 16, left : left + 16] = 255
        Image.fromarray(image).save(tmp_path / f"data/images/{number}.png")
        Image.fromarray(mask).save(tmp_path / f"data/masks/{number}.png")
    return tmp_path


def write_recipe(folder, model='name = "fcn_resnet50"', task="segmentation", values="values = [0, 255]"):
    (folder / "r.toml").write_text(f"""
seed = 7
device = "cpu"
task = "{task}"
[data]
train = "data"
val = "data"
batch_size = 5
[data.fields.mask]
is = "mask"
{values}
[model]
{model}
[optimizer]
name = "sgd"
lr = 0.02
momentum = 0.9
[train]
epochs = 5
""")


def test_learns_and_predicts_masks(stoker, folder):
    torch.manual_seed(2)
    torch.save(resnet50().state_dict(), folder / "resnet50.pth")
    write_recipe(folder, 'name = "fcn_resnet50"\nweights = "resnet50.pth"')
    epochs = stoker("train", "r.toml", "--out", "run", "--json").json()["epochs"]
    assert epochs[-1]["train_loss"] < 0.7 * epochs[0]["train_loss"]
    stoker("predict", "run", "data/images", "-o", "found")
    for path in sorted((folder / "found").iterdir()):
        assert set(np.unique(np.asarray(Image.open(path)))) <= {0, 1}
    assert len(list((folder / "found").iterdir())) == 10


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"values": ""}, "model.classes"),
        ({"model": 'name = "resnet18"'}, "model.name"),
        ({"model": 'name = "fcn_resnet50"\nclasses = 2', "task": "classification"}, "model.name"),
    ],
    ids=["classes unknown", "one answer for an image", "another task"],
)
def test_what_does_not_fit_is_refused(stoker, folder, settings, where):
    write_recipe(folder, **settings)
    assert f"[{where}]" in stoker("train", "r.toml", status=1).err
