"""Translates transforms of torchvision, v1 and v2, and timm by their class names and attributes. Imports neither."""

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from stoker.errors import InvalidArgument, Unsupported
from stoker.transforms import base, ops

# These change the type of an image and no pixel. RGB is one of them, as the loader's images have three channels.
_CONVERSIONS = {"ToTensor", "ToImage", "ToPureTensor", "PILToTensor", "ToImageTensor", "Identity", "RGB"} | {
    "MaybeToTensor", "MaybePILToTensor"
}
_BYTE_TENSORS = {"ToImage", "PILToTensor", "ToImageTensor", "MaybePILToTensor"}  # uint8 until another part scales them
_TO_DTYPE = {"ToDtype", "ConvertImageDtype"}

# timm's ToTensor is another one: it does not divide by 255.
_OF_TIMM = {"MaybeToTensor", "MaybePILToTensor", "RandomResizedCropAndInterpolation", "RandAugment", "RandomErasing"}

# From these on, an image is a float tensor, which the C++ ops do not take.
_TO_FLOATS = {"ToTensor", "MaybeToTensor", "Normalize", "RandomErasing"} | _TO_DTYPE


def from_torchvision(transform: Any) -> list[base.Transform]:
    """The ops of a transform of torchvision, v1 or v2, or of timm's create_transform: a Compose, one transform, or a list
    of them; of None, as in ImageFolder(..., transform=None), no ops.

    Conversions between image types (ToTensor, ToImage, ToDtype, RGB, ...) need no op: the loader gives three channels of
    float32 divided by 255, or what its `dtype` says; a UserWarning names the `dtype` of float16 or bfloat16. A part that
    has no equal here is kept: the list ends with InPython, which runs it and all behind it in worker processes, and a
    KeptInPython warning names it.
    """
    parts = [] if transform is None else list(_parts(transform))
    for part in parts:
        if _name(part) in ("MixUp", "CutMix"):
            raise InvalidArgument(f"[{_name(part)}] expected transforms of one image, got one of whole batches; call it on "
                                  "the batches of the loader")
    try:
        translated = _translated(parts)
    except Unsupported as error:
        joined = str(error) if str(error).endswith(",") else f"{error};"
        warnings.warn(f"{joined} it runs in Python, in worker processes", base.KeptInPython, stacklevel=2)
        return _with_rest(parts)
    tensors = [_name(part) for part in parts if _name(part) in _BYTE_TENSORS]
    if tensors and dtype_of_images(parts) == "uint8":
        warnings.warn(
            f"[{tensors[0]}] expected a conversion to floats after it, got uint8 to the end; pass dtype='uint8' to "
            "stoker.Loader, which gives float32 from 0 to 1 otherwise", UserWarning, stacklevel=2,
        )
    return translated


def dtype_of_images(transform: Any) -> str:
    """The type of the images of a pipeline that runs in C++ as a whole."""
    dtype = "uint8"
    for part in _parts(transform):
        name = _name(part)
        if name in _TO_DTYPE and _is_float(part, dtype != "uint8"):
            dtype = _dtype(part)
        elif dtype == "uint8" and (name in ("ToTensor", "MaybeToTensor", "Normalize") or isinstance(part, ops.Normalize)):
            dtype = "float32"
    return dtype


def _with_rest(parts: list[Any]) -> list[base.Transform]:
    """The ops of the leading parts that have equals and keep pixels from 0 to 255; all others stay in Python.

    These begin with a PIL image, so the conversions among the leading parts are theirs, too.
    """
    translated: list[base.Transform] = []
    conversions: list[Any] = []
    for at, part in enumerate(parts):
        name = _name(part)
        stays_bytes = name in _TO_DTYPE and _dtype(part) == "uint8"
        if isinstance(part, (ops.Normalize, base.InPython)) or (name in _TO_FLOATS and not stays_bytes):
            break
        if name in _CONVERSIONS or stays_bytes:
            conversions.append(part)
            continue
        try:
            translated += _translated([part])
        except Unsupported:
            break
    return [*translated, base.InPython(*conversions, *_callables(parts[at:]))]


def _callables(rest: list[Any]) -> Iterator[Any]:
    """What runs in Python. An op of ours cannot."""
    for part in rest:
        if isinstance(part, base.InPython):
            yield from part.parts
        elif isinstance(part, base.Transform):
            raise InvalidArgument(
                f"[{type(part).__name__}] expected ops of stoker.transforms before what runs in Python, got {part}; "
                "write torchvision's transform here"
            )
        else:
            yield part


