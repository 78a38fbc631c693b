# The random ops against torchvision v2 on uint8: ranges of one value fix what is drawn, and where a choice is left
# (an order, a place, one op of fourteen), one of torchvision's possible answers must be ours.
from itertools import permutations, product

import numpy as np
import pytest
import torch
from conftest import run_program
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


@pytest.mark.parametrize("factor", [0, 0.77, 2.5])
@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation"])
def test_color_jitter(apply, base, name, factor):
    ours = apply(f'{SIZE}, {{op = "color_jitter", {name} = [{factor}, {factor}]}}')
    assert differ(ours, getattr(F, f"adjust_{name}")(base, factor)).max() <= 1


@pytest.mark.parametrize("hue", [-0.5, 0.0625, 0.4])
def test_hue(apply, base, hue):
    difference = differ(apply(f'{SIZE}, {{op = "color_jitter", hue = [{hue}, {hue}]}}'), F.adjust_hue(base, hue))
    assert difference.max() <= 1 and (difference == 0).mean() > 0.99


FACTORS = {"brightness": 1.25, "contrast": 0.75, "saturation": 1.5, "hue": 0.0625}


@pytest.fixture(scope="module")
def jittered(base):
    """The photo after all four changes, in each order."""
    found = []
    for order in permutations(FACTORS):
        image = base
        for name in order:
            image = getattr(F, f"adjust_{name}")(image, FACTORS[name])
        found.append(image)
    return found


@pytest.mark.parametrize("epoch", range(4))
def test_color_jitter_in_one_of_the_orders(apply, jittered, epoch):
    options = ", ".join(f"{name} = [{value}, {value}]" for name, value in FACTORS.items())
    ours = apply(f'{SIZE}, {{op = "color_jitter", {options}}}', epoch=epoch)
    assert min(differ(ours, theirs).max() for theirs in jittered) <= 2


def test_grayscale(apply, base):
    ours = apply(f'{SIZE}, {{op = "random_grayscale", p = 1}}')
    assert differ(ours, F.rgb_to_grayscale(base, 3)).max() <= 1


def test_vertical_flip(apply, base):
    assert differ(apply(f'{SIZE}, {{op = "vertical_flip", p = 1}}'), F.vertical_flip(base)).max() == 0


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("degrees", [-90, 17.5, 180])
def test_rotation(apply, base, degrees, mode):
    ours = apply(
        f'{SIZE}, {{op = "random_rotation", degrees = [{degrees}, {degrees}], interpolation = "{mode}", '
        "fill = [10, 200, 30]}"
    )
    difference = differ(ours, F.rotate(base, degrees, InterpolationMode(mode), fill=[10, 200, 30]))
    if mode == "nearest":  # if two pixels are equally near, float32 decides
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


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("angle, scale, shear", [(0, 1, (0, 0)), (17.5, 0.7, (0, 0)), (-40, 1.3, (8, -12))])
def test_random_affine(apply, base, angle, scale, shear, mode):
    ours = apply(
        f'{SIZE}, {{op = "random_affine", degrees = [{angle}, {angle}], scale = [{scale}, {scale}], shear = '
        f'[{shear[0]}, {shear[0]}, {shear[1]}, {shear[1]}], interpolation = "{mode}", fill = [10, 200, 30]}}'
    )
    theirs = F.affine(base, angle, [0, 0], scale, list(shear), InterpolationMode(mode), fill=[10, 200, 30])
    difference = differ(ours, theirs)
    if mode == "nearest":
        assert (difference == 0).mean() > 0.999
    else:
        assert difference.max() <= 1


def test_random_affine_shifts_by_whole_pixels(apply, base):
    ours = apply(f'{SIZE}, {{op = "random_affine", degrees = 0, translate = [0.03, 0.02]}}', epoch=2)
    shifts = product(range(-3, 4), range(-2, 3))  # 0.03 * 112 = 3.36, 0.02 * 112 = 2.24
    assert any(differ(ours, F.affine(base, 0, list(shift), 1, [0, 0], fill=0)).max() == 0 for shift in shifts)


@pytest.mark.parametrize("kernel_size, sigma", [([23, 23], 0.1), ([9, 5], 1.5)])
def test_gaussian_blur(apply, base, kernel_size, sigma):
    ours = apply(f'{SIZE}, {{op = "gaussian_blur", kernel_size = {kernel_size}, sigma = {sigma}}}')
    difference = differ(ours, F.gaussian_blur(base, kernel_size, [sigma, sigma]))
    assert difference.max() <= 1 and (difference == 0).mean() > 0.9995


