"""Pipelines are read as they were written."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from dataio.bench.traps.graph import read_pipeline
from dataio.errors import StepError
from tests.bench.traps.pipelines import good


def kinds(dataset: tf.data.Dataset) -> list[str]:
    return [operator.kind for operator in read_pipeline(dataset).operators]


def test_operators_come_from_the_source_to_the_end() -> None:
    dataset = tf.data.Dataset.range(10).map(lambda x: x + 1).shuffle(4).batch(2).prefetch(3)
    assert kinds(dataset) == ["Range", "Map", "Shuffle", "Batch", "Prefetch"]
    last = read_pipeline(dataset).last
    assert str(last) == "prefetch (operator 5)"
    assert last.number(0) == 3


def test_functions_tell_what_they_call_also_through_other_functions() -> None:
    @tf.function
    def inner(x: tf.Tensor) -> tf.Tensor:
        return tf.random.uniform([]) + tf.cast(x, tf.float32)

    (mapped,) = read_pipeline(tf.data.Dataset.range(4).map(lambda x: inner(x) * 2)).of("Map")
    assert {"RandomUniform", "Mul"} <= mapped.calls


def test_operators_inside_functions_are_found_and_marked() -> None:
    dataset = tf.data.TFRecordDataset(["a", "b"], num_parallel_reads=2, compression_type="GZIP")
    (record,) = read_pipeline(dataset).of("TFRecord")
    assert record.nested
    (source,) = read_pipeline(dataset).of("TensorSlice")
    assert source.arguments[0].tolist() == [b"a", b"b"]


def test_options_that_were_set_are_told_by_name() -> None:
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    assert read_pipeline(good().with_options(options)).options["threading.private_threadpool_size"] == 3


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((2, 3), tf.float32, 24),
        ((), tf.int64, 8),
        ((None, None, 3), tf.uint8, 375 * 500 * 3),
        ((None,), tf.int32, None),
    ],
)
def test_bytes_of_an_element_follow_from_shape_and_type(shape: tuple, dtype: tf.DType, expected: int | None) -> None:
    def make(_: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(lambda: np.zeros(1), [], dtype), shape)

    dataset = tf.data.Dataset.range(1).map(make)
    assert read_pipeline(dataset).last.element_bytes == expected


def test_strings_have_no_known_size() -> None:
    assert read_pipeline(tf.data.Dataset.from_tensors("abc")).last.element_bytes is None


def test_a_copy_to_a_device_hides_nothing_below_it() -> None:
    dataset = tf.data.Dataset.range(8).batch(2).apply(tf.data.experimental.prefetch_to_device("/cpu:0", 2))
    assert kinds(dataset) == ["Range", "Batch", "CopyToDevice", "Prefetch"]


def test_large_arrays_are_not_copied_to_be_looked_at() -> None:
    dataset = tf.data.Dataset.from_tensor_slices(np.zeros([3_000_000], np.uint8))
    (source,) = read_pipeline(dataset).operators
    assert source.arguments[0].shape == (3_000_000,)
    assert source.arguments[0].strides == (0,)


def test_a_variable_in_the_pipeline_does_not_keep_it_from_being_read() -> None:
    counter = tf.Variable(0, dtype=tf.int64)
    assert kinds(tf.data.Dataset.range(2).map(lambda x: x + counter.assign_add(1))) == ["Range", "Map"]


def test_joined_pipelines_are_read_on_all_sides() -> None:
    dataset = tf.data.Dataset.zip(tf.data.Dataset.range(3), tf.data.Dataset.range(4).batch(2))
    pipeline = read_pipeline(dataset)
    assert [operator.kind for operator in pipeline.operators] == ["Range", "Range", "Batch", "Zip"]
    assert {operator.kind for operator in pipeline.below(pipeline.last)} == {"Range", "Batch"}


def test_two_sources_that_cannot_be_written_as_a_graph_are_an_error() -> None:
    def device() -> tf.data.Dataset:
        return tf.data.Dataset.range(4).apply(tf.data.experimental.copy_to_device("/cpu:0"))

    with pytest.raises(StepError, match="cannot be read as a graph"):
        read_pipeline(tf.data.Dataset.zip(device(), device()))
