"""Records of a random-access format as a tf.data.Dataset: positions in order, read a block at a time.

tf.data has no kernel for LMDB or HDF5, and a Python call a record is slow, so one `numpy_function` reads a block
of records. Measured on 2 cores, warm, 90 kB records: blocks of 50 give 17,000 to 20,000 records/s,
`Dataset.from_generator` 5,000.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dataio.data import RECORD_FIELDS, Order, Read, Shard

if TYPE_CHECKING:
    import tensorflow as tf

#: Records that one call reads. Source: our measurement above; 50 hides the call's 100 us, more adds only memory.
BLOCK_RECORDS = 50

#: Reads the records at `positions` (int64[block]): one array a field of RECORD_FIELDS, in that order. `image` is an
#: object array of bytes, or uint8[block, height, width, 3]; the others are int64[block].
BlockReader = Callable[[np.ndarray], Sequence[np.ndarray]]


def read_blocks(
    count: int,
    read_block: BlockReader,
    *,
    read: Read | None = None,
    order: Order | None = None,
    shard: Shard | None = None,
    raw_height_width: tuple[int, int] | None = None,
) -> tf.data.Dataset:
    """The records 0..count-1 that `read_block` gives, each once a pass; see `Data.records` for the elements.

    With a seed the order is a pseudo-random permutation keyed by (seed, epoch), computed a block at a time
    (tf.random.experimental.index_shuffle): no buffer, whatever the count. A shard takes a consecutive part of
    the permuted positions, so that over all shards each record comes exactly once in every epoch.

    Args:
        count: records of the split, at least 1.
        read_block: called from TensorFlow's threads, several at once.
        raw_height_width: (height, width) where `image` holds pixels, None where it holds encoded files.
    """
    import tensorflow as tf

    read, order, shard = read or Read(), order or Order(), shard or Shard()
    first, end = shard.bounds(count)
    block = read.block_length or BLOCK_RECORDS
    image_type = tf.string if raw_height_width is None else tf.uint8
    types = [image_type] + [tf.int64] * (len(RECORD_FIELDS) - 1)

    # Defined out here: AutoGraph would rewrite a function that `fetch` defines, and all that it calls, into far slower
    # code, although Python runs it and not the graph.
    def read_arrays(wanted: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(read_block(wanted))

    def fetch(positions: tf.Tensor) -> dict[str, tf.Tensor]:
        values = tf.numpy_function(read_arrays, [positions], types)
        values[0].set_shape([None] if raw_height_width is None else [None, *raw_height_width, 3])
        for value in values[1:]:
            value.set_shape([None])
        return dict(zip(RECORD_FIELDS, values, strict=True))

    stored = tf.data.Dataset.range(first, end).batch(block)
    if order.seed is None:
        positions = stored
    else:
        if order.epoch is None:
            raise ValueError("an order with a seed needs the epoch's dataset")

        def shuffled(epoch: tf.Tensor) -> tf.data.Dataset:
            seed = tf.stack([tf.constant(order.seed, tf.int64), epoch])
            return stored.map(lambda block: tf.random.experimental.index_shuffle(block, seed=seed, max_index=count - 1))

        positions = order.epoch.flat_map(shuffled)
    calls: Any = read.cycle_length or tf.data.AUTOTUNE
    if calls == 1:
        blocks = positions.map(fetch)
    else:
        blocks = positions.map(fetch, num_parallel_calls=calls, deterministic=read.deterministic)
    return blocks.unbatch().apply(tf.data.experimental.assert_cardinality(end - first))
