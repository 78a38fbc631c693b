"""Writes golden.h: the results of torchvision v2 on small images, for the tests of the ops.

    python tests/ops/golden.py > tests/ops/golden.h
"""

import numpy as np
import torch
import torchvision
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import CutMix, MixUp
from torchvision.transforms.v2 import functional as F

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
    show("kReflect", F.crop(F.pad(rgb, [3, 2, 1, 4], padding_mode="reflect"), 1, 0, 8, 10), "pad 3, 2, 1, 4, crop")
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
