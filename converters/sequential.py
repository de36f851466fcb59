"""Records of files that can only be read from front to back, as a tf.data.Dataset in stored or shuffled
order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dataio.data import Order, Read, Shard

if TYPE_CHECKING:
    import tensorflow as tf

#: Records that a reader gives at a time when several files are interleaved. Source: TFDS's default
#: (`ReadConfig.interleave_block_length`); tf.data's own, 1, costs a switch a record.
BLOCK_RECORDS = 16

#: Bytes that a file's reader asks for at a time. Source: tf.data's performance guide advises about 1 MB and
#: more for sequential files; the default, 256 KB, costs more calls.
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RecordFile:
    """One TFRecord file."""

    path: str
    """Where it lies."""
    records: int
    """Records in it."""


def read_files(
    files: Sequence[RecordFile],
    *,
    read: Read | None = None,
    order: Order | None = None,
    shard: Shard | None = None,
) -> tf.data.Dataset:
    """The records of TFRecord files, each once a pass.

    With a seed, the files come in another order each epoch, some at once, and then pass a buffer of
    `order.buffer` records. A shard takes a consecutive part of the stored records, the same one in every
    epoch.

    Returns:
        A dataset of (record string[], position int64[]): position is the record's place in stored order.
    """
    import tensorflow as tf

    read, order, shard = read or Read(), order or Order(), shard or Shard()
    first, end = shard.bounds(sum(file.records for file in files))
    pieces = _pieces(files, first, end)
    paths, skips, takes, starts = ([piece[column] for piece in pieces] for column in range(4))
    # A column a tensor: tf.unstack of one tensor inside flat_map crashes TensorFlow 2.21.
    columns = (
        tf.constant(paths, tf.string),
        tf.constant(skips, tf.int64),
        tf.constant(takes, tf.int64),
        tf.constant(starts, tf.int64),
    )
    calls: Any = read.cycle_length or tf.data.AUTOTUNE

    def records_of(path: tf.Tensor, skip: tf.Tensor, take: tf.Tensor, start: tf.Tensor) -> tf.data.Dataset:
        content = tf.data.TFRecordDataset(path, buffer_size=_READ_BYTES).skip(skip).take(take)
        return tf.data.Dataset.zip(content, tf.data.Dataset.range(start, start + take))

    if order.seed is None:
        # Stored order is one file after the other; interleaving would mix them.
        records = tf.data.Dataset.from_tensor_slices(columns).flat_map(records_of)
    else:
        if order.epoch is None:
            raise ValueError("an order with a seed needs the epoch's dataset")
        seed = order.seed

        def shuffled(epoch: tf.Tensor) -> tf.data.Dataset:
            key = tf.stack([tf.constant(seed, tf.int64), epoch])
            where = tf.random.experimental.stateless_shuffle(tf.range(len(pieces)), seed=key)
            some = tf.data.Dataset.from_tensor_slices(tuple(tf.gather(column, where) for column in columns))
            if read.cycle_length == 1:
                mixed = some.flat_map(records_of)
            else:
                mixed = some.interleave(
                    records_of,
                    cycle_length=calls,
                    block_length=read.block_length or BLOCK_RECORDS,
                    num_parallel_calls=calls,
                    deterministic=read.deterministic,
                )
            # One seed from two: which pairs share one does not matter, as long as neighbouring epochs do not.
            return mixed.shuffle(
                max(1, min(order.buffer, end - first)),
                seed=key[0] * 1_000_003 + key[1],
                reshuffle_each_iteration=False,
            )

        records = order.epoch.flat_map(shuffled)
    return records.apply(tf.data.experimental.assert_cardinality(end - first))


def _pieces(files: Sequence[RecordFile], first: int, end: int) -> list[tuple[str, int, int, int]]:
    """(path, records to skip, records to take, position of the first) of each file with positions `first` to
    `end`."""
    pieces = []
    start = 0
    for file in files:
        low, high = max(first, start), min(end, start + file.records)
        if low < high:
            pieces.append((file.path, low - start, high - low, low))
        start += file.records
    return pieces
