"""A tf.data pipeline that was not built by dataio, and its diagnosis.

    cd docs/examples && DATA=FOLDER dataio bench --dataset own_pipeline:make_dataset --step-ms 20

or, as here, from Python:

    DATA=FOLDER python docs/examples/own_pipeline.py
"""

import os
from pathlib import Path

import tensorflow as tf

from dataio.bench.diagnosing import diagnose
from dataio.bench.diagnosis_text import describe_diagnosis
from dataio.bench.step import SimulatedAccelerator


def load(path: tf.Tensor) -> tf.Tensor:
    """Reads, decodes and resizes a picture."""
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), (96, 96))


def make_dataset() -> tf.data.Dataset:
    """A pipeline with three mistakes: a serial map, a cache of random pictures, and no prefetch."""
    files = [str(path) for path in sorted(Path(os.environ["DATA"]).rglob("*.jpg"))]
    pictures = tf.data.Dataset.from_tensor_slices(files).map(load)
    return pictures.map(tf.image.random_flip_left_right).cache().batch(8, drop_remainder=True)


if __name__ == "__main__":
    step = SimulatedAccelerator(0.020)
    print(describe_diagnosis(diagnose(make_dataset, name="own_pipeline", step=step, budget_seconds=6)))
