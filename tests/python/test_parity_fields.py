# Masks and boxes of the training loader against torchvision v2's tv_tensors with the same draws. `loader_reference`
# (tests/pipeline) writes the batches and the ops' draws.
import subprocess

import numpy as np
import pytest
import torch
from conftest import PROGRAM
from safetensors.torch import load_file
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

SAMPLES, HEIGHT, WIDTH, BOXES = 24, 40, 52, 3
OPS = {
    "random_resized_crop": '{op = "random_resized_crop", size = [33, 29], scale = [0.2, 1]}',
    "horizontal_flip": '{op = "horizontal_flip"}',
    "vertical_flip": '{op = "vertical_flip"}',
    "random_rotation": '{op = "random_rotation", degrees = 40}',
    "random_affine": '{op = "random_affine", degrees = 25, translate = [0.2, 0.1], scale = [0.7, 1.4], shear = [-9, 9, -5, 5]}',
    "resize": '{op = "resize", size = [47, 38]}',
}
LISTS = [[name] for name in OPS] + [
    ["random_resized_crop", "horizontal_flip"],
    ["resize", "random_affine", "horizontal_flip", "random_rotation"],
    ["resize", "random_resized_crop", "vertical_flip", "random_affine", "horizontal_flip", "random_rotation"],
]


def draw():
    random = np.random.default_rng(3)
    corner = random.uniform(0, [WIDTH - 8, HEIGHT - 8], (SAMPLES, BOXES, 2))
    end = corner + random.uniform(1, 8, (SAMPLES, BOXES, 2))
    # Classes in blocks, so that masks have edges and areas.
    blocks = random.integers(0, 21, (SAMPLES, HEIGHT // 4, WIDTH // 4), np.uint8)
    return {
        "images": random.integers(0, 256, (SAMPLES, HEIGHT, WIDTH, 3), np.uint8),
        "mask": blocks.repeat(4, 1).repeat(4, 2),
        "boxes": np.concatenate([corner, end], 2).astype(np.float32),
    }


@pytest.fixture(scope="module")
def folder(program, tmp_path_factory):
    if not (PROGRAM.parent / "loader_reference").exists():
        pytest.skip("needs the program loader_reference: ninja -C build/release loader_reference")
    path = tmp_path_factory.mktemp("fields")
    np.savez(path / "data.npz", **draw())
    return path


def run_ours(folder, names, cache):
    (folder / "r.toml").write_text(f"""
seed = 5
[data]
train = "{folder}/data.npz"
batch_size = 7
cache = "{cache}"
train_ops = [{", ".join(OPS[name] for name in names)}]
[data.fields.mask]
is = "mask"
[data.fields.boxes]
is = "boxes"
pad = {BOXES}
""")
    command = [PROGRAM.parent / "loader_reference", folder / "r.toml", folder / "out.safetensors", "2"]
    subprocess.run([*map(str, command)], check=True, timeout=120)
    return load_file(folder / "out.safetensors")


def apply(name, numbers, value):
    """One op of torchvision with what ours drew."""
    a, b, c, d, e, f = numbers.tolist()
    size = [33, 29]
    match name:
        case "random_resized_crop":
            return F.resized_crop(value, int(a), int(b), int(c), int(d), size, antialias=True)
        case "horizontal_flip":
            return F.horizontal_flip(value) if a else value
        case "vertical_flip":
            return F.vertical_flip(value) if a else value
        case "random_rotation":
            return F.rotate(value, a, InterpolationMode.NEAREST)
        case "random_affine":
            return F.affine(value, a, [b, c], d, [e, f], InterpolationMode.NEAREST)
    return F.resize(value, [47, 38], antialias=True)


@pytest.mark.parametrize("names, cache", [*((names, "none") for names in LISTS), (LISTS[0], "ram"), (LISTS[-1], "ram")])
def test_masks_and_boxes_follow_as_in_torchvision(folder, names, cache):
    data = draw()
    ours = run_ours(folder, names, cache)
    assert len(ours["index"]) == 2 * SAMPLES
    same_pixels = []
    for at, index in enumerate(ours["index"].tolist()):
        image = tv_tensors.Image(torch.from_numpy(data["images"][index]).permute(2, 0, 1))
        mask = tv_tensors.Mask(torch.from_numpy(data["mask"][index]))
        boxes = tv_tensors.BoundingBoxes(torch.from_numpy(data["boxes"][index]), format="XYXY", canvas_size=(HEIGHT, WIDTH))
        for name, numbers in zip(names, ours["draws"][at]):
            image, mask, boxes = (apply(name, numbers, value) for value in (image, mask, boxes))
        boxes = F.clamp_bounding_boxes(boxes)
        assert torch.equal(ours["mask"][at], mask.as_subclass(torch.Tensor)), index
        torch.testing.assert_close(ours["boxes"][at], boxes.as_subclass(torch.Tensor), rtol=0, atol=1e-4)
        same_pixels.append(((ours["image"][at].int() - image.as_subclass(torch.Tensor).int()).abs() <= 1).float().mean())
    assert min(same_pixels) > 0.99
    if names != ["resize"]:
        first, second = (ours["mask"][ours["epoch"] == epoch] for epoch in (0, 1))
        assert not torch.equal(first, second)
