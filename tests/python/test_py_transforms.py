# stoker.transforms against torchvision: the same names and arguments, the pixels to 1 level, and the translation of
# whole pipelines.
import inspect
import warnings

import numpy as np
import pytest
import torch
import torchvision.transforms as v1
from conftest import draw_noise
from PIL import Image
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode, v2

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker import transforms  # noqa: E402

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
OPS = [
    op for op in vars(transforms).values() if inspect.isclass(op) and issubclass(op, transforms.Transform) and op.op
]


def theirs_of(compose, folder):
    """torchvision's own loop over the folder, in stored order."""
    return torch.stack([compose(image) for image, _ in ImageFolder(folder)])


def ours_of(ops, folder, **options):
    batches = stoker.Loader(folder, 24, ops=ops, shuffle=False, **options)
    return next(iter(batches))["image"].clone()


def test_there_is_a_class_for_each_op_of_a_recipe(drawn):
    """The message for an unknown op lists them all."""
    with pytest.raises(stoker.InvalidArgument) as caught:
        stoker.Loader(drawn, ops=[{"op": "?"}])
    known = str(caught.value).split("an op: ")[1].split(", got")[0].split(", ")
    assert sorted(op.op for op in OPS) == sorted(known)


# Arguments of torchvision that do not have its defaults, and why.
OTHER_DEFAULTS = {("Grayscale", "num_output_channels"): "one channel is an option of the loader"}


@pytest.mark.parametrize("op", [op for op in OPS if hasattr(v2, op.__name__)], ids=lambda op: op.__name__)
def test_arguments_are_torchvisions(op):
    parameters = inspect.signature(getattr(v2, op.__name__)).parameters
    values = {"transforms": [transforms.RandomInvert()]}
    needed = {name: values.get(name, 3) for name, at in parameters.items() if at.default is at.empty}
    wanted = op(**needed)
    for name, parameter in parameters.items():
        if name not in needed and (op.__name__, name) not in OTHER_DEFAULTS:
            assert op(**needed, **{name: parameter.default}) == wanted, name
    assert list(inspect.signature(op).parameters) == list(parameters)


def test_a_whole_number_is_shown_as_one():
    assert repr(transforms.Resize(128)) == "Resize(size=128)"
    assert repr(transforms.RandomErasing(0.5, value=(1, 2.5, 3))).endswith("value=[1, 2.5, 3])")


def test_enumerations_and_numbers_of_torchvision():
    bilinear = transforms.RandomRotation(10, "bilinear")
    for value in (InterpolationMode.BILINEAR, 2, Image.Resampling.BILINEAR):
        assert transforms.RandomRotation(10, interpolation=value) == bilinear
        assert transforms.Resize(9, value) == transforms.Resize(9)
    for value in (InterpolationMode.BICUBIC, 3, Image.Resampling.BICUBIC):
        assert transforms.RandomResizedCrop(9, interpolation=value).options["interpolation"] == "bicubic"
    assert transforms.Resize(9, 1) == transforms.Resize(9, "lanczos")
    assert transforms.TrivialAugmentWide(interpolation=0) == transforms.TrivialAugmentWide()
    assert transforms.AutoAugment(v2.AutoAugmentPolicy.CIFAR10) == transforms.AutoAugment("cifar10")


OTHER_VALUES = {
    "box": (lambda: transforms.RandomResizedCrop(9, interpolation=InterpolationMode.BOX), "got 'box'"),
    "drawn": (lambda: transforms.Resize(9, "random"), "got 'random'"),
    "bicubic": (lambda: transforms.RandomRotation(9, InterpolationMode.BICUBIC), "got 'bicubic'"),
    "lanczos": (lambda: transforms.RandAugment(interpolation=1), "interpolation='nearest' or 'bilinear', got 'lanczos'"),
    "longest side": (lambda: transforms.Resize(9, max_size=20), "max_size=None, got 20"),
    "aliased": (lambda: transforms.Resize(9, antialias=False), "antialias=True or None, got False"),
    "expanded": (lambda: transforms.RandomRotation(9, "nearest", True), "expand=False, got True"),
    "off the centre": (lambda: transforms.RandomAffine(9, center=[0, 0]), r"center=None, got \[0, 0\]"),
}


