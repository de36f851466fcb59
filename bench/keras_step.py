"""A step of Keras: one of keras.applications really trains on the device that is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from dataio.bench.user_step import FunctionStep
from dataio.errors import StepError
from dataio.recipe import Recipe

#: Classes of the model's last layer when nothing else is said: ImageNet's.
IMAGENET_CLASSES = 1000


def application_names() -> tuple[str, ...]:
    """The models of keras.applications by name."""
    return tuple(sorted(name for name, value in vars(keras.applications).items() if _is_builder(name, value)))


def grow_device_memory() -> None:
    """Lets TensorFlow take GPU memory as it needs it instead of all at once; must come before the first use of a GPU.

    Raises:
        StepError: a GPU was used already.
    """
    for device in tf.config.list_physical_devices("GPU"):
        try:
            tf.config.experimental.set_memory_growth(device, True)
        except RuntimeError as problem:
            raise StepError(
                f"{device.name} is in use already, so that its memory cannot be made to grow: make the step before "
                "any pipeline or model"
            ) from problem


def keras_step(
    model_name: str, recipe: Recipe, *, classes: int = IMAGENET_CLASSES, mixed_precision: bool = False
) -> FunctionStep:
    """A training step of a keras.applications model with random weights, compiled as `fit` compiles it.

    The step is forward pass, cross-entropy, backward pass and SGD with momentum on one batch. uint8 pictures are scaled
    to 0..1 on the device. XLA is used where `fit` would use it (GPU; not on a CPU alone).

    Args:
        model_name: a name of keras.applications in any case, such as `ResNet50`.
        recipe: what the batches look like.
        classes: classes of the last layer; labels must be below.
        mixed_precision: compute in float16 with float32 weights (bfloat16 on a CPU, which is slow in float16).

    Raises:
        StepError: no such model, or it does not take pictures of the recipe's size.
    """
    names = {name.lower(): name for name in application_names()}
    if model_name.lower() not in names:
        raise StepError(f"keras.applications has no model {model_name!r}; it has: {', '.join(application_names())}")
    name = names[model_name.lower()]
    grow_device_memory()
    policy = "float32"
    if mixed_precision:
        policy = "mixed_float16" if tf.config.list_physical_devices("GPU") else "mixed_bfloat16"
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = _model(getattr(keras.applications, name), recipe, classes)
    except ValueError as problem:
        raise StepError(f"{name} cannot be made for pictures of {recipe.image_size}: {problem}") from problem
    finally:
        keras.config.set_dtype_policy(before)
    return FunctionStep(_training(model), name=f"{name}{' (mixed precision)' if mixed_precision else ''}")


def _model(builder: Callable[..., keras.Model], recipe: Recipe, classes: int) -> keras.Model:
    height, width = recipe.height_width
    inputs = keras.Input((height, width, 3), dtype=recipe.dtype)
    pixels = keras.layers.Rescaling(1 / 255)(inputs) if recipe.dtype == "uint8" else inputs
    backbone = builder(weights=None, include_top=False, input_shape=(height, width, 3), pooling="avg")
    logits = keras.layers.Dense(classes)(backbone(pixels))
    # The loss must be float32: float16 overflows in the exponentials. Source: Keras's guide to mixed precision.
    logits = keras.layers.Activation("linear", dtype="float32")(logits)
    model = keras.Model(inputs, logits)
    loss = keras.losses.CategoricalCrossentropy if recipe.label_mode == "categorical" else None
    model.compile(
        optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
        loss=(loss or keras.losses.SparseCategoricalCrossentropy)(from_logits=True),
    )
    return model


def _training(model: keras.Model) -> Callable[[Any], object]:
    """The model's train_step as a TensorFlow function, as `fit` makes it with steps_per_execution 1."""
    step = tf.function(
        tf.autograph.experimental.do_not_convert(model.train_step), jit_compile=model.jit_compile, reduce_retracing=True
    )
    return lambda batch: step(batch)


def _is_builder(name: str, value: object) -> bool:
    return name[:1].isupper() and callable(value)
