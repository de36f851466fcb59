"""Records kept in a file after the first epoch, by tf.data's own cache, without its traps."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np

from dataio.stages.cache_folder import CacheFolder
from dataio.stages.pixel_store import PixelStore

if TYPE_CHECKING:
    import tensorflow as tf

#: Records of fewer bytes are kept in blocks: while it writes, tf.data holds an entry for each tensor in memory, and it
#: takes 10 million elements at most (kMaxItems in its cache_dataset_ops.cc). Larger ones one by one: blocks are copied.
#: Source: own measurement: 90 kB read at 14,000 records/s either way; 950 kB at 2,000 one by one, 1,400 from blocks.
BLOCK_BELOW_BYTES = 128_000
BLOCK_RECORDS = 64

#: Bytes written between two looks at the room that is left on the disk, at most.
CHECK_BYTES = 16_000_000

#: Bytes of pixels that a byte of an encoded picture becomes, as far as the size of blocks goes.
_PIXELS_A_BYTE = 13


def cached_on_disk(
    records: tf.data.Dataset, folder: CacheFolder, *, record_bytes: float, decoded: bool = False
) -> tf.data.Dataset:
    """`records`, read from a file once one iterator has been through all of them; to be called once an iterator.

    An iterator that comes while another one writes the file takes `records` themselves.

    Args:
        records: in stored order; nothing random.
        folder: where the file lies.
        record_bytes: mean bytes of a record as stored.
        decoded: whether records are pixels that were made of it.
    """
    import tensorflow as tf

    kept_bytes = _kept_bytes(record_bytes, decoded=decoded)
    block = block_records(record_bytes, decoded=decoded)
    every = max(1, int(min(CHECK_BYTES, folder.floor_bytes / 4) / max(1.0, kept_bytes * block)))

    # TensorFlow never lets go of a Python function, so these must not hold the folder; the dataset does.
    known = weakref.ref(folder)

    def check_room() -> np.ndarray:
        alive = known()
        if alive is not None:
            alive.check_room()
        return np.zeros((), np.int64)

    def checked(number: tf.Tensor, record: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        look = lambda: tf.numpy_function(check_room, [], tf.int64)  # noqa: E731
        done = tf.cond(number % every == 0, look, lambda: tf.constant(0, tf.int64))
        with tf.control_dependencies([done]):
            return {name: tf.identity(value) for name, value in record.items()}

    def claim() -> np.ndarray:
        alive = known()
        return np.array(alive.claim().encode() if alive is not None else b"", object)

    blocks = records.batch(block) if block > 1 else records
    file = tf.ensure_shape(tf.numpy_function(claim, [], tf.string), [])
    ours = tf.cast(tf.strings.length(file) > 0, tf.int64)
    # take(0) never makes an iterator of its input; take(-1) goes through all of it.
    kept = blocks.enumerate().map(checked).cache(file).take(-ours).concatenate(blocks.take(ours - 1))
    return kept.unbatch() if block > 1 else kept


def block_records(record_bytes: float, *, decoded: bool) -> int:
    """Records that are kept as one; 1: each for itself. Arguments as of `cached_on_disk`."""
    return BLOCK_RECORDS if _kept_bytes(record_bytes, decoded=decoded) < BLOCK_BELOW_BYTES else 1


def _kept_bytes(record_bytes: float, *, decoded: bool) -> float:
    return record_bytes * (_PIXELS_A_BYTE if decoded else 1)


def attach_cache(dataset: tf.data.Dataset, cache: CacheFolder | PixelStore | None) -> tf.data.Dataset:
    """`dataset`, holding on to `cache`, so that it lives as long as the pipeline or an iterator over it."""
    dataset._dataio_cache = cache
    return dataset