@pytest.mark.parametrize("case", OTHER_VALUES)
def test_what_an_op_does_not_do_stays_in_python(case):
    make, message = OTHER_VALUES[case]
    with pytest.raises(stoker.Unsupported, match=rf"{message}; torchvision's .*from_torchvision keeps it there") as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_fill_of_each_type_is_refused():
    with pytest.raises(stoker.InvalidArgument, match=r"\[fill\] expected a number, text or a list of numbers"):
        transforms.RandomCrop(9, fill={torch.Tensor: 0})


TO_FLOATS = v2.ToDtype(torch.float32, scale=True)
EXACT = {
    "imagenet evaluation": [v2.PILToTensor(), v2.Resize(60), v2.CenterCrop(56)],
    "both sides": [v2.PILToTensor(), v2.Resize((40, 70)), v2.RandomHorizontalFlip(1), v2.RandomVerticalFlip(1)],
    "colours": [v2.PILToTensor(), v2.CenterCrop(50), v2.RandomInvert(1), v2.RandomPosterize(3, 1), v2.RandomSolarize(99, 1)],
    "whole crop": [v2.PILToTensor(), v2.CenterCrop(90), v2.ColorJitter((1.3, 1.3)), v2.RandomResizedCrop(32, (1, 1), (1, 1))],
    "grey and blurred": [v2.PILToTensor(), v2.Resize(64), v2.CenterCrop(64), v2.Grayscale(3), v2.GaussianBlur(5, 1.5)],
    "rotated": [v2.PILToTensor(), v2.CenterCrop(64), v2.RandomRotation((90, 90)), v2.RandomAffine((180, 180), fill=9)],
}


@pytest.mark.parametrize("case", EXACT)
def test_pixels_are_torchvisions_where_nothing_is_left_to_chance(drawn, case):
    pipeline = [*EXACT[case], v2.ToDtype(torch.float32, scale=True)]
    ops = transforms.from_torchvision(v2.Compose(pipeline))
    assert len(ops) == len(pipeline) - 2
    difference = (ours_of(ops, drawn) - theirs_of(v2.Compose(pipeline), drawn)).abs() * 255
    assert difference.max() < 1.01 and (difference < 0.01).float().mean() > 0.95
    levels = ours_of(ops, drawn, dtype="uint8")
    assert (levels - theirs_of(v2.Compose(pipeline[:-1]), drawn).float()).abs().max() <= 1


@pytest.mark.parametrize("mode", ["NEAREST", "BICUBIC", "LANCZOS"])
@pytest.mark.parametrize("size", [60, (40, 70), 224])
def test_the_pixels_of_a_resize_are_pillows(drawn, size, mode):
    pipeline = v2.Compose([v2.Resize(size, InterpolationMode[mode]), v2.CenterCrop(40), v2.PILToTensor()])
    difference = (ours_of(transforms.from_torchvision(pipeline), drawn, dtype="uint8") - theirs_of(pipeline, drawn).float()).abs()
    assert difference.max() <= 1 and (difference == 0).float().mean() > 0.95
    bilinear = ours_of([transforms.Resize(size), transforms.CenterCrop(40)], drawn, dtype="uint8")
    assert (bilinear - theirs_of(pipeline, drawn).float()).abs().max() > 5  # another filter shows


def test_the_transform_of_weights_runs_in_cpp(drawn):
    from torchvision.models import EfficientNet_B0_Weights, ResNet18_Weights, ViT_B_16_Weights

    for weights in (ResNet18_Weights.DEFAULT, ViT_B_16_Weights.DEFAULT, EfficientNet_B0_Weights.DEFAULT):
        pipeline = weights.transforms()
        ops = transforms.from_torchvision(pipeline)
        assert [type(op).__name__ for op in ops] == ["Resize", "CenterCrop", "Normalize"]
        difference = (ours_of(ops, drawn) - theirs_of(pipeline, drawn)).abs() * 255 * min(pipeline.std)
        assert difference.max() < 1.01 and (difference < 0.01).float().mean() > 0.95


