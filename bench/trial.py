"""A store of raw pixels tried before anything is converted: the plan at hand on a sample that lies in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from dataio.bench.bare import Sample
from dataio.bench.measuring import measure_supply
from dataio.data import RECORD_FIELDS, Data, Order, Read, Shard, Split
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe

#: Records that a block read from packed files has. Source: dataio.converters.blocks.
BLOCK_RECORDS = 50
#: Records and batches of an epoch at least, so that a trial is not mostly the end of one and the start of the next.
EPOCH_RECORDS, EPOCH_BATCHES = 4096, 16
#: Rounds, their length and that of warming up, seconds: 2 s in all.
ROUNDS, ROUND_SECONDS, WARM_UP_SECONDS = 3, 0.3, 1.0


class RawSample(Data):
    """Pictures of a sample stored raw, over and over, read as from packed files in the page cache.

    Each is copied once into bytes and once more into its block, as reading does; checksums are left out (18 us for
    197 kB).
    """

    def __init__(self, like: Data, sample: Sample, *, split: str, records: int) -> None:
        """`records` of the pictures of `sample`, which must be raw, as the only split of a dataset like `like`."""
        self.path, self.class_names, self.fingerprint = like.path, like.class_names, like.fingerprint
        self.format, self.encoding, self.random_access = "hdf5", "raw", True
        height, width = sample.images.shape[1:3]
        self.raw_height_width = (height, width)
        self.splits = {split: Split(records, 1, records * round(sample.record_bytes))}
        self._sample = sample

    def records(
        self, split: str, *, read: Read | None = None, order: Order | None = None, shard: Shard | None = None
    ) -> tf.data.Dataset:
        """As `Data.records`, but in stored order whatever `order` says: what is in memory is as fast in any."""
        first, end = (shard or Shard()).bounds(self.split(split).records)
        calls: Any = (read or Read()).cycle_length or tf.data.AUTOTUNE
        positions = tf.data.Dataset.range(first, end).batch(BLOCK_RECORDS)
        # No calls at once where there is one: that op holds a block more.
        blocks = positions.map(self._fetch) if calls == 1 else positions.map(self._fetch, num_parallel_calls=calls)
        return blocks.unbatch().apply(tf.data.experimental.assert_cardinality(end - first))

    def _fetch(self, positions: tf.Tensor) -> dict[str, tf.Tensor]:
        pixels = tf.ensure_shape(
            tf.numpy_function(self._read, [positions], tf.uint8), [None, *self._sample.images.shape[1:]]
        )
        zeros = tf.zeros_like(positions)
        height, width = self._sample.images.shape[1:3]
        # Orientation 1 is upright: pixels are stored so.
        numbers = (zeros, positions, zeros + 1, zeros + height, zeros + width)
        return dict(zip(RECORD_FIELDS, (pixels, *numbers), strict=True))

    def _read(self, positions: np.ndarray) -> np.ndarray:
        images = self._sample.images
        read = [images[place].tobytes() for place in (positions % len(images)).tolist()]
        return np.frombuffer(b"".join(read), np.uint8).reshape(len(read), *images.shape[1:])


def try_raw(data: Data, sample: Sample, recipe: Recipe, plan: Plan, *, split: str) -> float:
    """images/s that `plan` supplies from `data` once it is stored like `sample`, which is raw; takes 2 s.

    Args:
        data: what the sample was taken from.
        sample: its pictures, stored raw.
        recipe: what a batch is.
        plan: without a cache.
        split: the split that is measured.
    """
    records = max(EPOCH_RECORDS, EPOCH_BATCHES * recipe.batch_size)
    stored = RawSample(data, sample, split=split, records=records)
    samples = measure_supply(
        {"raw": lambda: build(stored, recipe, plan, split=split)},
        batch_size=recipe.batch_size,
        rounds=ROUNDS,
        round_seconds=ROUND_SECONDS,
        warm_up_seconds=WARM_UP_SECONDS,
    )
    return float(np.median(samples["raw"].round_images_per_second))
