"""Remedies tried on a part: raw pixels on a sample in memory before anything is converted, a cache of decoded pictures
on as many as are decoded in a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import google_crc32c
import numpy as np
import tensorflow as tf

from dataio.bench.bare import Sample
from dataio.bench.measuring import measure_supply
from dataio.data import RECORD_FIELDS, Data, Order, Read, Shard, Split
from dataio.machine import usable_memory_bytes
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe

#: Records that a block read from packed files has. Source: dataio.converters.blocks.
BLOCK_RECORDS = 50
#: Records and batches of an epoch at least, so that a trial is not mostly the end of one and the start of the next.
EPOCH_RECORDS, EPOCH_BATCHES = 4096, 16
#: Bytes that the sample is laid out over, so that it comes from memory as a dataset does, and not from the processor's
#: caches. They hold up to about 500 MB, shared by all that runs on the processor.
SPREAD_BYTES = 800_000_000
#: Share of what is free that it may take for that.
SPREAD_SHARE = 0.25
#: Seconds that filling a cache for a trial may take, and batches that it holds at least.
FILL_SECONDS, FILL_BATCHES = 1.0, 8
#: Rounds, their length and that of warming up, seconds: 2 s in all.
ROUNDS, ROUND_SECONDS, WARM_UP_SECONDS = 3, 0.3, 1.0


class RawSample(Data):
    """Pictures of a sample stored raw, over and over, read as from packed files in the page cache.

    Each is copied once into bytes, summed, and copied once more into its block, as reading does.
    """

    def __init__(self, like: Data, sample: Sample, *, split: str, records: int) -> None:
        """`records` of the pictures of `sample`, which must be raw, as the only split of a dataset like `like`."""
        self.path, self.class_names, self.fingerprint = like.path, like.class_names, like.fingerprint
        self.format, self.encoding, self.random_access = "hdf5", "raw", True
        height, width = sample.images.shape[1:3]
        self.raw_height_width = (height, width)
        self.splits = {split: Split(records, 1, records * round(sample.record_bytes))}
        room = min(SPREAD_BYTES, SPREAD_SHARE * usable_memory_bytes())
        copies = max(1, min(records, int(room / sample.record_bytes)) // len(sample.images))
        self._images = np.concatenate([sample.images] * copies)

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
        pixels = tf.ensure_shape(tf.numpy_function(self._read, [positions], tf.uint8), [None, *self._images.shape[1:]])
        zeros = tf.zeros_like(positions)
        height, width = self._images.shape[1:3]
        # Orientation 1 is upright: pixels are stored so.
        numbers = (zeros, positions, zeros + 1, zeros + height, zeros + width)
        return dict(zip(RECORD_FIELDS, (pixels, *numbers), strict=True))

    def _read(self, positions: np.ndarray) -> np.ndarray:
        images = self._images
        read = [images[place].tobytes() for place in (positions % len(images)).tolist()]
        for pixels in read:
            google_crc32c.value(pixels)
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
    return _measure(lambda: build(stored, recipe, plan, split=split), recipe)


def try_cache(data: Data, recipe: Recipe, plan: Plan, *, split: str, images_per_second: float) -> float:
    """images/s that `plan` supplies once its cache is full, by that of a part of the split; takes 3 s and more.

    Args:
        data: the dataset.
        recipe: what a batch is.
        plan: with a cache whose whole fits.
        split: the split that is measured.
        images_per_second: how fast the cache is filled, about.
    """
    part = max(FILL_SECONDS * images_per_second, FILL_BATCHES * recipe.batch_size)
    parts = max(1, int(data.split(split).records / part))
    return _measure(lambda: build(data, recipe, plan, split=split, num_shards=parts), recipe, whole_first_epoch=True)


def _measure(dataset: Callable[[], tf.data.Dataset], recipe: Recipe, *, whole_first_epoch: bool = False) -> float:
    samples = measure_supply(
        {"tried": dataset},
        batch_size=recipe.batch_size,
        rounds=ROUNDS,
        round_seconds=ROUND_SECONDS,
        warm_up_seconds=WARM_UP_SECONDS,
        whole_first_epoch=["tried"] if whole_first_epoch else [],
    )
    return float(np.median(samples["tried"].round_images_per_second))
