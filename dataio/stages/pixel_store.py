"""Decoded pictures in memory, where the batch kernel finds them without a copy.

tf.data's own cache holds tensors, and those of different sizes only come to a kernel that takes whole batches as
strings: each picture would be copied into the batch and once more into Python, two passes over a megabyte of fresh
memory. That took four times as long as cutting, resizing and flipping (own measurement, photographs of 560 kB: 1,400
images/s from strings, 5,400 from here, 2 cores). So the pixels lie here, and tf.data caches the rest of the record.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dataio.errors import PlanError
from dataio.stages.decoding import DCT_METHOD

if TYPE_CHECKING:
    import tensorflow as tf


#: First bytes of every JPEG. Source: ISO/IEC 10918-1, B.2.1 and B.1.1.3: start of image, then another marker.
_JPEG_START = b"\xff\xd8\xff"


class PixelStore:
    """The decoded pictures of one pipeline, by the rank of their record; goes with the pipeline."""

    def __init__(self) -> None:
        self._pictures: dict[int, np.ndarray] = {}

    def keep(self, index: int, content: bytes) -> None:
        """Decodes a picture unless it is here already; iterators that fill the store side by side do no harm.

        Args:
            index: rank of the record in its split.
            content: the file, JPEG or anything else that TensorFlow decodes.
        """
        if index not in self._pictures:
            self._pictures[index] = _decode(content)

    def __getitem__(self, index: int) -> np.ndarray:
        """uint8[height, width, 3] as stored, not turned upright."""
        return self._pictures[index]

    def __len__(self) -> int:
        return len(self._pictures)


class StoreHandle:
    """Leads to a store without holding it: TensorFlow never lets go of a Python function, nor of what that holds."""

    def __init__(self, store: PixelStore) -> None:
        self._known = weakref.ref(store)

    def __call__(self) -> PixelStore:
        """The store.

        Raises:
            PlanError: the pipeline that owned it is gone.
        """
        store = self._known()
        if store is None:
            raise PlanError(
                "the pipeline whose decoded pictures this iterator reads is gone: keep the dataset that "
                "dataio.build returned as long as anything made from it is used"
            )
        return store

    def keep_pixels(self, record: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The record with its picture in the store and `image` int64[], its place there."""
        import tensorflow as tf

        place = tf.numpy_function(self._keep, [record["index"], record["image"]], tf.int64)
        return record | {"image": tf.ensure_shape(place, [])}

    def _keep(self, index: np.ndarray, content: bytes) -> np.ndarray:
        # A method, since a function defined in `keep_pixels` would be rewritten by AutoGraph and run at its pace.
        self().keep(int(index), content)
        return index


def decode_by_tensorflow(content: bytes) -> np.ndarray:
    """uint8[height, width, 3] of a JPEG, or of anything else that tf.io.decode_image reads."""
    import tensorflow as tf

    if content.startswith(_JPEG_START):
        return np.asarray(tf.io.decode_jpeg(content, channels=3, dct_method=DCT_METHOD))
    return np.asarray(tf.io.decode_image(content, channels=3, expand_animations=False))


def _decode(content: bytes) -> np.ndarray:
    if content.startswith(_JPEG_START) and (decode := _simplejpeg()) is not None:
        try:
            return np.asarray(decode(content))
        except ValueError:
            # It refuses what libjpeg only warns about. Whether such a file is fit to be shown must not depend on the
            # plan: TensorFlow's decoder decides, and raises where it cannot read the file.
            pass
    return decode_by_tensorflow(content)


def _simplejpeg() -> Callable[[bytes], np.ndarray] | None:
    """Its decoder, which gives the very pixels of TensorFlow's in less time; None where it is not installed."""
    try:
        from simplejpeg import decode_jpeg
    except ImportError:
        return None
    return decode_jpeg  # type: ignore[no-any-return]
