"""Which part of a picture is shown and whether it is mirrored: drawn from (seed, epoch, index) alone.

The same arithmetic stands here twice, in NumPy (for kernels that take a batch) and in TensorFlow ops (inside the
graph); both use 64-bit integers and IEEE double operations only, so that they agree bit for bit.

Random numbers are SplitMix64's output function over a counter. Source: Steele, Lea, Flood 2014, "Fast splittable
pseudorandom number generators", figure 15, and Vigna's reference implementation (constants below).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dataio.recipe import CENTER_FRACTION, Recipe

if TYPE_CHECKING:
    import tensorflow as tf

GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB

#: Boxes tried before the largest centred one is taken. Source: torchvision's RandomResizedCrop.
TRIES = 10
#: Draws a picture: one for the flip, then area, aspect, top and left of every try.
DRAWS = 1 + 4 * TRIES


class _NumPy:
    """The operations that the drawing needs, on NumPy arrays."""

    floor, sqrt, where = staticmethod(np.floor), staticmethod(np.sqrt), staticmethod(np.where)

    @staticmethod
    def words(value: Any) -> np.ndarray:
        return np.asarray(value).astype(np.uint64)

    @staticmethod
    def doubles(value: Any) -> np.ndarray:
        return np.asarray(value).astype(np.float64)

    @staticmethod
    def integers(value: Any) -> np.ndarray:
        return np.asarray(value).astype(np.int64)

    @staticmethod
    def shifted_xor(value: np.ndarray, bits: int) -> np.ndarray:
        return np.asarray(np.bitwise_xor(value, np.right_shift(value, np.uint64(bits))))

    @staticmethod
    def top_bits(value: np.ndarray) -> np.ndarray:
        return np.asarray(np.right_shift(value, np.uint64(11)))

    @staticmethod
    def stack(values: list[np.ndarray]) -> np.ndarray:
        return np.stack(values, axis=-1)

    @staticmethod
    def first(accepted: np.ndarray) -> np.ndarray:
        return np.asarray(np.argmax(accepted, axis=-1))

    @staticmethod
    def any(accepted: np.ndarray) -> np.ndarray:
        return np.asarray(np.any(accepted, axis=-1))

    @staticmethod
    def take(values: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.asarray(np.take_along_axis(values, at[..., None], axis=-1)[..., 0])


def draw_boxes(
    recipe: Recipe, *, training: bool, epoch: Any, index: np.ndarray, height: np.ndarray, width: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and flips for a batch of upright pictures, in NumPy.

    Args:
        recipe: crop, scale, ratio, flip, seed and image size are used.
        training: random crops and flips when the recipe asks for them; otherwise the evaluation crop.
        epoch: int64 scalar or int64[batch].
        index: int64[batch], rank of the file in its split.
        height: int64[batch], pixels of the *upright* picture (after orientation).
        width: likewise.

    Returns:
        boxes int64[batch, 4] as (top, left, height, width) in pixels of the upright picture, inside it and
        never empty; flips bool[batch], True where the finished picture is mirrored left to right.
    """
    with np.errstate(over="ignore"):  # wrapping multiplication is what the generator is made of
        boxes, flips = _draw(_NumPy, recipe, training, epoch, index, height, width)
    return np.asarray(boxes), np.broadcast_to(flips, np.shape(index))