FLOATS = {
    "a colour behind ToTensor": [v1.CenterCrop(50), v1.ToTensor(), v1.RandomCrop(58, 4, fill=0.8)],
    "colours of floats": [v2.ToImage(), v2.CenterCrop(50), TO_FLOATS, v2.RandomRotation((45, 45), fill=[0, 0.4, 1])],
    "a threshold": [v1.CenterCrop(50), v1.PILToTensor(), v1.ConvertImageDtype(torch.float), v1.RandomSolarize(0.4, 1)],
    "bytes before": [v2.ToImage(), v2.CenterCrop(50), v2.RandomCrop(58, 4, fill=99), TO_FLOATS],
    "unequal padding": [v2.ToImage(), v2.CenterCrop(50), v2.RandomCrop((60, 54), (1, 7, 3, 3), fill=9), TO_FLOATS],
    "bytes as bytes": [v2.ToImage(), v2.ToDtype(torch.uint8), v2.CenterCrop(50), v2.RandomSolarize(99, 1), TO_FLOATS],
}


@pytest.mark.parametrize("case", FLOATS)
def test_levels_are_those_of_the_image_that_torchvision_has(drawn, case):
    """From 0 to 1 for floats, otherwise from 0 to 255."""
    pipeline = v1.Compose(FLOATS[case])
    difference = (ours_of(transforms.from_torchvision(pipeline), drawn) - theirs_of(pipeline, drawn)).abs() * 255
    assert difference.max() < 1.01 and (difference < 0.01).float().mean() > 0.9


@pytest.mark.parametrize("before, value, level", [([], 1, 1), ([TO_FLOATS], 0.4, 102)])
def test_erased_boxes_have_torchvisions_level(tmp_path, before, value, level):
    draw_noise(tmp_path / "a/1.png", levels=(0, 1))
    last = [] if before else [TO_FLOATS]
    pipeline = v2.Compose([v2.ToImage(), *before, v2.RandomErasing(1, value=value), *last])
    for image in (ours_of(transforms.from_torchvision(pipeline), tmp_path), theirs_of(pipeline, tmp_path)):
        assert (image * 255).round().unique().tolist() == [0, level]


def test_a_mean_of_all_channels_is_one_number():
    pipeline = [v1.ToTensor(), v1.Normalize(0.5, 0.5), v1.RandomErasing()]
    assert transforms.from_torchvision(pipeline)[0] == transforms.RandomErasing(value=[128])


class ToTensor:
    def __call__(self, image):
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() - 100


class Resize:
    def __call__(self, image):
        return image


class ColorJitter(v1.ColorJitter):
    def forward(self, image):
        return image


class Compose(v1.Compose):
    def __call__(self, image):
        return image


@pytest.mark.parametrize("own", [ToTensor(), Resize(), ColorJitter(0.4), Compose([v1.ToTensor()])])
def test_a_programs_own_class_of_torchvisions_name_stays_in_python(own):
    assert kept([v1.Resize(9), own, v1.CenterCrop(8)])[0] == transforms.Resize(9)
    (op,) = kept(own)
    assert op.parts == (own,)


def test_ops_of_ours_stay():
    ours = [transforms.Resize(9), transforms.InPython(abs)]
    assert transforms.from_torchvision(ours) == ours
    mixed = [transforms.RandomHorizontalFlip(), v1.ToTensor(), transforms.Normalize(MEAN, STD)]
    assert transforms.from_torchvision(mixed) == [mixed[0], mixed[2]]
    assert kept([transforms.Resize(9), transforms.InPython(abs), v1.Lambda(abs)])[1].parts[0] is abs
    refused = pytest.raises(stoker.InvalidArgument, match=r"\[Resize\] .* before what runs")
    with pytest.warns(transforms.KeptInPython), refused:
        transforms.from_torchvision([v1.Lambda(abs), transforms.Resize(9)])


def test_the_pipeline_that_torchvision_recommends_runs_in_cpp():
    to_bytes = v2.ToDtype(torch.uint8, scale=True)
    pipeline = v2.Compose([v2.ToImage(), to_bytes, v2.RandomResizedCrop(224, antialias=True), TO_FLOATS])
    assert transforms.from_torchvision(pipeline) == [transforms.RandomResizedCrop((224, 224))]
    assert kept([v2.ToImage(), to_bytes, v2.Resize(9), v2.Lambda(abs)])[0] == transforms.Resize(9)


