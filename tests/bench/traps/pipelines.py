"""A pipeline without any trap, in parts that tests replace."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from dataio.bench.traps import Surroundings, find_traps

#: A machine of 4 cores and 8 GB, so that findings do not depend on where the tests run.
MACHINE = Surroundings(memory_bytes=8 * 10**9, cores=4)

JPEG = tf.io.encode_jpeg(np.zeros([16, 16, 3], np.uint8)).numpy()


def names_of(dataset: tf.data.Dataset, surroundings: Surroundings = MACHINE) -> list[str]:
    """Names of the traps in `dataset`."""
    return [trap.name for trap in find_traps(dataset, surroundings)]


def encoded(count: int = 64) -> tf.data.Dataset:
    """Encoded pictures."""
    return tf.data.Dataset.from_tensor_slices([JPEG] * count)


def decode(picture: tf.Tensor) -> tf.Tensor:
    """A decoded, resized picture."""
    return tf.image.resize(tf.io.decode_jpeg(picture, channels=3), (8, 8))


def flip(image: tf.Tensor) -> tf.Tensor:
    """A picture that is mirrored now and then."""
    return tf.image.random_flip_left_right(image)


def pictures() -> tf.data.Dataset:
    """Decoded pictures, one at a time."""
    return encoded().map(decode, num_parallel_calls=tf.data.AUTOTUNE)


def good() -> tf.data.Dataset:
    """The whole way as the performance guide has it."""
    records = encoded().cache().shuffle(1000)
    finished = records.map(lambda one: flip(decode(one)), num_parallel_calls=tf.data.AUTOTUNE)
    return finished.batch(8).prefetch(tf.data.AUTOTUNE)