@pytest.mark.parametrize(
    "op, theirs, tolerance",
    [
        ('"random_invert"', v2.RandomInvert(1), 0),
        ('"random_posterize", bits = 3', v2.RandomPosterize(3, 1), 0),
        ('"random_solarize", threshold = 100', v2.RandomSolarize(100, 1), 0),
        ('"random_equalize"', v2.RandomEqualize(1), 0),
        ('"random_autocontrast"', v2.RandomAutocontrast(1), 0),
        ('"random_adjust_sharpness", sharpness_factor = 1.7', v2.RandomAdjustSharpness(1.7, 1), 1),
    ],
)
def test_random_colour_ops(apply, base, op, theirs, tolerance):
    assert differ(apply(f"{SIZE}, {{op = {op}, p = 1}}"), theirs(base)).max() <= tolerance
    assert differ(apply(f"{SIZE}, {{op = {op}, p = 0}}"), base).max() == 0


def test_grayscale_keeps_three_channels(apply, base):
    assert differ(apply(f'{SIZE}, {{op = "grayscale"}}'), v2.Grayscale(3)(base)).max() <= 1


def augmented(image, name, magnitude):
    """One op of torchvision's augmentations."""
    mode = InterpolationMode.NEAREST
    return v2.AutoAugment()._apply_image_or_video_transform(image, name, magnitude, mode, {torch.Tensor: None})


def strengths(magnitudes, signed, bin=None):
    """All magnitudes that torchvision may draw, or those of one bin."""
    if magnitudes is None:
        return [0.0]
    values = magnitudes.tolist() if bin is None else [float(magnitudes[bin])]
    return [sign * value for value in values for sign in ((1, -1) if signed else (1,))]


def agree(ours, theirs):
    return (differ(ours, theirs) <= 1).mean() > 0.999


def test_trivial_augment_is_one_of_the_ops(apply, base):
    answers = []
    for name, (magnitudes, signed) in v2.TrivialAugmentWide._AUGMENTATION_SPACE.items():
        for strength in strengths(magnitudes(31, 112, 112), signed):
            answers.append((name, augmented(base, name, strength)))
    found = set()
    for epoch in range(12):
        ours = apply(f'{SIZE}, {{op = "trivial_augment_wide"}}', epoch=epoch)
        close = [name for name, answer in answers if agree(ours, answer)]
        assert close, epoch
        found.add(close[0])
    assert len(found) > 3


def test_rand_augment_is_some_of_the_ops(apply, base):
    steps = [
        (name, strength)
        for name, (magnitudes, signed) in v2.RandAugment._AUGMENTATION_SPACE.items()
        for strength in strengths(magnitudes(31, 112, 112), signed, bin=9)
    ]
    once = [(step[0], augmented(base, *step)) for step in steps]
    found = set()
    for epoch in range(12):
        ours = apply(f'{SIZE}, {{op = "rand_augment", num_ops = 1}}', epoch=epoch)
        close = [name for name, answer in once if agree(ours, answer)]
        assert close, epoch
        found.add(close[0])
    assert len(found) > 3


def test_rand_augment_runs_ops_one_after_the_other(apply):
    small = '{op = "resize", size = 64}, {op = "center_crop", size = 48}'
    base = torch.from_numpy(apply(small).astype(np.uint8))
    steps = [
        (name, strength)
        for name, (magnitudes, signed) in v2.RandAugment._AUGMENTATION_SPACE.items()
        for strength in strengths(magnitudes(11, 48, 48), signed, bin=7)
    ]
    once = [augmented(base, *step) for step in steps]
    twice = [augmented(image, *step) for image, step in product(once, steps)]
    for epoch in range(4):
        ours = apply(f'{small}, {{op = "rand_augment", magnitude = 7, num_magnitude_bins = 11}}', epoch=epoch)
        # The first op may differ by 1 in a level, which the second may enlarge.
        assert min((differ(ours, answer) > 2).mean() for answer in twice) < 0.01, epoch


@pytest.mark.parametrize("policy", ["imagenet", "cifar10", "svhn"])
def test_auto_augment_is_one_of_the_policies(apply, base, policy):
    def answers(step):
        name, _, bin = step
        magnitudes, signed = v2.AutoAugment._AUGMENTATION_SPACE[name]
        return [None, *((name, strength) for strength in strengths(magnitudes(10, 112, 112), signed, bin))]

    theirs = []
    for first, second in v2.AutoAugment(v2.AutoAugmentPolicy(policy))._policies:
        for one, two in product(answers(first), answers(second)):
            image = augmented(base, *one) if one else base
            theirs.append(augmented(image, *two) if two else image)
    for epoch in range(4):
        ours = apply(f'{SIZE}, {{op = "auto_augment", policy = "{policy}"}}', epoch=epoch)
        assert min((differ(ours, answer) > 2).mean() for answer in theirs) < 0.01, epoch


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
