# A class for each pixel with the built-in fcn_resnet50, from a folder of images and masks.
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torchvision.models import resnet50
from torchvision.models.segmentation import fcn_resnet50
from torchvision.transforms import v2
from torchvision.transforms.functional import pil_to_tensor

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


def write_recipe(folder, model='name = "fcn_resnet50"', task="segmentation", values="values = [0, 255]", epochs=5):
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
epochs = {epochs}
""")


def test_learns_and_predicts_masks(stoker, folder):
    torch.manual_seed(2)
    torch.save(resnet50().state_dict(), folder / "resnet50.pth")
    write_recipe(folder, 'name = "fcn_resnet50"\nweights = "resnet50.pth"')
    epochs = stoker("train", "r.toml", "--out", "run", "--json").json()["epochs"]
    assert epochs[-1]["train_loss"] < 0.7 * epochs[0]["train_loss"]
    stoker("predict", "run", "data/images", "-o", "found")
    assert sorted(path.name for path in (folder / "found").iterdir()) == [f"{number}.png" for number in range(10)]
    for path in (folder / "found").iterdir():
        assert set(np.unique(np.asarray(Image.open(path)))) <= {0, 255}
    assert "[-o]" in stoker("predict", "run", "data/images", "-o", "found.png", status=2).err


@torch.no_grad()
def test_masks_have_the_size_of_their_images(stoker, folder):
    """The outputs for a resized image are enlarged as by interpolate(mode="bilinear")."""
    write_recipe(folder, 'name = "fcn_resnet50"', epochs=1)
    (folder / "r.toml").write_text((folder / "r.toml").read_text().replace("[data.fields", """
train_ops = [{op = "normalize", preset = "imagenet"}]
val_ops = [{op = "resize", size = [32, 32]}, {op = "normalize", preset = "imagenet"}]
[data.fields"""))
    stoker("train", "r.toml", "--out", "run")
    (folder / "more").mkdir()
    random = np.random.default_rng(5)
    images = [Image.fromarray(random.integers(0, 255, (*size, 3), dtype=np.uint8)) for size in ((50, 41), (32, 32), (20, 70))]
    for number, image in enumerate(images):
        image.save(folder / f"more/{number}.bmp")
    assert "size of the image" in stoker("predict", "run", "more", "-o", "found").err
    net = fcn_resnet50(num_classes=2, weights_backbone=None).eval()
    net.load_state_dict(load_file(next((folder / "run/checkpoints").glob("[0-9]*")) / "model.safetensors"))
    for number, image in enumerate(images):
        pixels = v2.functional.resize(pil_to_tensor(image), [32, 32])
        outputs = net(v2.functional.normalize(pixels / 255, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])[None])["out"]
        whole = torch.nn.functional.interpolate(outputs, image.size[::-1], mode="bilinear")[0].argmax(0)
        found = np.asarray(Image.open(folder / f"found/{number}.png"))
        assert found.shape == whole.shape and (found == 255 * whole.numpy()).mean() > 0.995

    stoker("predict", "run", "more", "-o", "cut", "--set", 'data.val_ops=[{op="center_crop", size=32}]')
    assert Image.open(folder / "cut/0.png").size == (32, 32)


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
