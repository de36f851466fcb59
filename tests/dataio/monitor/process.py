"""Run as a process of its own: what a monitor does where the whole process is concerned.

    python process.py {strategy|crash}

`strategy` trains under a strategy once for each of `MODES`, with a monitor of its own, and prints the monitor's summary
as a line of JSON; `crash` ends in an error while a pipeline over a Python function is still producing.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import tensorflow as tf

from dataio import StarvationMonitor
from tests.dataio.monitor.sleeping import make_model, make_sleeper

#: `other` fits over a dataset that is not the watched one, `again` a second time over the data, watched anew.
MODES = ("mirrored", "two-watched", "other", "again")


def make_strategy() -> tf.distribute.Strategy:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def train_under(strategy: tf.distribute.Strategy, mode: str) -> None:
    monitor = StarvationMonitor(warn=False)
    with strategy.scope():
        model = make_model(0.0005)
    model.build((None, 4))
    if mode == "again":
        model.fit(monitor.watch(make_sleeper(0.001, 5)), callbacks=[monitor], verbose=0)
    train = monitor.watch(make_sleeper(0.03, 50))
    options = {"validation_data": monitor.watch(make_sleeper(0.001, 5))} if mode == "two-watched" else {}
    model.fit(make_sleeper(0.03, 50) if mode == "other" else train, callbacks=[monitor], verbose=0, **options)
    print(monitor.summary().model_dump_json(), flush=True)


def crash() -> None:
    def slow(_: object) -> np.ndarray:
        time.sleep(0.001)
        return np.zeros([8, 4], np.float32)

    def make(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        x = tf.ensure_shape(tf.numpy_function(slow, [number], tf.float32), [8, 4])
        return x, tf.zeros([8, 1])

    class Failing(StarvationMonitor):
        def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
            super().on_train_batch_begin(batch, logs)
            if batch == 5:
                raise RuntimeError("ends in the middle of an epoch")

    monitor = Failing(warn=False)
    endless = tf.data.Dataset.range(10**9).map(make, num_parallel_calls=4).prefetch(8)
    make_model(0.001).fit(monitor.watch(endless), steps_per_epoch=20, epochs=2, callbacks=[monitor], verbose=0)


if __name__ == "__main__":
    if sys.argv[1] == "crash":
        crash()
    else:
        shared = make_strategy()
        for mode in MODES:
            train_under(shared, mode)
