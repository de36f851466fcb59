"""Steps of keras.applications."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from dataio.bench.keras_step import application_names, keras_step
from dataio.errors import StepError
from dataio.recipe import Recipe


def test_a_model_trains_on_uint8_batches_in_mixed_precision_and_leaves_no_policy_behind() -> None:
    recipe = Recipe(image_size=32, batch_size=4, dtype="uint8", label_mode="categorical")
    step = keras_step("mobilenet", recipe, classes=5, mixed_precision=True)
    images = tf.constant(np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8))
    step((images, tf.one_hot([0, 1, 2, 3], 5)))
    assert step.name == "MobileNet (mixed precision)"
    assert step.step_seconds is None
    assert keras.config.dtype_policy().name == "float32"


def test_an_unknown_model_lists_those_there_are() -> None:
    with pytest.raises(StepError, match=r"no model 'ResNet51'; it has: .*MobileNetV2, .*ResNet50"):
        keras_step("ResNet51", Recipe())


def test_a_picture_too_small_for_the_model_is_refused() -> None:
    with pytest.raises(StepError, match="InceptionV3 cannot be made for pictures of 32"):
        keras_step("InceptionV3", Recipe(image_size=32))


def test_only_models_are_offered() -> None:
    assert "ResNet50" in application_names()
    assert not {"resnet", "preprocess_input"} & set(application_names())
