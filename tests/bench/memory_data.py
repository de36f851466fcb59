"""A dataset that lives in memory, for tests of measuring that need no format."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from PIL import Image

from dataio.data import Data, Order, Read, Shard, Split

if TYPE_CHECKING:
    import tensorflow as tf


class MemoryData(Data):
    """Noisy JPEGs of 48x64, made anew from a seed; labels go round."""

    def __init__(self, path: Path, *, records: int = 96, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.path = path
        self.format = "memory"
        self.encoding: Literal["jpeg", "png", "raw"] = "jpeg"
        self.random_access = True
        self.class_names = ("cat", "dog", "owl")
        self.images = [_jpeg(random) for _ in range(records)]
        size = sum(map(len, self.images))
        self.splits: Mapping[str, Split] = {"train": Split(records=records, shards=1, bytes=size)}
        self.fingerprint = f"memory-{records}-{seed}"

    def records(
        self, split: str, *, read: Read | None = None, order: Order | None = None, shard: Shard | None = None
    ) -> tf.data.Dataset:
        import tensorflow as tf

        self.split(split)
        count = len(self.images)
        first, end = (shard or Shard()).bounds(count)
        images = tf.constant(self.images)

        def at(position: tf.Tensor) -> dict[str, tf.Tensor]:
            whole = {"label": position % 3, "index": position, "orientation": 1, "height": 48, "width": 64}
            return {"image": images[position]} | {name: tf.cast(value, tf.int64) for name, value in whole.items()}

        if order is None or order.epoch is None or order.seed is None:
            return tf.data.Dataset.range(first, end).map(at)
        seed = order.seed

        def of_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
            return tf.data.Dataset.range(first, end).shuffle(count, seed=seed + epoch, reshuffle_each_iteration=False)

        return order.epoch.flat_map(of_epoch).map(at)


def _jpeg(random: np.random.Generator) -> bytes:
    content = io.BytesIO()
    Image.fromarray(random.integers(0, 256, (48, 64, 3), dtype=np.uint8)).save(content, "JPEG")
    return content.getvalue()