def test_rgb_is_what_images_are():
    pipeline = v2.Compose([v2.RGB(), v2.Resize(32), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    assert transforms.from_torchvision(pipeline) == [transforms.Resize(32)]


@pytest.mark.parametrize("last", [v1.PILToTensor(), v2.ToImage()])
def test_a_pipeline_that_stays_bytes_names_the_loaders_argument(last):
    with pytest.warns(UserWarning, match="dtype='uint8'"):
        transforms.from_torchvision([v2.Resize(32), last])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transforms.from_torchvision([v2.Resize(32), last, v2.ToDtype(torch.float32, scale=True)])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_type_of_16_bits_names_the_loaders_argument(dtype):
    pipeline = v2.Compose([v2.Resize(32), v2.ToImage(), v2.ToDtype(dtype, scale=True)])
    with pytest.warns(UserWarning, match=f"dtype='{str(dtype).removeprefix('torch.')}'"):
        assert transforms.from_torchvision(pipeline) == [transforms.Resize(32)]


def test_an_empty_pipeline_has_no_ops():
    for empty in (v1.Compose([]), v2.Compose([v2.Identity()]), torch.nn.Sequential()):
        assert transforms.from_torchvision(empty) == []


def test_normalised_batches_are_torchvisions(drawn):
    pipeline = v1.Compose([v1.Resize(60), v1.CenterCrop(56), v1.ToTensor(), v1.Normalize(MEAN, STD)])
    ours = ours_of(transforms.from_torchvision(pipeline), drawn)
    level = 1.01 / 255 / torch.tensor(STD)[:, None, None]
    assert ((ours - theirs_of(pipeline, drawn)).abs() <= level).all()


def test_the_usual_pipelines_are_translated():
    train = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomResizedCrop(224, antialias=True),
            v2.RandomHorizontalFlip(p=0.3),
            v2.TrivialAugmentWide(interpolation=InterpolationMode.BILINEAR),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
            v2.RandomErasing(0.1),
            v2.ToPureTensor(),
        ]
    )
    assert transforms.from_torchvision(train) == [
        transforms.RandomResizedCrop((224, 224)),
        transforms.RandomHorizontalFlip(0.3),
        transforms.TrivialAugmentWide(interpolation="bilinear"),
        transforms.RandomErasing(0.1, value=[124, 116, 104]),  # what becomes 0 when it is normalised
        transforms.Normalize(MEAN, STD),
    ]
    cifar = v1.Compose([v1.RandomCrop(32, padding=4), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(MEAN, STD)])
    assert transforms.from_torchvision(cifar) == [
        transforms.RandomCrop((32, 32), padding=4),
        transforms.RandomHorizontalFlip(),
        transforms.Normalize(MEAN, STD),
    ]


def rounded(options):
    def of(value):
        if isinstance(value, list) and isinstance(value[0], dict):
            return [rounded(table) for table in value]
        return np.round(value, 6).tolist() if isinstance(value, list) else value

    return {name: of(value) for name, value in options.items()}


