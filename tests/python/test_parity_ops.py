# The random ops against torchvision v2 on uint8: ranges of one value fix what is drawn, and where a choice is left
# (an order, a place, one op of fourteen), one of torchvision's possible answers must be ours.
from itertools import permutations

import numpy as np
import pytest
import torch
from conftest import run_program
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as F

SIZE = '{op = "resize", size = 128}, {op = "center_crop", size = 112}'


@pytest.fixture(scope="module")
def apply(program, drawn, tmp_path_factory):
    """Training ops on one photo, as (C, H, W) uint8."""
    path = tmp_path_factory.mktemp("ops")

    def run(ops, index=3, epoch=0):
        (path / "recipe.toml").write_text(f'[data]\ntrain = "{drawn}"\ntrain_ops = [{ops}]\n')
        options = ["--recipe", "recipe.toml", "--index", index, "--epoch", epoch, "--npy", "out.npy"]
        run_program("show", drawn, *options, cwd=path)
        return np.rint(np.load(path / "out.npy") * 255).astype(int)

    return run


@pytest.fixture(scope="module")
def base(apply):
    """The photo as the op under test sees it."""
    return torch.from_numpy(apply(SIZE).astype(np.uint8))


def differ(ours, theirs):
    theirs = theirs.numpy().astype(int)
    assert ours.shape == theirs.shape
    return abs(ours - theirs)


@pytest.mark.parametrize("factor", [0, 0.4, 0.77, 1.3, 2.5])
@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation"])
def test_color_jitter(apply, base, name, factor):
    ours = apply(f'{SIZE}, {{op = "color_jitter", {name} = [{factor}, {factor}]}}')
    assert differ(ours, getattr(F, f"adjust_{name}")(base, factor)).max() <= 1


@pytest.mark.parametrize("hue", [-0.5, -0.21, 0.0625, 0.1, 0.4])
def test_hue(apply, base, hue):
    difference = differ(apply(f'{SIZE}, {{op = "color_jitter", hue = [{hue}, {hue}]}}'), F.adjust_hue(base, hue))
    assert difference.max() <= 1 and (difference == 0).mean() > 0.99


@pytest.mark.parametrize("epoch", range(4))
def test_color_jitter_in_one_of_the_orders(apply, base, epoch):
    factors = {"brightness": 1.25, "contrast": 0.75, "saturation": 1.5, "hue": 0.0625}
    options = ", ".join(f"{name} = [{value}, {value}]" for name, value in factors.items())
    ours = apply(f'{SIZE}, {{op = "color_jitter", {options}}}', epoch=epoch)
    largest = []
    for order in permutations(factors):
        theirs = base
        for name in order:
            theirs = getattr(F, f"adjust_{name}")(theirs, factors[name])
        largest.append(differ(ours, theirs).max())
    assert min(largest) <= 2


def test_grayscale(apply, base):
    ours = apply(f'{SIZE}, {{op = "random_grayscale", p = 1}}')
    assert differ(ours, F.rgb_to_grayscale(base, 3)).max() <= 1


def test_vertical_flip(apply, base):
    assert differ(apply(f'{SIZE}, {{op = "vertical_flip", p = 1}}'), F.vertical_flip(base)).max() == 0


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("degrees", [-90, 17.5, 45, 180, 300])
def test_rotation(apply, base, degrees, mode):
    ours = apply(
        f'{SIZE}, {{op = "random_rotation", degrees = [{degrees}, {degrees}], interpolation = "{mode}", '
        "fill = [10, 200, 30]}"
    )
    difference = differ(ours, F.rotate(base, degrees, InterpolationMode(mode), fill=[10, 200, 30]))
    if mode == "nearest":  # where two pixels are equally near, float32 decides
        assert (difference == 0).mean() > 0.999
    else:
        assert difference.max() <= 1


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_random_crop_is_one_of_the_windows(apply, base, mode):
    ours = apply(f'{SIZE}, {{op = "random_crop", size = 112, padding = 4, padding_mode = "{mode}", fill = 77}}')
    padded = F.pad(base, [4] * 4, fill=77, padding_mode=mode)
    windows = [(top, left) for top in range(9) for left in range(9)]
    assert any(differ(ours, F.crop(padded, top, left, 112, 112)).max() == 0 for top, left in windows)


def test_random_erasing_changes_one_box(apply, base):
    ours = apply(
        f'{SIZE}, {{op = "random_erasing", p = 1, scale = [0.1, 0.1], ratio = [0.5, 0.5], value = [255, 0, 255]}}'
    )
    height, width = round((0.1 * 112 * 112 * 0.5) ** 0.5), round((0.1 * 112 * 112 / 0.5) ** 0.5)
    rows, columns = np.where(differ(ours, base).any(0))
    v = torch.tensor([255, 0, 255])[:, None, None]
    top, left = rows.min(), columns.min()
    assert differ(ours, F.erase(base, top, left, height, width, v)).max() == 0


def test_trivial_augment_is_one_of_the_ops(apply, base):
    theirs = v2.TrivialAugmentWide()
    answers = []
    for name, (magnitudes, signed) in theirs._AUGMENTATION_SPACE.items():
        values = magnitudes(31, 112, 112)
        for value in [0.0] if values is None else values.tolist():
            for sign in (1, -1) if signed else (1,):
                answer = theirs._apply_image_or_video_transform(
                    base, name, sign * value, InterpolationMode.NEAREST, {torch.Tensor: None}
                )
                answers.append((name, answer))
    found = set()
    for epoch in range(12):
        ours = apply(f'{SIZE}, {{op = "trivial_augment_wide"}}', epoch=epoch)
        close = [name for name, answer in answers if (differ(ours, answer) <= 1).mean() > 0.999]
        assert close, epoch
        found.add(close[0])
    assert len(found) > 3


def test_draws_depend_on_seed_and_epoch_alone(apply):
    ops = f'{SIZE}, {{op = "color_jitter", brightness = 0.5, hue = 0.2}}, {{op = "random_erasing", value = "random"}}'
    first = apply(ops, epoch=1)
    assert (first == apply(ops, epoch=1)).all()
    assert (first != apply(ops, epoch=2)).any()


def test_pictures_of_a_data_set_with_gray_digits(recipe, stoker, tmp_path):
    path = recipe('{op = "color_jitter", brightness = [0.5, 0.5], hue = 0.3}, {op = "trivial_augment_wide"}')
    for index in range(6):
        stoker("show", "--recipe", path, "--index", index, "--npy", "digit.npy")
        assert np.load(tmp_path / "digit.npy").shape[0] == 1


def test_an_image_smaller_than_its_crop_says_what_to_do(recipe, stoker):
    path = recipe('{op = "random_crop", size = 100}')
    assert "pad_if_needed = true" in stoker("show", "--recipe", path, "--index", 0, "--npy", "x.npy", status=1).err
