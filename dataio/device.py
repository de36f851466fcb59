"""uint8 over the bus: pictures are normalised on the device, by a layer that gives the host's numbers.

A float32 batch is four times as large as the same pixels in uint8, on its way through buffers, caches and the bus to
the device. Where that is what limits, let `build` make uint8 batches and the model begin with this layer:

    recipe = dataio.Recipe(dtype="float32", normalisation="imagenet")
    train = dataio.build(data, host_recipe(recipe))
    model = keras.Sequential([keras.Input((224, 224, 3), dtype="uint8"), dataio.device_preprocessing(recipe), ...])
"""

from __future__ import annotations

from typing import Any

import keras

from dataio.recipe import Recipe
from dataio.stages.finishing import normalise


def host_recipe(recipe: Recipe) -> Recipe:
    """`recipe` as `build` must carry it out when `device_preprocessing(recipe)` does the rest: plain uint8."""
    return recipe.replace(dtype="uint8", normalisation="none")


@keras.saving.register_keras_serializable(package="dataio")
class DevicePreprocessing(keras.layers.Layer):  # type: ignore[misc]
    """uint8[batch, height, width, 3] to the recipe's dtype and normalisation, on the device that the model runs on."""

    def __init__(self, recipe: Recipe | dict[str, Any], **options: Any) -> None:
        """Args:
        recipe: whose dtype and normalisation to carry out; a dict when Keras loads a saved model.
        options: Keras's own, such as `name`.
        """
        self.recipe = recipe if isinstance(recipe, Recipe) else Recipe(**recipe)
        # Under a mixed-precision policy Keras would cast inputs and outputs of its own accord.
        super().__init__(trainable=False, **{"dtype": self.recipe.dtype, "autocast": False} | options)

    def call(self, images: Any) -> Any:
        """Normalises a batch."""
        return normalise(images, self.recipe)

    def compute_output_spec(self, images: Any) -> Any:
        """Same shape, the recipe's dtype."""
        return keras.KerasTensor(images.shape, dtype=self.recipe.dtype)

    def get_config(self) -> dict[str, Any]:
        """What `from_config` makes the layer of again."""
        config: dict[str, Any] = super().get_config()
        for name in ("trainable", "dtype"):
            config.pop(name, None)
        return config | {"recipe": self.recipe.model_dump(mode="json")}


def device_preprocessing(recipe: Recipe, *, name: str | None = None) -> DevicePreprocessing:
    """A Keras layer that does on the device what `build` would have done on the host: dtype and normalisation.

    Args:
        recipe: the recipe that the model is to see; build the pipeline with `dataio.device.host_recipe(recipe)`.
        name: of the layer.

    Returns:
        A layer from uint8[batch, height, width, 3], RGB, to the recipe's dtype. On the same kind of device and without
        XLA the numbers are the host's bit for bit; XLA and GPUs may fuse multiply and add, which changes the last bit.
    """
    return DevicePreprocessing(recipe, **({} if name is None else {"name": name}))