TORCHVISION = [
    (v2.Resize(9), transforms.Resize(9)),
    (v2.CenterCrop(9), transforms.CenterCrop((9, 9))),
    (v2.RandomCrop(8, (1, 2), True, 7, "edge"), transforms.RandomCrop((8, 8), [1, 2, 1, 2], True, 7, "edge")),
    (v1.RandomCrop(8, (1, 2, 3, 4)), transforms.RandomCrop((8, 8), [1, 2, 3, 4])),
    (v2.RandomCrop(8, (1, 2, 3, 4)), transforms.RandomCrop((8, 8), [1, 2, 3, 4])),
    (v2.RandomRotation(10), transforms.RandomRotation((-10, 10))),
    (v2.RandomAffine(10, (0.1, 0.2), (0.5, 2), 3), transforms.RandomAffine((-10, 10), (0.1, 0.2), (0.5, 2), (-3, 3))),
    (v2.ColorJitter(0.4, hue=0.1), transforms.ColorJitter((0.6, 1.4), hue=(-0.1, 0.1))),
    (v2.RandomGrayscale(0.2), transforms.RandomGrayscale(0.2)),
    (v2.RandomEqualize(0.2), transforms.RandomEqualize(0.2)),
    (v2.RandomAutocontrast(0.2), transforms.RandomAutocontrast(0.2)),
    (v2.RandomAdjustSharpness(2), transforms.RandomAdjustSharpness(2)),
    (v2.RandAugment(3, 7), transforms.RandAugment(3, 7)),
    (v2.RandomPerspective(0.3, 0.7, fill=9), transforms.RandomPerspective(0.3, 0.7, fill=9)),
    (v2.ElasticTransform(20.0, (3.0, 4.0)), transforms.ElasticTransform([20, 20], [3, 4])),
    (v1.RandomPerspective(interpolation=InterpolationMode.NEAREST), transforms.RandomPerspective(interpolation="nearest")),
    (v2.RandomApply([v2.ColorJitter(0.3)], p=0.8), transforms.RandomApply([transforms.ColorJitter((0.7, 1.3))], 0.8)),
    (v1.RandomApply([v1.GaussianBlur(3)]), transforms.RandomApply([transforms.GaussianBlur([3, 3], [0.1, 2.0])])),
    (
        v2.RandomApply([v2.ColorJitter(0.3), v2.GaussianBlur(3)], p=0.8),
        transforms.RandomApply([transforms.ColorJitter((0.7, 1.3)), transforms.GaussianBlur([3, 3], [0.1, 2.0])], 0.8),
    ),
    (
        v1.RandomChoice([v1.RandomHorizontalFlip(1), v1.Compose([v1.RandomInvert(), v1.Grayscale(3)])]),
        transforms.RandomChoice(
            [transforms.RandomHorizontalFlip(1), transforms.RandomApply([transforms.RandomInvert(), transforms.Grayscale(3)], 1)]
        ),
    ),
    (
        v2.RandomChoice([v2.RandomInvert(), v2.RandomEqualize()], p=[3, 1]),
        transforms.RandomChoice([transforms.RandomInvert(), transforms.RandomEqualize()], [0.75, 0.25]),
    ),
    (
        v1.Compose([v1.ToTensor(), v1.RandomChoice([v1.RandomRotation(9, fill=1.0)])]),
        transforms.RandomChoice([transforms.RandomRotation((-9, 9), fill=255)]),
    ),
    (v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10), transforms.AutoAugment("cifar10")),
    (v1.RandAugment(), transforms.RandAugment()),
    (v2.RandomErasing(value=1.0), transforms.RandomErasing(value=[1])),
    (v1.Compose([v1.ToTensor(), v1.RandomErasing(value=1.0)]), transforms.RandomErasing(value=[255])),
    (v2.Compose([v2.ToImage(), TO_FLOATS, v2.TrivialAugmentWide(fill=0.5)]), transforms.TrivialAugmentWide(fill=128)),
]


@pytest.mark.parametrize("theirs, ours", TORCHVISION, ids=lambda value: type(value).__name__)
def test_each_transform_is_translated(theirs, ours, drawn):
    (translated,) = transforms.from_torchvision(theirs)
    assert translated.op == ours.op and rounded(translated.options) == rounded(ours.options)
    stoker.Loader(drawn, 4, ops=[transforms.Resize((40, 40)), translated])  # the engine takes its options


REFUSED = [
    (v2.RandomResizedCrop(9, interpolation=InterpolationMode.BOX), "RandomResizedCrop.*interpolation.*got 'box'"),
    (v2.Resize(9, antialias=False), "Resize.*antialias=True"),
    (v2.Resize(9, max_size=20), "Resize.*max_size=None"),
    (v2.RandomRotation(9, expand=True), "RandomRotation.*without expand"),
    (v2.Grayscale(1), r"Grayscale.*channels=1"),
    (v2.RandomApply([v2.ColorJitter(0.3), v2.ScaleJitter((9, 9))]), "RandomApply.*that keep the size"),
    (v1.RandomChoice([v1.CenterCrop(9)]), "RandomChoice.*that keep the size"),
    (v2.Lambda(abs), "Lambda"),
    (v2.RandomErasing(value="random"), "RandomErasing.*a constant value"),
    (v2.Compose([v2.Normalize(MEAN, STD), v2.CenterCrop(9)]), "Normalize.*after all other transforms"),
    (v2.ToDtype(torch.float32), "ToDtype.*scale=True, got float32 with scale=False"),
    (v2.ToDtype(torch.int16, scale=True), "ToDtype.*got int16 with scale=True for bytes"),
    (v2.Compose([v2.ToImage(), TO_FLOATS, v2.ToDtype(torch.uint8, scale=True)]), "ToDtype.*got uint8 .* for floats"),
    (v2.Compose([v1.ToTensor(), v1.RandomRotation(9, fill=2.0)]), "RandomRotation.*a fill from 0 to 1"),
]