def draw_boxes_in_graph(
    recipe: Recipe, *, training: bool, epoch: tf.Tensor, index: tf.Tensor, height: tf.Tensor, width: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The same boxes and flips as `draw_boxes`, as TensorFlow ops; arguments may be scalars or batches.

    Returns:
        boxes int64[..., 4]; flips bool[...].
    """
    import tensorflow as tf

    class _TensorFlow:
        floor, sqrt, where = tf.floor, tf.sqrt, tf.where
        words = staticmethod(lambda value: tf.cast(value, tf.uint64))
        doubles = staticmethod(lambda value: tf.cast(value, tf.float64))
        integers = staticmethod(lambda value: tf.cast(value, tf.int64))
        stack = staticmethod(lambda values: tf.stack(values, axis=-1))
        first = staticmethod(lambda accepted: tf.argmax(tf.cast(accepted, tf.int32), axis=-1))
        any = staticmethod(lambda accepted: tf.reduce_any(accepted, axis=-1))
        take = staticmethod(lambda values, at: tf.gather(values, at, batch_dims=at.shape.rank))

        @staticmethod
        def shifted_xor(value: tf.Tensor, bits: int) -> tf.Tensor:
            return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(bits, tf.uint64)))

        @staticmethod
        def top_bits(value: tf.Tensor) -> tf.Tensor:
            # TensorFlow has no uint64 -> float64 cast that is exact on every build; 53 bits fit int64.
            return tf.cast(tf.bitwise.right_shift(value, tf.constant(11, tf.uint64)), tf.int64)

    return _draw(_TensorFlow, recipe, training, epoch, index, height, width)


def _draw(ops: Any, recipe: Recipe, training: bool, epoch: Any, index: Any, height: Any, width: Any) -> tuple[Any, Any]:
    full_height, full_width = ops.doubles(height), ops.doubles(width)
    random_crop = training and recipe.crop == "random-resized"
    flipping = training and recipe.flip
    uniform = None
    if random_crop or flipping:
        uniform = _uniform(ops, recipe.seed, epoch, index, DRAWS if random_crop else 1)
    flips = uniform[..., 0] < 0.5 if flipping and uniform is not None else ops.integers(index) < 0
    if random_crop:
        box = _random_box(ops, recipe, uniform, full_height, full_width)
    elif recipe.crop == "resize":
        box = [full_height * 0, full_width * 0, full_height, full_width]
    else:
        box = _centre_box(ops, recipe, full_height, full_width)
    return ops.integers(ops.stack(box)), flips


def _uniform(ops: Any, seed: int, epoch: Any, index: Any, draws: int) -> Any:
    """double[..., draws] in [0, 1): 53 random bits each."""

    def mix(value: Any) -> Any:
        value = ops.shifted_xor(value, 30) * ops.words(np.uint64(MIX_1))
        value = ops.shifted_xor(value, 27) * ops.words(np.uint64(MIX_2))
        return ops.shifted_xor(value, 31)

    golden = ops.words(np.uint64(GOLDEN))
    of_epoch = mix(ops.words(np.uint64(seed)) + golden * (ops.words(epoch) + ops.words(np.uint64(1))))
    of_record = mix(of_epoch + golden * (ops.words(index) + ops.words(np.uint64(1))))
    counters = ops.words(np.arange(1, draws + 1, dtype=np.uint64) * np.uint64(GOLDEN))
    return ops.doubles(ops.top_bits(mix(of_record[..., None] + counters))) * 2.0**-53


def _random_box(ops: Any, recipe: Recipe, uniform: Any, height: Any, width: Any) -> list[Any]:
    low_scale, high_scale = recipe.scale
    low_ratio, high_ratio = recipe.ratio
    height_each, width_each = height[..., None], width[..., None]  # one column a try
    area = height_each * width_each * (uniform[..., 1::4] * (high_scale - low_scale) + low_scale)
    ratio = uniform[..., 2::4] * (high_ratio - low_ratio) + low_ratio
    box_width = ops.floor(ops.sqrt(area * ratio) + 0.5)
    box_height = ops.floor(ops.sqrt(area / ratio) + 0.5)
    fits = (box_width >= 1) & (box_height >= 1) & (box_width <= width_each) & (box_height <= height_each)
    at, found = ops.first(fits), ops.any(fits)
    tall, wide = ops.take(box_height, at), ops.take(box_width, at)
    # No try fitted: the largest centred box whose aspect lies within the bounds.
    fallback_wide = ops.where(width > height * high_ratio, ops.floor(height * high_ratio + 0.5), width)
    fallback_tall = ops.where(width < height * low_ratio, ops.floor(width / low_ratio + 0.5), height)
    fallback_wide = ops.where(fallback_wide > width, width, ops.where(fallback_wide < 1, width * 0 + 1, fallback_wide))
    fallback_tall = ops.where(
        fallback_tall > height, height, ops.where(fallback_tall < 1, height * 0 + 1, fallback_tall)
    )
    tall, wide = ops.where(found, tall, fallback_tall), ops.where(found, wide, fallback_wide)
    top = ops.floor(ops.take(uniform[..., 3::4], at) * (height - tall + 1))
    left = ops.floor(ops.take(uniform[..., 4::4], at) * (width - wide + 1))
    top = ops.where(found, top, ops.floor((height - tall) / 2))
    left = ops.where(found, left, ops.floor((width - wide) / 2))
    return [top, left, tall, wide]


def _centre_box(ops: Any, recipe: Recipe, height: Any, width: Any) -> list[Any]:
    out_height, out_width = recipe.height_width
    by_height, by_width = height / out_height, width / out_width
    scale = ops.where(by_height < by_width, by_height, by_width) * CENTER_FRACTION
    tall, wide = ops.floor(scale * out_height + 0.5), ops.floor(scale * out_width + 0.5)
    tall = ops.where(tall < 1, tall * 0 + 1, ops.where(tall > height, height, tall))
    wide = ops.where(wide < 1, wide * 0 + 1, ops.where(wide > width, width, wide))
    return [ops.floor((height - tall) / 2), ops.floor((width - wide) / 2), tall, wide]
