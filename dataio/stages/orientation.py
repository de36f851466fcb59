"""EXIF orientation: boxes from upright to stored coordinates, and cut-out pixels from stored to upright.

Source: EXIF 2.32, tag 0x0112: the value says where the stored picture's first row and column are in the upright
one. As index arithmetic: rows are reversed for 3, 4, 6, 7, columns for 2, 3, 7, 8, and then 5 to 8 are transposed.
Cutting before turning gives the same pixels as turning before cutting, at the cost of the box alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

#: By orientation 0..8 (0 and 1: upright).
TRANSPOSED = np.array([False, False, False, False, False, True, True, True, True])
ROWS_REVERSED = np.array([False, False, False, True, True, False, True, True, False])
COLUMNS_REVERSED = np.array([False, False, True, True, False, False, False, True, True])


def upright_size(orientation: np.ndarray, height: np.ndarray, width: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(height, width) of the upright pictures, int64[batch] each, from the stored ones."""
    turned = TRANSPOSED[orientation]
    return np.where(turned, width, height), np.where(turned, height, width)


def stored_boxes(boxes: np.ndarray, orientation: np.ndarray, height: np.ndarray, width: np.ndarray) -> np.ndarray:
    """int64[batch, 4]: the boxes (top, left, height, width) of the upright pictures in stored coordinates.

    Args:
        boxes: int64[batch, 4] in the upright picture.
        orientation: int64[batch], 0..8.
        height: int64[batch], pixels as stored.
        width: likewise.
    """
    boxes = np.where(TRANSPOSED[orientation][:, None], boxes[:, [1, 0, 3, 2]], boxes)
    top = np.where(ROWS_REVERSED[orientation], height - boxes[:, 0] - boxes[:, 2], boxes[:, 0])
    left = np.where(COLUMNS_REVERSED[orientation], width - boxes[:, 1] - boxes[:, 3], boxes[:, 1])
    return np.stack([top, left, boxes[:, 2], boxes[:, 3]], axis=-1)


def turn_upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """The stored pixels [height, width, channels] turned upright: a view, nothing is copied."""
    if ROWS_REVERSED[orientation]:
        pixels = pixels[::-1]
    if COLUMNS_REVERSED[orientation]:
        pixels = pixels[:, ::-1]
    return pixels.transpose(1, 0, 2) if TRANSPOSED[orientation] else pixels


def upright_size_in_graph(orientation: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """`upright_size` as TensorFlow ops, on scalars or batches."""
    import tensorflow as tf

    turned = orientation >= 5
    return tf.where(turned, width, height), tf.where(turned, height, width)


def stored_boxes_in_graph(boxes: tf.Tensor, orientation: tf.Tensor, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """`stored_boxes` as TensorFlow ops: int64[..., 4]."""
    import tensorflow as tf

    top, left, tall, wide = tf.unstack(boxes, axis=-1)
    turned = orientation >= 5
    top, left = tf.where(turned, left, top), tf.where(turned, top, left)
    tall, wide = tf.where(turned, wide, tall), tf.where(turned, tall, wide)
    top = tf.where(tf.gather(ROWS_REVERSED, orientation), height - top - tall, top)
    left = tf.where(tf.gather(COLUMNS_REVERSED, orientation), width - left - wide, left)
    return tf.stack([top, left, tall, wide], axis=-1)


def turn_upright_in_graph(pixels: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """`turn_upright` as TensorFlow ops on one picture; upright pictures pass through untouched."""
    import tensorflow as tf

    def turn() -> tf.Tensor:
        turned = tf.cond(tf.gather(ROWS_REVERSED, orientation), lambda: tf.reverse(pixels, [0]), lambda: pixels)
        turned = tf.cond(tf.gather(COLUMNS_REVERSED, orientation), lambda: tf.reverse(turned, [1]), lambda: turned)
        return tf.cond(orientation >= 5, lambda: tf.transpose(turned, [1, 0, 2]), lambda: turned)

    return tf.cond(orientation > 1, turn, lambda: pixels)