def _translated(parts: list[Any]) -> list[base.Transform]:
    translated: list[base.Transform] = []
    floats = False  # the image has values from 0 to 1, which our ops take as 0 to 255
    for part in parts:
        name = _name(part)
        if isinstance(part, base.Transform):
            translated.append(part)
        elif name in _TO_DTYPE:
            floats = _is_float(part, floats)
            if _dtype(part) in ("float16", "bfloat16"):
                warnings.warn(
                    f"[{name}] the ops have no type: pass dtype={_dtype(part)!r} to stoker.Loader, which gives float32 "
                    "otherwise", UserWarning, stacklevel=4,
                )
        elif name == "RandomErasing" and translated and isinstance(translated[-1], ops.Normalize):
            translated.insert(-1, _erasing(part, 255, translated[-1]))
        elif name == "RandomErasing":
            translated.append(_erasing(part, 255 if floats else 1, None))
        elif name in _MAKERS:
            op = _MAKERS[name](part)
            translated.append(_of_floats(part, op) if floats else op)
        elif name not in _CONVERSIONS:
            raise _unsupported(part, "one of torchvision's transforms that stoker.transforms has")
        floats = floats or name in ("ToTensor", "MaybeToTensor", "Normalize")
    for before in translated[:-1]:
        if isinstance(before, ops.Normalize):
            raise Unsupported(
                f"[Normalize] expected it after all other transforms but RandomErasing, got {translated}; with Normalize "
                "moved there all of it runs in C++. As it is,"
            )
    return translated


def _parts(transform: Any) -> Iterator[Any]:
    if isinstance(transform, (list, tuple)):
        for part in transform:
            yield from _parts(part)
    elif _name(transform) in ("Compose", "Sequential"):
        yield from _parts(list(getattr(transform, "transforms", transform)))
    elif _name(transform) == "ImageClassification":  # weights.transforms()
        yield from _parts(_evaluation(transform))
    else:
        yield transform


def _evaluation(preset: Any) -> list[Any]:
    """The ops of the transform of a model's weights."""
    from torchvision.transforms import CenterCrop, Normalize, Resize, ToTensor  # type: ignore[import-untyped]

    resize = Resize(preset.resize_size, interpolation=preset.interpolation, antialias=preset.antialias)
    return [resize, CenterCrop(preset.crop_size), ToTensor(), Normalize(preset.mean, preset.std)]


def _name(part: Any) -> str:
    """The name of torchvision's or timm's own class; empty for a program's, which may do something else under the same
    name."""
    kind = type(part)
    of_torch = kind.__module__.startswith("torch.nn.") and kind.__name__ in ("Sequential", "Identity")
    if kind.__module__.startswith("timm.data.") and kind.__name__ in _OF_TIMM:
        return "timm.RandAugment" if kind.__name__ == "RandAugment" else kind.__name__
    return kind.__name__ if of_torch or kind.__module__.startswith("torchvision.") else ""


def _unsupported(part: Any, expected: str) -> Unsupported:
    got = " ".join(repr(part).split())
    got = got if len(got) <= 200 else got[:200] + "..."
    return Unsupported(f"[{type(part).__name__}] expected {expected}, got {got}")


def _require(part: Any, condition: bool, expected: str) -> None:
    if not condition:
        raise _unsupported(part, expected)


def _dtype(part: Any) -> str:
    return str(getattr(part, "dtype", None)).removeprefix("torch.")


def _is_float(part: Any, before: bool) -> bool:
    """Whether the image is of floats after a change of its type."""
    dtype, scales = _dtype(part), getattr(part, "scale", True)
    if dtype == "uint8" and not before:
        return False  # no change
    if dtype not in ("float32", "float16", "bfloat16") or not (scales or before):
        raise Unsupported(
            f"[{type(part).__name__}] expected a float type with scale=True, got {dtype} with scale={scales} "
            f"for {'floats' if before else 'bytes'}"
        )
    return True


def _of_floats(part: Any, op: base.Transform) -> base.Transform:
    """With levels from 0 to 255 in place of those from 0 to 1. Only the threshold need not be whole."""
    tables: list[dict[str, Any]] = [op.options]
    for table in tables:  # grows by those of a group
        tables += table.get("ops", [])
        for name, digits in (("fill", 0), ("threshold", 3)):
            if name in table:
                levels = [round(255 * level, digits) for level in _numbers(table[name])]
                _require(part, all(0 <= level <= 255 for level in levels), f"a {name} from 0 to 1")
                table[name] = levels if len(levels) > 1 else levels[0]
    return op


