"""Normalisation on the device gives the host's numbers."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import dataio
from dataio.device import DevicePreprocessing, host_recipe
from dataio.recipe import Recipe
from dataio.stages.finishing import make_finisher

EVERY_LEVEL = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 16, 16, 3)
MODELS = [
    ("float32", "none"),
    ("float32", "unit"),
    ("float32", "signed"),
    ("float32", "imagenet"),
    ("float16", "imagenet"),
    ("bfloat16", "unit"),
    ("uint8", "none"),
]


def on_the_host(recipe: Recipe) -> tf.Tensor:
    batch = {"image": tf.constant(EVERY_LEVEL), "label": tf.constant([0], tf.int64)}
    return make_finisher(recipe, 1)(batch)[0]


@pytest.mark.parametrize(("dtype", "normalisation"), MODELS)
def test_every_level_becomes_what_the_host_makes_of_it(dtype: str, normalisation: str) -> None:
    recipe = Recipe(image_size=16, dtype=dtype, normalisation=normalisation)
    inputs = keras.Input((16, 16, 3), dtype="uint8")
    model = keras.Model(inputs, dataio.device_preprocessing(recipe)(inputs))
    found = tf.function(model)(EVERY_LEVEL)
    assert found.dtype == dtype
    tf.debugging.assert_equal(found, on_the_host(recipe))


def test_xla_changes_the_last_bit_at_most() -> None:
    recipe = Recipe(image_size=16, normalisation="imagenet")
    layer = dataio.device_preprocessing(recipe)
    found = tf.function(layer, jit_compile=True)(EVERY_LEVEL)
    # Two roundings near 2.6 become one: half a unit in the last place of float32 there is 1.2e-7.
    np.testing.assert_allclose(found, on_the_host(recipe), rtol=0, atol=2.5e-7)


def test_a_mixed_precision_policy_leaves_the_numbers_alone() -> None:
    recipe = Recipe(image_size=16, normalisation="imagenet")
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        inputs = keras.Input((16, 16, 3), dtype="uint8")
        model = keras.Model(inputs, dataio.device_preprocessing(recipe)(inputs))
        found = model(EVERY_LEVEL)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    tf.debugging.assert_equal(found, on_the_host(recipe))


def test_a_saved_model_keeps_the_recipe(tmp_path: Path) -> None:
    recipe = Recipe(image_size=16, normalisation="signed", seed=7)
    inputs = keras.Input((16, 16, 3), dtype="uint8")
    model = keras.Model(inputs, dataio.device_preprocessing(recipe, name="pixels")(inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    layer = loaded.get_layer("pixels")
    assert isinstance(layer, DevicePreprocessing)
    assert layer.recipe == recipe
    tf.debugging.assert_equal(loaded(EVERY_LEVEL), model(EVERY_LEVEL))


def test_the_hosts_part_is_uint8_and_otherwise_the_same() -> None:
    recipe = Recipe(image_size=(32, 48), normalisation="imagenet", seed=3)
    host = host_recipe(recipe)
    assert (host.dtype, host.normalisation) == ("uint8", "none")
    assert host.replace(dtype=recipe.dtype, normalisation=recipe.normalisation) == recipe
    assert host.batch_bytes == recipe.batch_bytes / 4
