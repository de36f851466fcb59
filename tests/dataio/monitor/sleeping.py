"""Pipelines of known rate and models of known step time."""

from __future__ import annotations

import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing


def make_sleeper(
    produce_seconds: float, batches: int, *, prefetch: int = 2, batch_size: int = 8, autotune: bool = True
) -> tf.data.Dataset:
    """Batches that a C++ operator holds back for `produce_seconds` each, without the interpreter's lock."""
    x, y = np.zeros([batch_size, 4], np.float32), np.zeros([batch_size, 1], np.float32)
    data = tf.data.Dataset.from_tensors((x, y)).repeat(batches)
    data = data.apply(testing.sleep(int(produce_seconds * 1e6))).prefetch(prefetch)
    options = tf.data.Options()
    options.autotune.enabled = autotune
    return data.with_options(options)


class SleepingModel(keras.Model):  # type: ignore[misc]
    """A model whose training step sleeps, once its batch is there."""

    def __init__(self, step_seconds: float) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.step_seconds = step_seconds

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, data: Any) -> dict[str, Any]:
        def hold(_: Any) -> np.float32:
            time.sleep(self.step_seconds)
            return np.float32(0)

        # Taking the batch in makes the step wait for it; a step that ignored it would run beside GetNext.
        return {"loss": tf.numpy_function(hold, [data[0][0, 0]], tf.float32)}


def make_model(step_seconds: float, **compile_options: Any) -> SleepingModel:
    model = SleepingModel(step_seconds)
    model.compile(optimizer="sgd", loss="mse", **compile_options)
    return model
