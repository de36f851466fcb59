"""The number of the epoch that an iterator belongs to: counted once an iterator, settable, never frozen by a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataio.errors import DataioError

if TYPE_CHECKING:
    import tensorflow as tf


class EpochClock:
    """Counts the iterators made over a pipeline; the first one's epoch is `initial_epoch`.

    Keras opens one iterator an epoch. Two exceptions: under a distribution strategy its `fit` opens one more
    before the first epoch, and a stray `next(iter(dataset))` counts too. `set_next` puts it right.
    """

    def __init__(self, initial_epoch: int) -> None:
        import tensorflow as tf

        self._number = tf.Variable(initial_epoch - 1, dtype=tf.int64, trainable=False, name="dataio_epoch")

    def token(self) -> tf.data.Dataset:
        """A dataset of one int64[]: every new iterator over it moves the count on by one and yields it."""
        import tensorflow as tf

        return tf.data.Dataset.range(1).map(lambda _: self._number.assign_add(1))

    def set_next(self, epoch: int) -> None:
        """The next iterator belongs to `epoch`, from 0."""
        self._number.assign(epoch - 1)


def epoch_clock(dataset: tf.data.Dataset) -> EpochClock:
    """The clock of a dataset that `build(training=True)` made, or of one derived from it.

    A Keras callback that calls `epoch_clock(train).set_next(epoch)` in `on_epoch_begin` keeps epochs right under a
    distribution strategy and after a restart.

    Raises:
        DataioError: no dataset that `build` made for training is among its inputs.
    """
    waiting = [dataset]
    while waiting:
        current = waiting.pop()
        clock = getattr(current, "_dataio_clock", None)
        if isinstance(clock, EpochClock):
            return clock
        waiting.extend(current._inputs())
    raise DataioError("this dataset was not made by dataio.build(training=True): it has no epoch of its own")


def attach_clock(dataset: tf.data.Dataset, clock: EpochClock) -> tf.data.Dataset:
    """`dataset`, holding on to `clock`: tf.data itself keeps no reference to the Variable in it."""
    dataset._dataio_clock = clock
    return dataset