@pytest.mark.parametrize("theirs, message", REFUSED, ids=lambda value: getattr(value, "__name__", type(value).__name__))
def test_what_has_no_equal_is_named_and_stays_in_python(theirs, message):
    with pytest.warns(transforms.KeptInPython, match=message) as caught:
        (kept,) = transforms.from_torchvision(theirs)
    assert isinstance(kept, transforms.InPython) and "\n" not in str(caught[0].message)
    assert kept.parts == (tuple(theirs.transforms) if isinstance(theirs, v2.Compose) else (theirs,))


@pytest.mark.parametrize("mixing", [v2.MixUp(num_classes=3), v2.CutMix(num_classes=3)])
def test_what_mixes_batches_belongs_behind_the_loader(mixing):
    with pytest.raises(stoker.InvalidArgument, match=f"{type(mixing).__name__}.*call it on the batches"):
        transforms.from_torchvision(v2.Compose([v2.Resize(9), mixing]))


def kept(pipeline):
    with pytest.warns(transforms.KeptInPython):
        return transforms.from_torchvision(pipeline)


def test_the_leading_parts_run_in_cpp():
    blur = v2.RandomApply([v2.GaussianBlur(3), v2.RandomPhotometricDistort()])
    to_image, to_float, normalize = v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)
    ops = kept(v2.Compose([to_image, v2.Resize(60), v2.RandomCrop(50), blur, v2.RandomHorizontalFlip(), to_float, normalize]))
    assert ops[:2] == [transforms.Resize(60), transforms.RandomCrop((50, 50))]
    assert ops[2].parts[:2] == (to_image, blur) and ops[2].parts[3:] == (to_float, normalize) and len(ops) == 3
    ops = kept(v1.Compose([v1.CenterCrop(50), v1.ToTensor(), v1.Normalize(MEAN, STD), blur]))
    assert ops[:1] == [transforms.CenterCrop((50, 50))] and len(ops[1].parts) == 3
    (op,) = kept([blur, v2.Resize(9)])
    assert len(op.parts) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_with_a_part_in_python_are_torchvisions(drawn, workers):
    pipeline = v2.Compose([v2.Resize(60), v2.CenterCrop(56), v2.Lambda(flipped), v1.ToTensor(), v1.Normalize(MEAN, STD)])
    batches = stoker.Loader(drawn, 5, ops=kept(pipeline), shuffle=False, workers=workers)
    ours = list(batches)
    images = torch.cat([batch["image"] for batch in ours])
    level = 1.01 / 255 / torch.tensor(STD)[:, None, None]
    assert ((images - theirs_of(pipeline, drawn)).abs() <= level).all()
    assert ours[0]["index"].tolist() == [0, 1, 2, 3, 4] and ours[0]["key"][0] == stoker.open(drawn).key(0)
    image, label = next(iter(stoker.Loader(drawn, 5, ops=kept(pipeline), workers=0, as_tuple=True)))
    assert image.shape == (5, 3, 56, 56) and label.dtype == torch.int64
    batches.close()


def flipped(image):
    return v2.functional.horizontal_flip(image)


def test_the_cpp_part_has_the_loaders_random_numbers(drawn):
    """The same crops and flips as without the part in Python, for any number of workers."""
    ops = [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), transforms.TrivialAugmentWide()]
    plain = stoker.Loader(drawn, 5, ops=ops, dtype="uint8", seed=4)
    for workers in (0, 2):
        plain.set_epoch(1)
        loader = stoker.Loader(drawn, 5, ops=[*ops, transforms.InPython(v2.PILToTensor())], seed=4, workers=workers)
        loader.set_epoch(1)
        for ours, theirs in zip(loader, plain, strict=True):
            difference = (ours["image"].int() - theirs["image"].int()).abs()
            assert ours["index"].tolist() == theirs["index"].tolist() and difference.max() <= 1
        loader.close()


