"""The user's own transform: a function named in the recipe, on finished uint8 pixels, before normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dataio.errors import RecipeError
from dataio.loading import load_function
from dataio.recipe import Recipe
from dataio.stages.boxes import GOLDEN, MIX_1, MIX_2

if TYPE_CHECKING:
    import tensorflow as tf

#: Sets the transform's seeds apart from the draws of boxes and flips; an arbitrary odd number.
_TRANSFORM = 0xD1B54A32D192ED03


def make_transform(recipe: Recipe, *, training: bool) -> Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]:
    """A function that applies `recipe.transform` to `image`, and leaves everything else of its dict as it is.

    The user's function is called as `function(image, seed, training)`: `image` uint8[height, width, 3] and `seed`
    int32[2], for tf.random.stateless_* operations; or, with `transform_per` "batch", uint8[batch, height, width, 3] and
    int32[batch, 2]. It returns the same shape and type. The seed depends on the recipe's seed, the epoch and the record
    alone, so that a function which draws by it alone gives the same pictures under any plan.

    The dicts hold `image`, `index` and `epoch`, of one record or of a batch of them.

    Raises:
        RecipeError: there is no such function; or, when the pipeline is built, it returns another shape or type.
    """
    import tensorflow as tf

    assert recipe.transform is not None, "made only for recipes with a transform"
    function = tf.function(load_function(recipe.transform, what="transform", error=RecipeError))
    size = [*recipe.height_width, 3]

    def checked(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        result = tf.convert_to_tensor(function(image, seed, training))
        if result.dtype != tf.uint8 or not result.shape.is_compatible_with(image.shape):
            raise RecipeError(
                f"transform {recipe.transform!r} takes uint8{list(image.shape)} and must return the same, but returned "
                f"{result.dtype.name}{list(result.shape) if result.shape.rank is not None else ''}"
            )
        return tf.ensure_shape(result, image.shape)

    def transform(record: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        image = record["image"]
        seeds = seeds_in_graph(recipe.seed, record["epoch"], record["index"])
        if recipe.transform_per == "batch" or record["index"].shape.rank == 0:
            image = checked(image, seeds)
        else:  # a kernel that makes whole batches, and a function for one picture
            image = tf.map_fn(
                lambda pair: checked(*pair), (image, seeds), fn_output_signature=tf.TensorSpec(size, tf.uint8)
            )
        return record | {"image": image}

    # So that an error of ours keeps its kind; the user's function, a tf.function, is converted all the same.
    kept: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]] = tf.autograph.experimental.do_not_convert(transform)
    return kept


def seeds_in_graph(seed: int, epoch: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """int32[..., 2]: seeds for stateless operations, from (seed, epoch, index) by SplitMix64's output function."""
    import tensorflow as tf

    def shifted_xor(value: tf.Tensor, bits: int) -> tf.Tensor:
        return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(bits, tf.uint64)))

    def mix(value: tf.Tensor) -> tf.Tensor:
        value = shifted_xor(value, 30) * tf.constant(MIX_1, tf.uint64)
        value = shifted_xor(value, 27) * tf.constant(MIX_2, tf.uint64)
        return shifted_xor(value, 31)

    golden, one = tf.constant(GOLDEN, tf.uint64), tf.constant(1, tf.uint64)
    start = tf.constant((seed ^ _TRANSFORM) % 2**64, tf.uint64)
    of_epoch = mix(start + golden * (tf.cast(epoch, tf.uint64) + one))
    return tf.bitcast(mix(of_epoch + golden * (tf.cast(index, tf.uint64) + one)), tf.int32)
