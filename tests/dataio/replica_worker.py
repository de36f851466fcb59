"""Run as a process of its own: reads a folder under a strategy and prints which records its replicas got.

    python replica_worker.py {mirrored|workers} FOLDER

Every class of the folder holds one picture, so that the label names the record.
"""

from __future__ import annotations

import json
import os
import sys

import tensorflow as tf

import dataio

EPOCHS = 2


def labels_of(value: object) -> list[list[int]]:
    """For each local replica, the labels in its batch."""
    strategy = tf.distribute.get_strategy()
    return [one.numpy().tolist() for one in strategy.experimental_local_results(value)]


def recipe() -> dataio.Recipe:
    return dataio.Recipe(image_size=8, batch_size=4, drop_remainder=False, seed=3)


def read(strategy: tf.distribute.Strategy, dataset: object) -> list[list[int]]:
    """For each epoch, the labels of all local replicas."""
    epochs = []
    with strategy.scope():
        for _ in range(EPOCHS):
            seen: list[int] = []
            for _, labels in dataset:  # type: ignore[attr-defined]
                for part in labels_of(labels):
                    seen.extend(part)
            epochs.append(seen)
    return epochs


def main(mode: str, folder: str) -> None:
    data = dataio.open(folder)
    split = next(iter(data.splits))
    if mode == "workers":
        strategy: tf.distribute.Strategy = tf.distribute.MultiWorkerMirroredStrategy()

        def build(context: tf.distribute.InputContext) -> tf.data.Dataset:
            part = {"num_shards": context.num_input_pipelines, "shard_index": context.input_pipeline_id}
            return dataio.build(data, recipe(), split=split, **part)

        epochs = read(strategy, strategy.distribute_datasets_from_function(build))
        worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    else:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        # Pixels in a store outside tf.data, which must be found through what the strategy makes of the pipeline.
        plan = dataio.Plan(kernel="opencv", cache="decoded")
        dataset = dataio.build(data, recipe(), plan, split=split)
        epochs = read(strategy, strategy.experimental_distribute_dataset(dataset))
        worker = 0
    print(json.dumps({"worker": worker, "epochs": epochs}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