def test_what_python_ops_do_not_take(drawn, tmp_path):
    op = transforms.InPython(v2.PILToTensor())
    pixels = np.zeros((3, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "d.npz", images=pixels, labels=np.zeros(3, int), mask=pixels[..., 0])
    masks = stoker.open(tmp_path / "d.npz", fields={"mask": ("mask", "mask")})
    cases = [
        (drawn, {"ops": [op, transforms.Resize(9)]}, stoker.InvalidArgument, "InPython as the last op"),
        (drawn, {"ops": [transforms.Normalize(MEAN, STD), op]}, stoker.InvalidArgument, "Normalize among what runs in"),
        (drawn, {"ops": [op], "dtype": "uint8"}, stoker.InvalidArgument, r"\[dtype\]"),
        (masks, {"ops": [op]}, stoker.Unsupported, "the fields mask"),
    ]
    for source, options, error, message in cases:
        with pytest.raises(error, match=message):
            stoker.Loader(source, 2, **options)


def test_arguments_of_cpp_ops_name_the_ops_in_python(drawn):
    with pytest.raises(stoker.InvalidArgument, match=r"\[cache\] .*, got ops that run in Python \(InPython\)$"):
        stoker.Loader(drawn, 2, ops=[transforms.InPython(v2.PILToTensor())], cache="ram")


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_python_ops_get_every_channel(tmp_path, channels):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 8, channels), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", images=pixels, labels=np.zeros(3, int))
    op = transforms.InPython(v2.PILToTensor())
    (batch,) = stoker.Loader(tmp_path / "d.npz", 3, ops=[op], shuffle=False, workers=0)
    assert (batch["image"].numpy() == pixels.transpose(0, 3, 1, 2)).all()


