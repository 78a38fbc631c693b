# Photographs in TFRecord shards: stoker.Loader against tf.data, interleaved, two workers each. With decoding
# (random resized crop to 224, flip, normalise), and the bytes of the images alone.
# Run from the root, with TensorFlow installed:
#   PYTHONPATH=build/release/python python bench/tfrecord.py ../shared/data/photos [rounds]
import os
import statistics
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import stoker
import tensorflow as tf
from second_epoch import rate
from stoker import transforms

COUNT, SHARDS, BATCH, WORKERS, SIZE = 1000, 4, 64, 2, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCHEMA = {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)}


def write(photos, folder):
    """The photographs again and again, until there are enough."""
    files = sorted(path for path in Path(photos).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    classes = sorted({path.parent.name for path in files})
    writers = [tf.io.TFRecordWriter(str(folder / f"photos-{i:05}-of-{SHARDS:05}")) for i in range(SHARDS)]
    for number, path in enumerate(islice(cycle(files), COUNT)):
        image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[path.read_bytes()]))
        label = tf.train.Feature(int64_list=tf.train.Int64List(value=[classes.index(path.parent.name)]))
        features = tf.train.Features(feature={"image/encoded": image, "image/class/label": label})
        writers[number % SHARDS].write(tf.train.Example(features=features).SerializeToString())
    for writer in writers:
        writer.close()
    return folder / f"photos-*-of-{SHARDS:05}"


def random_crop(record):
    """As the input pipelines of TensorFlow's ImageNet models: only the crop is decoded."""
    sample = tf.io.parse_single_example(record, SCHEMA)
    shape = tf.io.extract_jpeg_shape(sample["image/encoded"])
    whole = tf.constant([0.0, 0.0, 1.0, 1.0], shape=[1, 1, 4])
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        shape, whole, min_object_covered=0, aspect_ratio_range=(3 / 4, 4 / 3), area_range=(0.08, 1), max_attempts=10,
        use_image_if_no_bounding_boxes=True)
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.image.decode_and_crop_jpeg(sample["image/encoded"], window, channels=3)
    image = tf.image.random_flip_left_right(tf.image.resize(image, (SIZE, SIZE)))
    return (image / 255 - MEAN) / STD, sample["image/class/label"]


def bytes_alone(record):
    sample = tf.io.parse_single_example(record, SCHEMA)
    return sample["image/encoded"], sample["image/class/label"]


def theirs(data, read):
    shards = tf.data.Dataset.list_files(str(data), shuffle=True)
    records = tf.data.TFRecordDataset(shards, num_parallel_reads=WORKERS).shuffle(COUNT)
    options = tf.data.Options()
    options.threading.private_threadpool_size = WORKERS
    return records.map(read, num_parallel_calls=WORKERS).batch(BATCH).prefetch(2).with_options(options)


def ours(data):
    ops = [transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip(), transforms.Normalize(MEAN, STD)]
    return stoker.Loader(data, BATCH, ops=ops, workers=WORKERS, framework="numpy")


def our_bytes(data):
    records = stoker.open(data, fields={"jpeg": ("image/encoded", "bytes")})
    return stoker.Loader(records, BATCH, workers=WORKERS, framework="numpy")


def compare(name, loaders, rounds):
    rates = {side: [] for side in loaders}
    for _ in range(rounds):
        for side, make in loaders.items():
            rates[side].append(rate(make(), COUNT))
        print(name, ", ".join(f"{side} {found[-1]:.0f}" for side, found in rates.items()), "images/s", flush=True)
    shares = [a / b for a, b in zip(rates["stoker"], rates["tf.data"])]
    print(f"{name}: stoker / tf.data: median {statistics.median(shares):.2f}x", flush=True)


def main(photos, rounds=7):
    tf.config.threading.set_inter_op_parallelism_threads(WORKERS)
    with tempfile.TemporaryDirectory() as scratch:
        data = write(photos, Path(scratch))
        compare("decoded", {"tf.data": lambda: theirs(data, random_crop), "stoker": lambda: ours(data)}, int(rounds))
        compare("bytes", {"tf.data": lambda: theirs(data, bytes_alone), "stoker": lambda: our_bytes(data)}, int(rounds))


if __name__ == "__main__":
    main(*sys.argv[1:])
