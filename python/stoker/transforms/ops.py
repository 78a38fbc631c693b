"""Image ops with the names and arguments of torchvision.transforms.v2, which the C++ loader runs.

They are descriptions: the loader folds them, decodes only the pixels that they read, and draws their random numbers
from (seed, epoch, sample). docs/recipe.md lists the few differences from torchvision's pixels. Arguments that are no option
of the op, such as `antialias`, are taken with the value that is what the op does.
"""

import enum
from collections.abc import Sequence

from stoker.errors import InvalidArgument
from stoker.transforms.base import Color, Mode, Range, Size, Transform, mode_name, shown


class Resize(Transform):
    """The shorter side gets the length `size`; (height, width) sets both. interpolation: nearest, bilinear, bicubic or
    lanczos, with antialiasing."""

    op = "resize"

    def __init__(
        self,
        size: Size,
        interpolation: Mode = "bilinear",
        max_size: None = None,
        antialias: bool | None = True,
    ) -> None:
        self._has_only("max_size", max_size, None)
        super().__init__(size=size, interpolation=self._resizing(interpolation, antialias))


class CenterCrop(Transform):
    """The middle; black where the image is smaller."""

    op = "center_crop"

    def __init__(self, size: Size) -> None:
        super().__init__(size=size)


class RandomResizedCrop(Transform):
    """A box of a share `scale` of the area and with width / height `ratio`, resized to `size`.

    interpolation: as of Resize, or "random": bilinear or bicubic, drawn for each image, as timm's.
    """

    op = "random_resized_crop"

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: Mode = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        mode = self._resizing(interpolation, antialias, "random")
        super().__init__(size=size, scale=scale, ratio=ratio, interpolation=mode)


class AspectCrop(Transform):
    """The largest box with the aspect ratio of one of several sizes, the nearest to the image's own, resized to that size.

    For Loader(bucket_by="image"). Sides are multiples of `step` (64, 32, 16, ..., whichever divides `size`), no size has
    more pixels than size x size, and the longer side is at most max_ratio times the shorter one. random: the box lies
    anywhere; False: in the centre.
    """

    op = "aspect_crop"

    def __init__(
        self,
        size: int,
        step: int | None = None,
        max_ratio: float = 2.0,
        random: bool = True,
        interpolation: Mode = "bilinear",
    ) -> None:
        mode = self._resizing(interpolation, antialias=True)
        super().__init__(size=size, step=step, max_ratio=max_ratio, random=random, interpolation=mode)


class RandomCrop(Transform):
    """A box of the padded image. padding_mode: constant, edge, reflect or symmetric."""

    op = "random_crop"

    def __init__(
        self,
        size: Size,
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: Color | None = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__(size=size, padding=padding, pad_if_needed=pad_if_needed, fill=fill, padding_mode=padding_mode)


class RandomHorizontalFlip(Transform):
    """Left and right change places."""

    op = "horizontal_flip"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class RandomVerticalFlip(Transform):
    """Top and bottom change places."""

    op = "vertical_flip"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class RandomRotation(Transform):
    """Rotated counter-clockwise about the centre; the size stays. interpolation: nearest or bilinear."""

    op = "random_rotation"

    def __init__(
        self,
        degrees: Range,
        interpolation: Mode = "nearest",
        expand: bool = False,
        center: None = None,
        fill: Color | None = 0,
    ) -> None:
        self._has_only("expand", expand, False)
        self._has_only("center", center, None)
        super().__init__(degrees=degrees, interpolation=self._either(interpolation), fill=fill)


class RandomAffine(Transform):
    """Rotated clockwise, sheared, scaled and shifted about the centre; the size stays."""

    op = "random_affine"

    def __init__(
        self,
        degrees: Range,
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: Range | None = None,
        interpolation: Mode = "nearest",
        fill: Color | None = 0,
        center: None = None,
    ) -> None:
        self._has_only("center", center, None)
        super().__init__(
            degrees=degrees,
            translate=translate,
            scale=scale,
            shear=shear,
            interpolation=self._either(interpolation),
            fill=fill,
        )


class RandomPerspective(Transform):
    """The corners moved towards the centre by up to half of `distortion_scale` of the image; the size stays."""

    op = "random_perspective"

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Mode = "bilinear",
        fill: Color | None = 0,
    ) -> None:
        mode = self._either(interpolation)
        super().__init__(distortion_scale=distortion_scale, p=p, interpolation=mode, fill=fill)


