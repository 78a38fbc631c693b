"""tf.data: shape from the header, decode_and_crop_jpeg, bilinear resize (not antialiased, its default), in a thread
pool of its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from protocol import MEAN, RATIO, SCALE, STD, Opened, Task, images_of, serve


def prepare(task: Task) -> Opened:
    return Opened(task.data, images_of(task.data))


def batches(task: Task, data: tuple[list[str], list[int]]) -> Iterator[np.ndarray]:
    factor, offset = tf.constant(1 / (255 * STD)), tf.constant(-MEAN / STD)

    def load(path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        content = tf.io.read_file(path)
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(content),
            bounding_boxes=tf.zeros([1, 0, 4]),
            use_image_if_no_bounding_boxes=True,
            min_object_covered=0,
            area_range=SCALE,
            aspect_ratio_range=RATIO,
            max_attempts=10,
        )
        window = tf.concat([begin[:2], extent[:2]], axis=0)
        image = tf.image.decode_and_crop_jpeg(content, window, channels=3)
        image = tf.image.resize(image, [task.size, task.size])
        image = tf.image.random_flip_left_right(image)
        return tf.transpose(image * factor + offset, [2, 0, 1]), label

    options = tf.data.Options()
    options.threading.private_threadpool_size = task.workers
    options.deterministic = False
    dataset = (
        tf.data.Dataset.from_tensor_slices(data)
        .shuffle(len(data[0]))
        .repeat()
        .map(load, num_parallel_calls=task.workers)
        .batch(task.batch, drop_remainder=True)
        .prefetch(2)
        .with_options(options)
    )
    for images, _ in dataset:
        yield images.numpy()


serve(prepare, batches)
