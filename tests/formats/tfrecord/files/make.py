"""Writes the shards of this folder with TensorFlow 2.21, and those of tensorflow-1.15 with that release. The samples are
those that expected() of tests/python/test_format_tfrecord.py describes, and tests/formats/tfrecord/tfrecord_test.cpp.

    python tests/formats/tfrecord/files/make.py [FOLDER]
"""

import io
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent


def png(number: int) -> bytes:
    out = io.BytesIO()
    row, column = np.mgrid[:5, :7]
    Image.fromarray(((row * 40 + column * 3 + number) % 256).astype(np.uint8)).save(out, "png")
    return out.getvalue()


def integers(*values: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(*values: float) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def texts(*values: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(number: int) -> bytes:
    """Boxes as those of object detection: fractions of the image's sides."""
    boxes = [k / 8 for k in range(number % 3)]
    features = {
        "image/encoded": texts(png(number)),
        "image/class/label": integers(number % 3),
        "image/class/text": texts(f"class {number % 3}".encode()),
        "image/height": integers(5),
        "image/width": integers(7),
        "image/object/bbox/xmin": floats(*boxes),
        "image/object/bbox/ymin": floats(*(k / 2 for k in boxes)),
        "image/object/bbox/xmax": floats(*(k + 0.5 for k in boxes)),
        "image/object/bbox/ymax": floats(*(k + 0.25 for k in boxes)),
        "image/object/class/label": integers(*range(number % 3)),
        "score": floats(number / 4),
        "position": floats(number, -number, 1.5),
        "tokens": integers(*range(-1, number)),
        "several": texts(b"one", b"two"),
        "empty": tf.train.Feature(),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write(name: str, numbers: range, compression: str = "") -> None:
    with tf.io.TFRecordWriter(str(FOLDER / name), tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for number in numbers:
            writer.write(example(number))


def write_sequence() -> None:
    steps = tf.train.FeatureLists(feature_list={"steps": tf.train.FeatureList(feature=[integers(1), integers(2)])})
    context = tf.train.Features(feature={"label": integers(1)})
    with tf.io.TFRecordWriter(str(FOLDER / "sequence.tfrecord")) as writer:
        writer.write(tf.train.SequenceExample(context=context, feature_lists=steps).SerializeToString())


if __name__ == "__main__":
    write("plain-00000-of-00002", range(4))
    write("plain-00001-of-00002", range(4, 6))
    write("gzip.tfrecord", range(6), "GZIP")
    write("zlib.tfrecord", range(6), "ZLIB")
    write_sequence()