class ElasticTransform(Transform):
    """Each pixel moved by a smooth random field: `alpha` says how far, `sigma` how smooth, each a number or (x, y)."""

    op = "elastic_transform"

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: Mode = "bilinear",
        fill: Color | None = 0,
    ) -> None:
        super().__init__(alpha=alpha, sigma=sigma, interpolation=self._either(interpolation), fill=fill)


class ColorJitter(Transform):
    """Colours changed by random factors in random order."""

    op = "color_jitter"

    def __init__(
        self,
        brightness: Range | None = None,
        contrast: Range | None = None,
        saturation: Range | None = None,
        hue: Range | None = None,
    ) -> None:
        super().__init__(brightness=brightness, contrast=contrast, saturation=saturation, hue=hue)


class Grayscale(Transform):
    """Three equal channels: torchvision's with num_output_channels=3."""

    op = "grayscale"

    def __init__(self, num_output_channels: int = 3) -> None:
        if num_output_channels != 3:
            raise InvalidArgument(
                f"[Grayscale] expected 3 output channels, got {num_output_channels}; for one, set channels=1 of the loader"
            )
        super().__init__()


class RandomGrayscale(Transform):
    """Three equal channels, at random."""

    op = "random_grayscale"

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p=p)


class RandomInvert(Transform):
    """255 - value."""

    op = "random_invert"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class RandomPosterize(Transform):
    """Keeps the upper `bits` of 8 bits."""

    op = "random_posterize"

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(bits=bits, p=p)


class RandomSolarize(Transform):
    """Inverts values from `threshold` (0 to 255) on."""

    op = "random_solarize"

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(threshold=threshold, p=p)


class RandomEqualize(Transform):
    """Equalizes the histogram of each channel."""

    op = "random_equalize"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class RandomAutocontrast(Transform):
    """Stretches each channel to 0 ... 255."""

    op = "random_autocontrast"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class RandomAdjustSharpness(Transform):
    """0: smooth, 1: unchanged, 2: sharper."""

    op = "random_adjust_sharpness"

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(sharpness_factor=sharpness_factor, p=p)


class GaussianBlur(Transform):
    """kernel_size: in pixels, odd, or (x, y); sigma: in pixels, or (low, high)."""

    op = "gaussian_blur"

    def __init__(self, kernel_size: int | Sequence[int], sigma: Range = (0.1, 2.0)) -> None:
        super().__init__(kernel_size=kernel_size, sigma=sigma)


class TrivialAugmentWide(Transform):
    """One of fourteen ops with a random strength."""

    op = "trivial_augment_wide"

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Mode = "nearest", fill: Color | None = None
    ) -> None:
        mode = self._either(interpolation)
        super().__init__(num_magnitude_bins=num_magnitude_bins, interpolation=mode, fill=fill)


class RandAugment(Transform):
    """`num_ops` of fourteen ops, each with the strength `magnitude` of `num_magnitude_bins`."""

    op = "rand_augment"

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Mode = "nearest",
        fill: Color | None = None,
    ) -> None:
        super().__init__(
            num_ops=num_ops,
            magnitude=magnitude,
            num_magnitude_bins=num_magnitude_bins,
            interpolation=self._either(interpolation),
            fill=fill,
        )


class AutoAugment(Transform):
    """One of 25 pairs of ops that were found for "imagenet", "cifar10" or "svhn"."""

    op = "auto_augment"

    def __init__(
        self, policy: str | enum.Enum = "imagenet", interpolation: Mode = "nearest", fill: Color | None = None
    ) -> None:
        super().__init__(policy=policy, interpolation=self._either(interpolation), fill=fill)


