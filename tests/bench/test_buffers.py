"""What TensorFlow tells about ready batches."""

from __future__ import annotations

import time

import tensorflow as tf

from dataio.bench.buffers import ready_batches


def filled(dataset: tf.data.Dataset) -> int | None:
    """Ready batches after one was taken and the buffer had time to fill again."""
    iterator = iter(dataset)
    next(iterator)
    deadline = time.monotonic() + 5
    while not (ready := ready_batches(iterator)) and ready is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    return ready


def test_a_full_prefetch_buffer_is_seen() -> None:
    assert filled(tf.data.Dataset.range(100).batch(2).prefetch(1)) == 1


def test_it_is_seen_below_operators_that_only_hand_through() -> None:
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    dataset = tf.data.Dataset.range(100).batch(2).prefetch(1)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(50)).with_options(options)
    assert filled(dataset) == 1


def test_an_empty_buffer_has_no_ready_batch() -> None:
    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)])
    def slow(number: tf.Tensor) -> tf.Tensor:
        return tf.py_function(lambda value: (time.sleep(0.2), value)[1], [number], tf.int64)

    iterator = iter(tf.data.Dataset.range(3).map(slow).prefetch(1))
    next(iterator)
    assert ready_batches(iterator) == 0
    del iterator


def test_work_after_the_last_prefetch_means_that_nothing_is_ready() -> None:
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # else TensorFlow puts one at the end by itself
    assert filled(tf.data.Dataset.range(100).prefetch(1).batch(2).with_options(options)) is None


def test_without_autotuning_nothing_is_told() -> None:
    options = tf.data.Options()
    options.autotune.enabled = False
    assert filled(tf.data.Dataset.range(100).batch(2).prefetch(1).with_options(options)) is None
