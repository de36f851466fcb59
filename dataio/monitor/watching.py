"""The dataset that a monitor watches: the same elements, and its iterators are known to the monitor."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from typing import Any, Protocol

import tensorflow as tf

from dataio.monitor.asking import keras_method
from dataio.monitor.recorders import StepRecorder


class Watcher(Protocol):
    """Whom a watched dataset tells what happens to it."""

    def add_watched(self, dataset: WatchedDataset, *, instead_of: WatchedDataset | None) -> None:
        """There is a new watched dataset, derived from another one or not."""

    def open_iterator(self, dataset: WatchedDataset, method: str | None) -> Any:
        """A new iterator over the dataset.

        Args:
            dataset: which.
            method: of Keras's, that asks for it; None: a loop of the user's.
        """


class BatchCounter:
    """Counts batches as a pipeline delivers them, wherever TensorFlow fetches them."""

    def __init__(self) -> None:
        # A bare resource: a tf.Variable made inside a strategy's scope would be mirrored and could not be counted up
        # in a dataset.
        with tf.init_scope(), tf.device("CPU:0"):
            self._handle = tf.raw_ops.VarHandleOp(
                dtype=tf.int64, shape=[], shared_name=f"dataio_batches_{uuid.uuid4().hex}"
            )
            tf.raw_ops.AssignVariableOp(resource=self._handle, value=tf.constant(0, tf.int64))
            self._one = tf.constant(1, tf.int64)

    def count(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """`dataset`, whose batches are counted as they pass."""

        def passing(*batch: Any) -> Any:
            tf.raw_ops.AssignAddVariableOp(resource=self._handle, value=self._one)
            return batch if len(batch) > 1 else batch[0]

        return dataset.map(passing)

    def value(self) -> int:
        """Batches that have passed so far."""
        return int(tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=tf.int64))


class WatchedDataset(tf.data.Dataset):  # type: ignore[misc]
    """A dataset whose iterators a monitor knows. Its elements and their order are those of `plain`."""

    def __init__(self, plain: tf.data.Dataset, watcher: Watcher, *, instead_of: WatchedDataset | None = None) -> None:
        self.plain = plain
        """The dataset as it was given; a loop that can be timed iterates over this one."""
        self.counter = BatchCounter()
        """Counts what `counted` delivers."""
        self.counted = self.counter.count(plain)
        """The dataset with its batches counted: what strategies, which make their own iterators, get to see."""
        self._watcher = watcher
        super().__init__(tf.data.experimental.to_variant(self.counted))
        watcher.add_watched(self, instead_of=instead_of)

    def is_watched_by(self, watcher: Watcher) -> bool:
        """Whether it tells `watcher`."""
        return self._watcher is watcher

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self.counted]

    @property
    def element_spec(self) -> Any:
        """As that of `plain`."""
        return self.plain.element_spec

    def __iter__(self) -> Any:
        if not tf.executing_eagerly():
            return super().__iter__()
        return self._watcher.open_iterator(self, keras_method(sys._getframe(1)))

    # Keras maps and prefetches the dataset it is given when `fit` has class weights; what it gets stays watched.
    def map(self, *arguments: Any, **options: Any) -> WatchedDataset:
        """As tf.data.Dataset.map; the result is watched too."""
        return WatchedDataset(self.plain.map(*arguments, **options), self._watcher, instead_of=self)

    def prefetch(self, *arguments: Any, **options: Any) -> WatchedDataset:
        """As tf.data.Dataset.prefetch; the result is watched too."""
        return WatchedDataset(self.plain.prefetch(*arguments, **options), self._watcher, instead_of=self)

    @property
    def is_told(self) -> bool:
        """Whether TensorFlow keeps a model of its iterators; asking one that has none prints a warning."""
        return self.plain.options().autotune.enabled is not False

    def batch_bytes(self) -> int | None:
        """Bytes of a batch; None where its shape or type does not tell."""
        total = 0
        for spec in tf.nest.flatten(self.element_spec):
            if not isinstance(spec, tf.TensorSpec) or spec.shape.num_elements() is None:
                return None
            if spec.dtype == tf.string or spec.dtype.size is None:
                return None
            total += spec.shape.num_elements() * spec.dtype.size
        return total

    def batch_size(self) -> int | None:
        """Pictures a batch; None where the shape does not tell."""
        return batch_size_of(self.element_spec)


def batch_size_of(element_spec: Any) -> int | None:
    """First dimension of the first tensor of a batch; None where it is not fixed."""
    first = tf.nest.flatten(element_spec)[0]
    shape = getattr(first, "shape", None)
    return shape[0] if shape is not None and shape.rank else None


class TimedIterator:
    """Hands on the batches of an iterator and tells a recorder when each is asked for and when it is there."""

    def __init__(self, iterator: Any, recorder: StepRecorder) -> None:
        self._iterator, self._recorder = iterator, recorder

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._recorder.begin()
        try:
            batch = next(self._iterator)
        except StopIteration:
            self._recorder.exhausted()
            raise
        self._recorder.end()
        return batch

    def get_next(self) -> Any:
        """As tf.data.Iterator.get_next: raises tf.errors.OutOfRangeError at the end."""
        try:
            return next(self)
        except StopIteration:
            raise tf.errors.OutOfRangeError(None, None, "end of the watched dataset") from None

    @property
    def element_spec(self) -> Any:
        """As that of the iterator."""
        return self._iterator.element_spec


class TimedDistributed:
    """A distributed dataset whose `next` is timed; each iteration is an epoch."""

    def __init__(self, dataset: Any, open_timed: Any) -> None:
        self.plain = dataset
        """The dataset as it was given."""
        self._open_timed = open_timed

    def __iter__(self) -> TimedIterator:
        timed: TimedIterator = self._open_timed(self.plain)
        return timed

    def __len__(self) -> int:
        return len(self.plain)

    @property
    def element_spec(self) -> Any:
        """As that of the dataset."""
        return self.plain.element_spec
