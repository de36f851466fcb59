"""Decoded pixels as cached records: JPEGs decoded once, and taken out of the cache again.

In a file, pixels of any size are kept as one string each (a serialised tensor), so that records of different sizes can
be written in blocks and batched like encoded ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dataio.stages.decoding import DCT_METHOD

if TYPE_CHECKING:
    import tensorflow as tf


def decode_pixels(record: dict[str, tf.Tensor], encoding: str) -> dict[str, tf.Tensor]:
    """A record whose `image` is uint8[height, width, 3].

    Args:
        record: one record as `Data.records` gives it.
        encoding: of its image, `jpeg` or `png`.
    """
    import tensorflow as tf

    if encoding == "jpeg":
        pixels = tf.io.decode_jpeg(record["image"], channels=3, dct_method=DCT_METHOD)
    else:
        pixels = tf.io.decode_image(record["image"], channels=3, expand_animations=False)
    return record | {"image": tf.ensure_shape(pixels, [None, None, 3])}


def pack_pixels(record: dict[str, tf.Tensor], encoding: str) -> dict[str, tf.Tensor]:
    """A record whose `image` is string[]: its decoded pixels, serialised. Arguments as of `decode_pixels`."""
    import tensorflow as tf

    decoded = decode_pixels(record, encoding)
    return decoded | {"image": tf.io.serialize_tensor(decoded["image"])}


def unpack_pixels_in_graph(record: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The record with `image` uint8[height, width, 3] again."""
    import tensorflow as tf

    pixels = tf.io.parse_tensor(record["image"], tf.uint8)
    return record | {"image": tf.ensure_shape(pixels, [None, None, 3])}


def unpack_pixels(packed: bytes, height: int, width: int) -> np.ndarray:
    """uint8[height, width, 3]: a view into `packed`; nothing is copied.

    Source: TensorFlow's tensor.proto: `tensor_content` has the highest field number of those that are set, and
    protocol buffers write fields in the order of their numbers, so the pixels are the string's end.
    """
    count = height * width * 3
    return np.frombuffer(packed, np.uint8, count, offset=len(packed) - count).reshape(height, width, 3)