def _numbers(value: Any) -> list[float]:
    """A list of one number, or several."""
    return [float(number) for number in value] if isinstance(value, (list, tuple)) else [float(value)]


def _size(part: Any) -> Any:
    size = part.size
    return size[0] if isinstance(size, (list, tuple)) and len(size) == 1 else size


def _mode(part: Any) -> str:
    mode = getattr(part.interpolation, "value", part.interpolation)
    _require(part, mode in ("nearest", "bilinear", 0, 2), "interpolation nearest or bilinear")
    return "bilinear" if mode in ("bilinear", 2) else "nearest"


def _fill(part: Any) -> Any:
    fill = part.fill
    _require(part, fill is None or not isinstance(fill, dict), "one fill for all inputs")
    return fill


def _resize(part: Any) -> base.Transform:
    _require(part, part.size is not None, "a size")
    antialias = getattr(part, "antialias", True)
    return ops.Resize(_size(part), part.interpolation, getattr(part, "max_size", None), antialias)


def _random_resized_crop(part: Any) -> base.Transform:
    antialias = getattr(part, "antialias", True)
    return ops.RandomResizedCrop(_size(part), part.scale, part.ratio, part.interpolation, antialias)


def _timm_random_resized_crop(part: Any) -> base.Transform:
    mode: Any = part.interpolation
    if isinstance(mode, (list, tuple)):
        _require(part, {getattr(one, "value", one) for one in mode} == {"bilinear", "bicubic"}, "bilinear and bicubic")
        mode = "random"
    return ops.RandomResizedCrop(_size(part), part.scale, part.ratio, mode)


_TIMM_OPS = (
    "AutoContrast Equalize Invert Rotate Posterize Solarize SolarizeAdd Color Contrast Brightness Sharpness ShearX ShearY "
    "TranslateXRel TranslateYRel"
).split()
_TIMM_INCREASING = {"Posterize", "Solarize", "Color", "Contrast", "Brightness", "Sharpness"}


def _timm_rand_augment(part: Any) -> base.Transform:
    names = [op.name for op in part.ops]
    increasing = [name + "Increasing" if name in _TIMM_INCREASING else name for name in _TIMM_OPS]
    first = part.ops[0]
    settings = {(op.prob, op.magnitude, op.magnitude_std, op.magnitude_max, str(op.kwargs)) for op in part.ops}
    usual = names in (_TIMM_OPS, increasing) and part.choice_weights is None and len(settings) == 1
    _require(part, usual and first.hparams.get("translate_pct", 0.45) == 0.45, "timm's fifteen ops with one setting")
    most = first.magnitude_max or 10
    _require(part, 0 <= first.magnitude <= 30 and 1 <= most <= 30 and part.num_layers <= 100, "magnitudes of at most 30")
    mode = first.kwargs["resample"]
    if isinstance(mode, (list, tuple)):
        _require(part, set(mode) == {2, 3}, "bilinear and bicubic")
        mode = "random"
    fill = first.kwargs["fillcolor"]
    return ops.TimmRandAugment(
        part.num_layers, first.magnitude, min(first.magnitude_std, 1000.0), most,
        names == increasing, first.prob, mode, fill,
    )  # fmt: skip


def _random_crop(part: Any) -> base.Transform:
    padding = part.padding
    if type(part).__module__.startswith("torchvision.transforms.v2") and padding is not None:
        left, right, top, bottom = padding  # as v2 keeps it
        padding = [left, top, right, bottom]
    return ops.RandomCrop(_size(part), padding, part.pad_if_needed, _fill(part), part.padding_mode)


def _rotation(part: Any) -> base.Transform:
    _require(part, not part.expand and part.center is None, "a rotation about the centre without expand")
    return ops.RandomRotation(part.degrees, _mode(part), fill=_fill(part))


def _affine(part: Any) -> base.Transform:
    _require(part, getattr(part, "center", None) is None, "a transform about the centre")
    return ops.RandomAffine(part.degrees, part.translate, part.scale, part.shear, _mode(part), _fill(part))


def _elastic(part: Any) -> base.Transform:
    _require(part, all(0 <= sigma <= 100 for sigma in _numbers(part.sigma)), "a sigma from 0 to 100")
    return ops.ElasticTransform(part.alpha, part.sigma, _mode(part), _fill(part))


# These change the size of an image, or its type: no part of a group.
_NOT_GROUPED = {"resize", "center_crop", "random_crop", "random_resized_crop", "aspect_crop", "normalize"}


