"""The sample's way with OpenCV and NumPy, for the peers that leave decoding to their user. OpenCV does not antialias
with INTER_LINEAR, which is its default and the fastest."""

from __future__ import annotations

import math
import random

import cv2
import numpy as np

from protocol import MEAN, RATIO, SCALE, STD

cv2.setNumThreads(0)  # the loader's workers are the parallelism
FACTOR = 1 / (255 * STD)
OFFSET = -MEAN / STD


def random_crop(height: int, width: int) -> tuple[int, int, int, int]:
    """Top, left, height, width, drawn as torchvision's RandomResizedCrop draws them."""
    for _ in range(10):
        area = height * width * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, height - h), random.randint(0, width - w), h, w
    ratio = min(max(width / height, RATIO[0]), RATIO[1])
    w, h = min(width, round(height * ratio)), min(height, round(width / ratio))
    return (height - h) // 2, (width - w) // 2, h, w


def load(content: bytes, size: int) -> np.ndarray:
    """An encoded image to float32 (3, size, size)."""
    image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    top, left, height, width = random_crop(*image.shape[:2])
    image = cv2.resize(image[top : top + height, left : left + width], (size, size), interpolation=cv2.INTER_LINEAR)
    if random.random() < 0.5:
        image = cv2.flip(image, 1)
    out = np.empty((3, size, size), np.float32)
    for channel, plane in enumerate(reversed(cv2.split(image))):  # BGR to RGB
        np.multiply(plane, FACTOR[channel], out=out[channel])
        out[channel] += OFFSET[channel]
    return out


def load_file(path: str, size: int) -> np.ndarray:
    with open(path, "rb") as file:
        return load(file.read(), size)
