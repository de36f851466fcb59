"""From uint8 pictures to what the model gets: dtype, normalisation, labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dataio.recipe import IMAGENET_MEAN, IMAGENET_STD, Recipe

if TYPE_CHECKING:
    import tensorflow as tf


def scale_and_offset(recipe: Recipe) -> tuple[list[float], list[float]]:
    """Factors of `normalised = pixel * scale + offset`, one a channel, for pixels in 0..255."""
    if recipe.normalisation == "unit":
        return [1 / 255] * 3, [0.0] * 3
    if recipe.normalisation == "signed":
        return [2 / 255] * 3, [-1.0] * 3
    if recipe.normalisation == "imagenet":
        scale = [1 / (255 * std) for std in IMAGENET_STD]
        return scale, [-mean / std for mean, std in zip(IMAGENET_MEAN, IMAGENET_STD, strict=True)]
    return [1.0] * 3, [0.0] * 3


def normalise(images: tf.Tensor, recipe: Recipe) -> tf.Tensor:
    """uint8[..., 3] pixels as the recipe's dtype and normalisation; computed in float32, then cast. Pixels that are
    float32 already were normalised by the kernel that made them and are only cast."""
    import tensorflow as tf

    if recipe.dtype == "uint8":
        return images
    pixels = tf.cast(images, tf.float32)
    if recipe.normalisation != "none" and images.dtype == tf.uint8:
        scale, offset = scale_and_offset(recipe)
        # One factor for all channels where they agree: broadcasting over the innermost three costs far more.
        pixels = pixels * tf.constant(scale[0] if len(set(scale)) == 1 else scale)
        if any(offset):
            pixels = pixels + tf.constant(offset[0] if len(set(offset)) == 1 else offset)
    return tf.cast(pixels, recipe.dtype)


def make_finisher(recipe: Recipe, classes: int) -> Callable[[dict[str, tf.Tensor]], tuple[tf.Tensor, tf.Tensor]]:
    """A function from `image` and `label`, one picture's or a batch's, to `(image, label)` as the model gets them.

    Returns:
        image dtype[..., height, width, 3]; label int64[...], or float32[..., classes] for label_mode `categorical`.
    """
    import tensorflow as tf

    def finish(picture: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        label = picture["label"]
        if recipe.label_mode == "categorical":
            label = tf.one_hot(label, classes, dtype=tf.float32)
        return normalise(picture["image"], recipe), label

    return finish