def _grouped(part: Any) -> list[base.Transform]:
    """The transforms of a RandomApply or RandomChoice; several in a Compose are one."""
    found = []
    for one in part.transforms:
        inner = [_MAKERS[_name(each)](each) for each in _parts(one) if _name(each) in _MAKERS]
        fits = len(inner) == len(list(_parts(one))) > 0 and all(op.op not in _NOT_GROUPED for op in inner)
        _require(part, fits, "transforms that stoker.transforms has and that keep the size")
        found.append(inner[0] if len(inner) == 1 else ops.RandomApply(inner, 1))
    return found


def _grayscale(part: Any) -> base.Transform:
    _require(part, part.num_output_channels == 3, "3 output channels (for one, set channels=1 of the loader)")
    return ops.Grayscale(3)


def _erasing(part: Any, unit: int, normalize: ops.Normalize | None) -> base.Transform:
    """With the level that becomes `value` when it is normalised, because the op runs on pixels from 0 to 255.

    unit: the level of what is 1 in the image that torchvision has here.
    """
    if hasattr(part, "probability"):  # timm's
        p, scale, ratio = part.probability, (part.min_area, part.max_area), [round(math.exp(x), 6) for x in part.log_aspect_ratio]
        value = 0 if part.mode == "const" else "random"
        _require(part, part.max_count == 1 and part.num_splits < 2, "one box, in every image")
    else:
        p, scale, ratio, value = part.p, part.scale, part.ratio, part.value
    _require(part, value is not None and value != "random", "a constant value (noise is normal there)")
    levels = _numbers(value)
    given = {"mean": 0, "std": 1} if normalize is None else normalize.options
    mean, std = _numbers(given["mean"]), _numbers(given["std"])
    channels = max(len(levels), len(mean), len(std))
    levels, mean, std = (list(part) * (channels // len(part)) for part in (levels, mean, std))
    pixels = [round(unit * (m + s * level)) for level, m, s in zip(levels, mean, std)]
    _require(part, all(0 <= pixel <= 255 for pixel in pixels), "a value from black to white")
    return ops.RandomErasing(p, scale, ratio, pixels)


_MAKERS: dict[str, Callable[[Any], base.Transform]] = {
    "AutoAugment": lambda part: ops.AutoAugment(part.policy, _mode(part), _fill(part)),
    "CenterCrop": lambda part: ops.CenterCrop(_size(part)),
    "ColorJitter": lambda part: ops.ColorJitter(part.brightness, part.contrast, part.saturation, part.hue),
    "ElasticTransform": _elastic,
    "GaussianBlur": lambda part: ops.GaussianBlur(part.kernel_size, part.sigma),
    "Grayscale": _grayscale,
    "Normalize": lambda part: ops.Normalize(part.mean, part.std),
    "RandAugment": lambda part: ops.RandAugment(
        part.num_ops, part.magnitude, part.num_magnitude_bins, _mode(part), _fill(part)
    ),
    "RandomAdjustSharpness": lambda part: ops.RandomAdjustSharpness(part.sharpness_factor, part.p),
    "RandomAffine": _affine,
    "RandomApply": lambda part: ops.RandomApply(_grouped(part), part.p),
    "RandomAutocontrast": lambda part: ops.RandomAutocontrast(part.p),
    "RandomChoice": lambda part: ops.RandomChoice(_grouped(part), part.p),
    "RandomCrop": _random_crop,
    "RandomEqualize": lambda part: ops.RandomEqualize(part.p),
    "RandomGrayscale": lambda part: ops.RandomGrayscale(part.p),
    "RandomHorizontalFlip": lambda part: ops.RandomHorizontalFlip(part.p),
    "RandomInvert": lambda part: ops.RandomInvert(part.p),
    "RandomPerspective": lambda part: ops.RandomPerspective(part.distortion_scale, part.p, _mode(part), _fill(part)),
    "RandomPosterize": lambda part: ops.RandomPosterize(part.bits, part.p),
    "RandomResizedCrop": _random_resized_crop,
    "RandomResizedCropAndInterpolation": _timm_random_resized_crop,
    "RandomRotation": _rotation,
    "RandomSolarize": lambda part: ops.RandomSolarize(part.threshold, part.p),
    "RandomVerticalFlip": lambda part: ops.RandomVerticalFlip(part.p),
    "Resize": _resize,
    "timm.RandAugment": _timm_rand_augment,
    "TrivialAugmentWide": lambda part: ops.TrivialAugmentWide(part.num_magnitude_bins, _mode(part), _fill(part)),
}
