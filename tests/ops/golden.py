"""Writes golden.h: the results of torchvision v2 on small images, for the tests of the ops.

    python tests/ops/golden.py > tests/ops/golden.h
"""

import numpy as np
from PIL import Image
import torch
import torchvision
from torchvision.transforms import InterpolationMode
from torchvision.transforms import AutoAugmentPolicy
from torchvision.transforms.v2 import AutoAugment, CutMix, MixUp, RandAugment
from torchvision.transforms.v2 import functional as F
from torchvision.tv_tensors import BoundingBoxes, Mask

HEIGHT, WIDTH = 6, 7
HEAD = """#pragma once

#include <cstdint>

#include "stoker/base/image.h"

namespace stoker::testing {

inline Image pattern(int height, int width, int channels) {
    Image image(height, width, channels);
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            for (int c = 0; c < channels; ++c) {
                const int value = y * 37 + x * 59 + c * 101 + y * x % 7 * 16;
                image.view().row(y)[x * channels + c] = static_cast<std::uint8_t>(value % 256);
            }
        }
    }
    return image;
}

// clang-format off
"""


def image(height, width, channels):
    """The same formula as pattern() below."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    return torch.from_numpy(((y * 37 + x * 59 + c * 101 + y * x % 7 * 16) % 256).astype(np.uint8)).permute(2, 0, 1)


def lines(values, size=24):
    return ",\n    ".join(", ".join(values[i : i + size]) for i in range(0, len(values), size))


def show(name, tensor, comment):
    values = [str(int(v)) for v in tensor.permute(1, 2, 0).contiguous().flatten()]
    print(f"// {comment}\ninline constexpr std::uint8_t {name}[] = {{\n    {lines(values)}}};\n")


def show_floats(name, tensor, comment):
    values = [f"{float(v):.9g}f" if "." in f"{float(v):.9g}" else f"{float(v):.1f}f" for v in tensor.flatten()]
    print(f"// {comment}\ninline constexpr float {name}[] = {{\n    {lines(values, 8)}}};\n")


def jittered(source):
    source = F.adjust_hue(source, -0.2)
    source = F.adjust_contrast(source, 1.4)
    source = F.adjust_brightness(source, 0.9)
    return F.adjust_saturation(source, 1.3)


AUGMENT_OPS = [*RandAugment._AUGMENTATION_SPACE, "Invert"]


def show_augmentations():
    space = RandAugment._AUGMENTATION_SPACE
    names = ["ShearY", "TranslateX", "TranslateY", "Rotate", "Color", "Posterize", "Solarize"]
    magnitudes = [float(v) for name in names for v in space[name][0](31, 224, 300)]
    show_floats("kMagnitudes", torch.tensor(magnitudes), f"RandAugment of (224, 300), 31 bins: {', '.join(names)}")
    steps = [
        (AUGMENT_OPS.index(name), probability, bin or 0)
        for policy in (AutoAugmentPolicy.IMAGENET, AutoAugmentPolicy.CIFAR10, AutoAugmentPolicy.SVHN)
        for pair in AutoAugment(policy)._policies
        for name, probability, bin in pair
    ]
    show_floats("kPolicies", torch.tensor(steps), "AutoAugment: imagenet, cifar10, svhn; op, probability, bin")


def show_boxes():
    """Boxes of an image of 60 x 80: the whole, fractions, a corner, a point, and one that reaches outside."""
    corners = [[0, 0, 80, 60], [10.25, 20.5, 30.125, 40.75], [79.9, 59.1, 80, 60], [5, 5, 5, 5], [-3, 1.1, 77.7, 63.3]]
    boxes = BoundingBoxes(torch.tensor(corners), format="XYXY", canvas_size=(60, 80))
    move = {"angle": 17.3, "translate": [3, -5], "scale": 0.83, "shear": [11.0, -7.0]}
    show_floats("kBoxes", boxes, "x1, y1, x2, y2 in an image of 60 x 80")
    show_floats("kBoxesCropped", F.crop(boxes, 7, 9, 31, 41), "crop, top 7, left 9, 31 x 41")
    padded = F.crop(F.pad(boxes, [4, 3, 2, 1]), 2, 1, 62, 82)
    show_floats("kBoxesPadded", padded, "pad left 4, top 3, right 2, bottom 1; crop, top 2, left 1, 62 x 82")
    show_floats("kBoxesResized", F.resize(boxes, [224, 33]), "resize to 224 x 33")
    show_floats("kBoxesResizedCrop", F.resized_crop(boxes, 7, 9, 31, 41, [224, 224]), "the crop, resized to 224 x 224")
    show_floats("kBoxesFlipped", F.horizontal_flip(boxes), "horizontal_flip")
    show_floats("kBoxesUpsideDown", F.vertical_flip(boxes), "vertical_flip")
    show_floats("kBoxesMoved", F.affine(boxes, **move), "affine, angle 17.3, shift 3, -5, scale 0.83, shear 11, -7")
    show_floats("kBoxesTurned", F.rotate(boxes, 33), "rotate by 33 degrees")
    show_floats("kBoxesTurnedBack", F.rotate(boxes, -90), "rotate by -90 degrees")


def show_masks():
    mask = Mask(image(13, 17, 1))
    line = Mask(torch.arange(250, dtype=torch.uint8).reshape(1, 1, 250))
    show("kMaskSmaller", F.resize(mask, [7, 9]), "resize of the mask pattern(13, 17, 1) to 7 x 9")
    show("kMaskLarger", F.resize(mask, [29, 20]), "resize of the mask to 29 x 20")
    show("kLineLarger", F.resize(line, [1, 333]), "resize of the mask 0, 1, ... 249 to 1 x 333")
    show("kLineSmaller", F.resize(line, [1, 187]), "resize of that mask to 1 x 187")


def main():
    rgb = image(HEIGHT, WIDTH, 3)
    gray = image(16, 17, 1)
    bilinear = InterpolationMode.BILINEAR
    print("// Written by golden.py with torchvision", torchvision.__version__.split("+")[0] + ". Do not edit.")
    print("// Inputs are pattern(6, 7, 3) unless stated otherwise.")
    print(HEAD)
    show("kBrightness", F.adjust_brightness(rgb, 1.5), "adjust_brightness 1.5")
    show("kContrast", F.adjust_contrast(rgb, 0.5), "adjust_contrast 0.5")
    show("kSaturation", F.adjust_saturation(rgb, 1.75), "adjust_saturation 1.75")
    show("kHue", F.adjust_hue(rgb, 0.375), "adjust_hue 0.375")
    show("kJitter", jittered(rgb), "hue -0.2, contrast 1.4, brightness 0.9, saturation 1.3, in this order")
    show("kGray", F.rgb_to_grayscale(rgb, 3), "rgb_to_grayscale")
    show("kPosterize", F.posterize(rgb, 3), "posterize, 3 bits")
    show("kSolarize", F.solarize(rgb, 100.5), "solarize, threshold 100.5")
    show("kAutocontrast", F.autocontrast(rgb // 3 + 40), "autocontrast of pattern / 3 + 40")
    show("kEqualize", F.equalize(gray // 2), "equalize of pattern(16, 17, 1) / 2")
    show("kSharp", F.adjust_sharpness(rgb, 1.5), "adjust_sharpness 1.5")
    show("kSmooth", F.adjust_sharpness(rgb, 0.25), "adjust_sharpness 0.25")
    show("kRotate", F.rotate(rgb, 33, fill=[9, 99, 199]), "rotate by 33 degrees, nearest, fill 9, 99, 199")
    show("kRotateBilinear", F.rotate(rgb, 33, bilinear, fill=[9, 99, 199]), "rotate by 33 degrees, bilinear, same fill")
    show(
        "kShear",
        F.affine(rgb, 0, [0, 0], 1, [25, 0], bilinear, center=[0, 0]),
        "affine, shear 25 degrees in x about the top left corner, bilinear, no fill",
    )
    corners = [[[0, 0], [6, 0], [6, 5], [0, 5]], [[1, 0], [5, 1], [6, 5], [0, 4]]]
    show("kPerspective", F.perspective(rgb, *corners, fill=[9, 99, 199]), "perspective to (1, 0), (5, 1), (6, 5), (0, 4)")
    y, x = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
    field = torch.stack([(x * 3 + y) % 5 * 0.125 - 0.25, (x + y * 2) % 3 * 0.25 - 0.25], -1)[None]
    show("kElastic", F.elastic(rgb, field, fill=[9, 99, 199]), "elastic, (3x + y) % 5 / 8 - 1/4, (x + 2y) % 3 / 4 - 1/4")
    show(
        "kShearBicubic",
        F.to_image(F.to_pil_image(rgb).transform((WIDTH, HEIGHT), Image.AFFINE, (1, 0.3, 0, 0, 1, 0), Image.BICUBIC)),
        "Pillow's affine transform with the matrix 1, 0.3, 0, 0, 1, 0, bicubic",
    )
    show(
        "kShiftBicubic",
        F.to_image(F.to_pil_image(rgb).transform((WIDTH, HEIGHT), Image.AFFINE, (1, 0, -1.3, 0, 1, 0), Image.BICUBIC)),
        "Pillow's affine transform with the matrix 1, 0, -1.3, 0, 1, 0, bicubic",
    )
    show("kReflect", F.crop(F.pad(rgb, [3, 2, 1, 4], padding_mode="reflect"), 1, 0, 8, 10), "pad 3, 2, 1, 4, crop")
    show(
        "kMoved",
        F.affine(rgb, 17.3, [1, -2], 0.83, [11.0, -7.0], bilinear, fill=[9, 99, 199]),
        "affine, angle 17.3, shift 1, -2, scale 0.83, shear 11, -7, bilinear, fill 9, 99, 199",
    )
    show("kBlur", F.gaussian_blur(rgb, [5, 3], [1.3, 1.3]), "gaussian_blur, kernel 5 (x), 3 (y), sigma 1.3")
    show_augmentations()
    show_boxes()
    show_masks()
    batch = torch.arange(3 * 2 * 2 * 3, dtype=torch.float32).reshape(3, 2, 2, 3) ** 2 / 10
    labels = torch.tensor([1, 0, 1])
    mixup = MixUp(num_classes=3)
    show_floats("kMixup", mixup.transform(batch, {"lam": 0.3, "labels": labels, "batch_size": 3}), "(3, 2, 2, 3), 0.3")
    show_floats("kMixupTargets", mixup._mixup_label(labels, lam=0.3), "labels 1, 0, 1 of 3 classes, lambda 0.3")
    cutmix = CutMix(num_classes=3)
    params = {"box": (1, 0, 3, 1), "lam_adjusted": 2 / 3, "labels": labels, "batch_size": 3}
    show_floats("kCutmix", cutmix.transform(batch, params), "(3, 2, 2, 3), row 0, columns 1 and 2")
    print("// clang-format on\n\n}  // namespace stoker::testing")


if __name__ == "__main__":
    main()
