"""Translates torchvision's transforms, v1 and v2, by their class names and attributes. Imports no torchvision."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from stoker import transforms as ops
from stoker.errors import Unsupported

# These change the type of an image and no pixel.
_CONVERSIONS = {"ToTensor", "ToImage", "ToPureTensor", "PILToTensor", "ToImageTensor", "Identity"}


# From these on, an image is a float tensor, which the C++ ops do not take.
_TO_FLOATS = {"ToTensor", "ToDtype", "ConvertImageDtype", "Normalize", "RandomErasing"}


def translate(transform: Any) -> list[ops.Transform]:
    parts = list(_parts(transform))
    try:
        return _translated(parts)
    except Unsupported as error:
        warnings.warn(f"{error}; it runs in Python, in worker processes", ops.KeptInPython, stacklevel=3)
        return _with_rest(parts)


def _with_rest(parts: list[Any]) -> list[ops.Transform]:
    """The ops of the leading parts that have equals and keep pixels from 0 to 255; all others stay in Python.

    These begin with a PIL image, so the conversions among the leading parts are theirs, too.
    """
    translated: list[ops.Transform] = []
    conversions: list[Any] = []
    for at, part in enumerate(parts):
        if type(part).__name__ in _TO_FLOATS:
            break
        if type(part).__name__ in _CONVERSIONS:
            conversions.append(part)
            continue
        try:
            translated += _translated([part])
        except Unsupported:
            break
    return [*translated, ops.InPython(*conversions, *parts[at:])]


def _translated(parts: list[Any]) -> list[ops.Transform]:
    translated: list[ops.Transform] = []
    for part in parts:
        name = type(part).__name__
        if name in ("ToDtype", "ConvertImageDtype"):
            _check_dtype(part)
        elif name == "RandomErasing" and translated and isinstance(translated[-1], ops.Normalize):
            translated.insert(-1, _erasing(part, translated[-1]))
        elif name == "RandomErasing":
            translated.append(_erasing(part, None))
        elif name in _MAKERS:
            translated.append(_MAKERS[name](part))
        elif name not in _CONVERSIONS:
            raise _unsupported(part, "a transform that stoker.transforms has")
    for before in translated[:-1]:
        if isinstance(before, ops.Normalize):
            raise Unsupported(f"[Normalize] expected it as the last transform but RandomErasing, got {translated}")
    return translated


def _parts(transform: Any) -> Iterator[Any]:
    if isinstance(transform, (list, tuple)):
        for part in transform:
            yield from _parts(part)
    elif type(transform).__name__ in ("Compose", "Sequential"):
        yield from _parts(list(getattr(transform, "transforms", None) or transform))
    else:
        yield transform


def _unsupported(part: Any, expected: str) -> Unsupported:
    got = " ".join(repr(part).split())
    return Unsupported(f"[{type(part).__name__}] expected {expected}, got {got}")


def _require(part: Any, condition: bool, expected: str) -> None:
    if not condition:
        raise _unsupported(part, expected)


def _check_dtype(part: Any) -> None:
    dtype = str(getattr(part, "dtype", None)).rpartition(".")[2]
    scales = getattr(part, "scale", True)
    _require(part, dtype in ("float32", "float16", "bfloat16") and scales, "a float type with scale=True")


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


def _smooth(part: Any) -> None:
    mode = getattr(part.interpolation, "value", part.interpolation)
    _require(part, mode in ("bilinear", 2), "interpolation bilinear")
    _require(part, getattr(part, "antialias", True) is not False, "antialias=True")


def _resize(part: Any) -> ops.Transform:
    _smooth(part)
    _require(part, part.size is not None and getattr(part, "max_size", None) is None, "a size without max_size")
    return ops.Resize(_size(part))


def _random_resized_crop(part: Any) -> ops.Transform:
    _smooth(part)
    return ops.RandomResizedCrop(_size(part), part.scale, part.ratio)


def _random_crop(part: Any) -> ops.Transform:
    return ops.RandomCrop(_size(part), part.padding, part.pad_if_needed, _fill(part), part.padding_mode)


def _rotation(part: Any) -> ops.Transform:
    _require(part, not part.expand and part.center is None, "a rotation about the centre without expand")
    return ops.RandomRotation(part.degrees, _mode(part), fill=_fill(part))


def _affine(part: Any) -> ops.Transform:
    _require(part, getattr(part, "center", None) is None, "a transform about the centre")
    return ops.RandomAffine(part.degrees, part.translate, part.scale, part.shear, _mode(part), _fill(part))


def _grayscale(part: Any) -> ops.Transform:
    _require(part, part.num_output_channels == 3, "3 output channels (for one, set channels=1 of the loader)")
    return ops.Grayscale(3)


def _erasing(part: Any, normalize: ops.Normalize | None) -> ops.Transform:
    """With the level that becomes `value` when it is normalised, because the op runs on pixels from 0 to 255."""
    value = part.value
    _require(part, value is not None and value != "random", "a constant value (torchvision's noise is normal)")
    levels = [float(level) for level in (value if isinstance(value, (list, tuple)) else [value])]
    mean, std = ([0.0], [1.0]) if normalize is None else (normalize.options["mean"], normalize.options["std"])
    assert isinstance(mean, list) and isinstance(std, list)
    channels = max(len(levels), len(mean), len(std))
    levels, mean, std = (list(part) * (channels // len(part)) for part in (levels, mean, std))
    pixels = [round(255 * (m + s * level)) for level, m, s in zip(levels, mean, std)]
    _require(part, all(0 <= pixel <= 255 for pixel in pixels), "a value from black to white")
    return ops.RandomErasing(part.p, part.scale, part.ratio, pixels)


_MAKERS: dict[str, Callable[[Any], ops.Transform]] = {
    "AutoAugment": lambda part: ops.AutoAugment(part.policy, _mode(part), _fill(part)),
    "CenterCrop": lambda part: ops.CenterCrop(_size(part)),
    "ColorJitter": lambda part: ops.ColorJitter(part.brightness, part.contrast, part.saturation, part.hue),
    "GaussianBlur": lambda part: ops.GaussianBlur(part.kernel_size, part.sigma),
    "Grayscale": _grayscale,
    "Normalize": lambda part: ops.Normalize(part.mean, part.std),
    "RandAugment": lambda part: ops.RandAugment(
        part.num_ops, part.magnitude, part.num_magnitude_bins, _mode(part), _fill(part)
    ),
    "RandomAdjustSharpness": lambda part: ops.RandomAdjustSharpness(part.sharpness_factor, part.p),
    "RandomAffine": _affine,
    "RandomAutocontrast": lambda part: ops.RandomAutocontrast(part.p),
    "RandomCrop": _random_crop,
    "RandomEqualize": lambda part: ops.RandomEqualize(part.p),
    "RandomGrayscale": lambda part: ops.RandomGrayscale(part.p),
    "RandomHorizontalFlip": lambda part: ops.RandomHorizontalFlip(part.p),
    "RandomInvert": lambda part: ops.RandomInvert(part.p),
    "RandomPosterize": lambda part: ops.RandomPosterize(part.bits, part.p),
    "RandomResizedCrop": _random_resized_crop,
    "RandomRotation": _rotation,
    "RandomSolarize": lambda part: ops.RandomSolarize(part.threshold, part.p),
    "RandomVerticalFlip": lambda part: ops.RandomVerticalFlip(part.p),
    "Resize": _resize,
    "TrivialAugmentWide": lambda part: ops.TrivialAugmentWide(part.num_magnitude_bins, _mode(part), _fill(part)),
}
