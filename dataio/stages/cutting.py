"""Ways to get the pixels of a box out of what a batch of records holds, for the batch kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dataio.stages.decoding import DCT_METHOD
from dataio.stages.pixel_store import PixelStore, decode_by_tensorflow
from dataio.stages.unpacking import unpack_pixels

#: Decodes picture `i` of a batch and cuts its box: (position, box as top, left, height, width) to uint8[h, w, 3].
Cut = Callable[[int, list[int]], np.ndarray]


def cut_pixels(images: np.ndarray) -> Cut:
    """Cuts uint8[batch, height, width, 3]; nothing is copied."""

    def cut(i: int, box: list[int]) -> np.ndarray:
        top, left, tall, wide = box
        return images[i, top : top + tall, left : left + wide]

    return cut


def cut_packed(images: np.ndarray, height: np.ndarray, width: np.ndarray) -> Cut:
    """Cuts pictures of any size that were decoded before; nothing is copied.

    Args:
        images: object[batch] of packed pixels.
        height: int64[batch], pixels as stored.
        width: likewise.
    """
    heights, widths = height.tolist(), width.tolist()

    def cut(i: int, box: list[int]) -> np.ndarray:
        top, left, tall, wide = box
        return unpack_pixels(images[i], heights[i], widths[i])[top : top + tall, left : left + wide]

    return cut


def cut_kept(places: np.ndarray, store: PixelStore) -> Cut:
    """Cuts pictures that lie in a store; nothing is copied.

    Args:
        places: int64[batch].
        store: has them all.
    """
    wanted = places.tolist()

    def cut(i: int, box: list[int]) -> np.ndarray:
        top, left, tall, wide = box
        return store[wanted[i]][top : top + tall, left : left + wide]

    return cut


def cut_decoded(images: np.ndarray, height: np.ndarray, width: np.ndarray) -> Cut:
    """Decodes the whole JPEG into a buffer that all pictures of the batch share, then cuts.

    Args:
        images: object[batch] of bytes.
        height: int64[batch], pixels as stored.
        width: likewise.
    """
    import simplejpeg

    buffer = np.empty(int((height * width).max()) * 3, np.uint8)

    def cut(i: int, box: list[int]) -> np.ndarray:
        try:
            pixels = np.asarray(simplejpeg.decode_jpeg(images[i], buffer=buffer))
        except ValueError:
            # simplejpeg refuses what libjpeg only warns about. Whether such a file is fit to be shown must not
            # depend on the plan: TensorFlow's decoder decides, and raises where it cannot read the file.
            pixels = decode_by_tensorflow(images[i])
        top, left, tall, wide = box
        return pixels[top : top + tall, left : left + wide]

    return cut


def cut_while_decoding(images: np.ndarray, boxes: np.ndarray) -> Cut:
    """Decodes only the part of each JPEG that its box needs, with TensorFlow's kernel called eagerly.

    Args:
        images: object[batch] of bytes.
        boxes: int64[batch, 4] in stored coordinates.
    """
    import tensorflow as tf

    # One conversion a batch costs 8 us a picture, one a picture 57 us.
    contents = tf.unstack(tf.constant(images))
    windows = tf.unstack(tf.constant(boxes.astype(np.int32)))

    def cut(i: int, box: list[int]) -> np.ndarray:
        decoded = tf.raw_ops.DecodeAndCropJpeg(
            contents=contents[i], crop_window=windows[i], channels=3, dct_method=DCT_METHOD
        )
        return np.asarray(memoryview(decoded))  # .numpy() would copy

    return cut
