"""Transforms that tests name in recipes."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def invert(image: tf.Tensor, seed: tf.Tensor, training: bool) -> tf.Tensor:
    """Negative of a picture, or of a batch."""
    return 255 - image


def brighten(image: tf.Tensor, seed: tf.Tensor, training: bool) -> tf.Tensor:
    """Adds a random amount in training."""
    if not training:
        return image
    amount = tf.random.stateless_uniform([], seed, 0, 100, tf.int32)
    return tf.cast(tf.minimum(tf.cast(image, tf.int32) + amount, 255), tf.uint8)


def brighten_batch(images: tf.Tensor, seeds: tf.Tensor, training: bool) -> tf.Tensor:
    """The same for a batch."""
    return tf.map_fn(lambda pair: brighten(*pair, training), (images, seeds), fn_output_signature=tf.uint8)


def in_python(image: tf.Tensor, seed: tf.Tensor, training: bool) -> tf.Tensor:
    """Negative by NumPy, under the interpreter's lock."""
    result = tf.numpy_function(lambda pixels: np.subtract(255, pixels, dtype=np.uint8), [image], tf.uint8)
    return tf.ensure_shape(result, image.shape)


def widen(image: tf.Tensor, seed: tf.Tensor, training: bool) -> tf.Tensor:
    """Returns floats, which a transform may not."""
    return tf.cast(image, tf.float32)


def shrink(image: tf.Tensor, seed: tf.Tensor, training: bool) -> tf.Tensor:
    """Returns another size, which a transform may not."""
    return image[..., :-1, :, :]