def test_masks_and_boxes_follow_the_image(tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (6, 40, 40, 3), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", images=pixels, labels=np.zeros(6, int), mask=pixels[..., 0])
    data = stoker.open(tmp_path / "d.npz", fields={"mask": ("mask", "mask")})
    ops = [transforms.RandomCrop(20), transforms.RandomHorizontalFlip(), transforms.RandomVerticalFlip()]
    (batch,) = stoker.Loader(data, 6, ops=ops, dtype="uint8")
    assert (batch["image"][:, 0] == batch["mask"]).all() and batch["mask"].shape == (6, 20, 20)
    (other,) = stoker.Loader(data, 6, ops=ops, dtype="uint8", field_ops={"mask": [transforms.CenterCrop(20)]})
    assert not (other["image"][:, 0] == other["mask"]).all()


MEAN_LEVELS = [124, 116, 104]


class RandomResizedCropAndInterpolation:  # with the attributes of timm's
    def __init__(self, interpolation):
        self.size, self.scale, self.ratio, self.interpolation = (32, 40), (0.1, 0.9), (0.5, 2.0), interpolation


class MaybeToTensor(v1.ToTensor):
    pass


@pytest.mark.parametrize("given, mode", [
    ((InterpolationMode.BILINEAR, InterpolationMode.BICUBIC), "random"), (InterpolationMode.BICUBIC, "bicubic"),
])
def test_the_crop_of_timm_is_translated(drawn, given, mode, monkeypatch):
    for kind in (RandomResizedCropAndInterpolation, MaybeToTensor):
        monkeypatch.setattr(kind, "__module__", "timm.data.transforms")
    pipeline = v1.Compose([
        RandomResizedCropAndInterpolation(given), v1.RandomHorizontalFlip(), v1.ColorJitter(0.4), MaybeToTensor(),
        v1.Normalize(MEAN, STD),
    ])
    crop, flip, jitter, normalize = transforms.from_torchvision(pipeline)
    assert crop == transforms.RandomResizedCrop((32, 40), (0.1, 0.9), (0.5, 2.0), mode)
    assert [op.op for op in (flip, jitter, normalize)] == ["horizontal_flip", "color_jitter", "normalize"]
    assert ours_of([crop, flip, jitter, normalize], drawn).shape == (24, 3, 32, 40)


def test_a_drawn_interpolation_is_bilinear_or_bicubic(drawn):
    def crops(mode):
        return ours_of([transforms.RandomResizedCrop(32, interpolation=mode)], drawn, dtype="uint8").flatten(1)

    bilinear, bicubic, drawn_ones = crops("bilinear"), crops("bicubic"), crops("random")
    is_bilinear, is_bicubic = (drawn_ones == bilinear).all(1), (drawn_ones == bicubic).all(1)
    assert (is_bilinear | is_bicubic).all() and 4 < (is_bilinear & ~is_bicubic).sum() < 20


def test_the_pipelines_of_timm_run_in_cpp(drawn):
    timm = pytest.importorskip("timm", reason="needs timm")
    config = timm.data.resolve_data_config({"input_size": (3, 56, 56), "crop_pct": 0.9, "interpolation": "bicubic"})
    evaluation = timm.data.create_transform(**config)
    ops = transforms.from_torchvision(evaluation)
    assert [op.op for op in ops] == ["resize", "center_crop", "normalize"]
    difference = (ours_of(ops, drawn) - theirs_of(evaluation, drawn)).abs() * 255 * min(config["std"])
    assert difference.max() < 1.01 and (difference < 0.01).float().mean() > 0.95
    config["interpolation"] = "random"
    training = transforms.from_torchvision(timm.data.create_transform(**config, is_training=True))
    assert [op.op for op in training] == ["random_resized_crop", "horizontal_flip", "color_jitter", "normalize"]
    assert training[0].options["interpolation"] == "random"
    for aa, mode, op in (
        ("rand-m9-mstd0.5-inc1", "bicubic", transforms.TimmRandAugment(2, 9, 0.5, 10, True, 0.5, "bicubic", MEAN_LEVELS)),
        ("rand-n3-mmax20", "random", transforms.TimmRandAugment(3, 10, 0, 20, False, 0.5, "random", MEAN_LEVELS)),
    ):
        config["interpolation"] = mode
        training = transforms.from_torchvision(timm.data.create_transform(**config, is_training=True, auto_augment=aa))
        assert training[2] == op and training[-1].op == "normalize"
        assert ours_of(training, drawn).shape == (24, 3, 56, 56)
    erasing, normalize = transforms.from_torchvision(timm.data.create_transform(**config, is_training=True, re_prob=0.25))[-2:]
    mean = [round(255 * level) for level in config["mean"]]  # 0 of normalised pixels
    assert erasing == transforms.RandomErasing(0.25, (0.02, 1 / 3), [0.3, 3.333333], mean) and normalize.op == "normalize"
    several = timm.data.create_transform(**config, is_training=True, re_prob=0.25, re_mode="pixel")
    with pytest.warns(transforms.KeptInPython, match="a constant value"):
        transforms.from_torchvision(several)
    weighted = timm.data.create_transform(**config, is_training=True, auto_augment="rand-m9-tweights")
    with pytest.warns(transforms.KeptInPython, match="timm's fifteen ops") as caught:
        transforms.from_torchvision(weighted)
    assert len(str(caught[0].message)) < 500
    beyond = timm.data.create_transform(**config, is_training=True, auto_augment="rand-m40-mmax40")
    with pytest.warns(transforms.KeptInPython, match="at most 30"):
        transforms.from_torchvision(beyond)


def test_a_field_too_smooth_for_cpp_stays_in_python():
    with pytest.warns(transforms.KeptInPython, match="sigma from 0 to 100"):
        transforms.from_torchvision(v2.ElasticTransform(50.0, 200.0))


def test_one_of_several_ops_is_chosen(drawn):
    crop, invert, turn = transforms.CenterCrop(40), transforms.RandomInvert(1.0), transforms.RandomRotation((90, 90))

    def images(*ops):
        return ours_of([crop, *ops], drawn, dtype="uint8").flatten(1)

    chosen, inverted, turned = images(transforms.RandomChoice([invert, turn])), images(invert), images(turn)
    first, second = (chosen == inverted).all(1), (chosen == turned).all(1)
    assert (first ^ second).all() and 6 < first.sum() < 18  # of 24


@pytest.mark.parametrize("inner", [
    transforms.ColorJitter((0.5, 0.5)), transforms.GaussianBlur(5, 2.0), transforms.RandomRotation((90, 90)),
    transforms.RandomAffine((45, 45)), transforms.RandomInvert(1.0),
], ids=lambda op: op.op)
def test_an_op_is_applied_with_a_probability(drawn, inner):
    crop = transforms.CenterCrop(40)

    def images(*ops):
        return ours_of([crop, *ops], drawn, dtype="uint8").flatten(1)

    plain, always, often = images(), images(inner), images(transforms.RandomApply([inner], 0.6))
    assert torch.equal(images(transforms.RandomApply([inner], 1.0)), always)
    assert torch.equal(images(transforms.RandomApply([inner], 0.0)), plain)
    changed = (often != plain).any(1)
    assert 6 < changed.sum() < 22  # of 24
    assert torch.equal(often[changed], always[changed])


def test_a_group_is_shown_as_it_is_written():
    group = transforms.RandomApply([transforms.ColorJitter(0.3)], 0.8)
    assert repr(group).startswith("RandomApply([ColorJitter(") and repr(group).endswith("], p=0.8)")