class TimmRandAugment(Transform):
    """timm's RandAugment, as "rand-m9-mstd0.5-inc1": `num_ops` of fifteen ops, each with the probability `p`.

    magnitude: 10 is an op's whole range. magnitude_std: its standard deviation; above 100 it is uniform from 0 to
    `magnitude`. increasing: a larger magnitude always changes more. interpolation: also "bicubic"; "random" is bilinear or
    bicubic, drawn for each op.
    """

    op = "timm_rand_augment"

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: float = 10,
        magnitude_std: float = 0,
        max_magnitude: float = 10,
        increasing: bool = False,
        p: float = 0.5,
        interpolation: Mode = "random",
        fill: Color | None = None,
    ) -> None:
        self._has_only("interpolation", mode_name(interpolation), "random", "bilinear", "bicubic", "nearest")
        super().__init__(
            num_ops=num_ops,
            magnitude=magnitude,
            magnitude_std=magnitude_std,
            max_magnitude=max_magnitude,
            increasing=increasing,
            p=p,
            interpolation=mode_name(interpolation),
            fill=fill,
        )


class RandomApply(Transform):
    """All of the ops with the probability `p`, or none. Ops that change the size, and Normalize, are refused."""

    op = "random_apply"

    def __init__(self, transforms: Sequence[Transform], p: float = 0.5) -> None:
        given = list(transforms)
        self._text = f"RandomApply({given}, p={shown(p)})"
        if len(given) == 1 and given[0].op in _WITH_PROBABILITY:  # the op's own `p` is enough, on a GPU as well
            (only,) = given
            own = only.options.get("p", _WITH_PROBABILITY[only.op])
            super().__init__(**{**only.options, "p": p * float(own)})  # type: ignore[arg-type]
            self.op = only.op
        else:
            super().__init__(ops=given, p=p)

    def __repr__(self) -> str:
        return self._text


class RandomChoice(Transform):
    """One of the ops, drawn with the weights `p`; without them each is as likely. Ops that change the size, and
    Normalize, are refused."""

    op = "random_choice"

    def __init__(self, transforms: Sequence[Transform], p: Sequence[float] | None = None) -> None:
        super().__init__(ops=list(transforms), p=p)


class RandomErasing(Transform):
    """Fills a box of a share `scale` of the area and with height / width `ratio`.

    `value` is a level from 0 to 255, because this op runs before Normalize; "random" is uniform noise. `inplace` makes
    no difference here.
    """

    op = "random_erasing"

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Color | str = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p=p, scale=scale, ratio=ratio, value=value)


class ToFloat(Transform):
    """Makes the image one of float32. scale: whole numbers are divided by the type's largest, as torchvision's
    ToDtype(torch.float32, scale=True) does; False keeps the stored values."""

    op = "to_float"

    def __init__(self, scale: bool = True) -> None:
        super().__init__(scale=scale)


class Window(Transform):
    """Makes the image one of float32: stored values from center - width / 2 to center + width / 2 become 0 to 1, and
    others are clipped, as for computed tomography."""

    op = "window"

    def __init__(self, center: float, width: float) -> None:
        super().__init__(center=center, width=width)


class Normalize(Transform):
    """(pixel / largest - mean) / std: one number for each channel, or one for all; `largest` is 255 of uint8, 65535 of
    uint16, 32767 of int16 and 1 of floats. The last op. `inplace` makes no difference here."""

    op = "normalize"

    def __init__(self, mean: Range, std: Range, inplace: bool = False) -> None:
        super().__init__(mean=mean, std=std)


class NormalizeRange(Transform):
    """Maps the image's smallest and largest value to 0 and 1, or its values at two percentiles, as (1, 99), beyond which
    values are clipped. channel_wise: each channel by its own. The last op."""

    op = "normalize_range"

    def __init__(self, percentiles: Sequence[float] | None = None, channel_wise: bool = False) -> None:
        super().__init__(percentiles=percentiles, channel_wise=channel_wise)


# The ops that are applied at random, and their probability without `p`.
_WITH_PROBABILITY = {
    "color_jitter": 1.0, "gaussian_blur": 1.0, "random_rotation": 1.0, "random_affine": 1.0, "elastic_transform": 1.0,
    "random_perspective": 0.5, "horizontal_flip": 0.5, "vertical_flip": 0.5, "random_grayscale": 0.1, "random_invert": 0.5, "random_posterize": 0.5,
    "random_solarize": 0.5, "random_equalize": 0.5, "random_autocontrast": 0.5, "random_adjust_sharpness": 0.5,
}  # fmt: skip
