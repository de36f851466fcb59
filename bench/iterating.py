"""A pipeline that is being read: batch after batch, epoch after epoch, and never alive when it should not be."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import tensorflow as tf

from dataio.bench.buffers import ready_batches
from dataio.bench.ending import Ends
from dataio.errors import RecipeError

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Got:
    """One batch and when it came."""

    batch: Any
    """What the pipeline yielded."""
    asked: float
    """Clock when it was asked for."""
    came: float
    """Clock when it was there."""
    position: int
    """Its number within its epoch, from 0."""
    epoch: int
    """Its epoch, from 0."""

    @property
    def images(self) -> int:
        """Pictures in the batch; counted when asked, because a timed loop should not pay for it."""
        first = tf.nest.flatten(self.batch)[0]
        return int(first.shape[0]) if first.shape.rank else 1


class LivePipeline:
    """Reads a dataset as training does: a new iterator for every epoch, without end.

    A context manager: on leaving the block no iterator is left. A process that ends while an iterator with a
    `numpy_function` still produces hangs or aborts (own measurement on TensorFlow 2.21: 2 of 3 runs).
    """

    def __init__(
        self, build: Callable[[], tf.data.Dataset], *, name: str = "pipeline", clock: Clock = time.perf_counter
    ) -> None:
        """
        Args:
            build: makes the dataset; called once, on entering.
            name: what errors call the pipeline.
            clock: seconds, monotonic.
        """
        self.name = name
        self._build, self._clock = build, clock
        self._dataset: tf.data.Dataset | None = None
        self._iterator: Iterator[Any] | None = None
        self._position = self._epoch = 0
        self._began = 0.0
        self._ends = Ends(clock)
        self.first_batch_seconds: list[float] = []
        """For each epoch begun: from asking for an iterator to the first batch, seconds."""
        self.epoch_seconds: list[float] = []
        """For each epoch that ended: from asking for its iterator to knowing that it has no more batches."""
        self.epoch_batches: int | None = None
        """Batches in an epoch; None while unknown."""

    def __enter__(self) -> Self:
        self._dataset = self._build()
        known = int(self._dataset.cardinality().numpy())
        self.epoch_batches = known if known >= 0 else None
        if known == 0:
            raise self._no_batch()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop(counted=False)
        self._ends.wait()
        self._dataset = None
        gc.collect()

    @property
    def iterator(self) -> Iterator[Any] | None:
        """The iterator of the epoch in progress."""
        return self._iterator

    @property
    def epoch(self) -> int:
        """The epoch that the next batch of the current iterator belongs to, from 0."""
        return self._epoch

    @property
    def end_seconds(self) -> tuple[float, ...]:
        """For each epoch that ended: how long its iterator took to go, on a thread of its own; where it still goes, so
        far. A training loop waits for it."""
        return self._ends.seconds

    def ready(self) -> int:
        """Finished batches that wait in the buffer at the pipeline's end; 0 where it does not tell."""
        # Without autotuning there is no model to ask, and TensorFlow would write a warning for every question.
        if self._iterator is None or self._dataset is None or self._dataset.options().autotune.enabled is False:
            return 0
        return ready_batches(self._iterator) or 0

    def advance(self) -> Got:
        """The next batch, from the next epoch when this one is over.

        Raises:
            RecipeError: an epoch has no batch at all.
        """
        asked = self._clock()
        if self._iterator is not None:
            batch = next(self._iterator, None)
            if batch is not None:
                self._position += 1
                return self._got(batch, asked)
            self.epoch_batches = self._position + 1
            self.epoch_seconds.append(self._clock() - self._began)
            self._drop()
            self._epoch += 1
            asked = self._clock()
        self._position, self._began = 0, asked
        if self._dataset is None:
            raise RuntimeError("a LivePipeline is read inside its `with` block")
        self._iterator = iter(self._dataset)
        batch = next(self._iterator, None)
        if batch is None:
            raise self._no_batch()
        got = self._got(batch, asked)
        self.first_batch_seconds.append(got.came - got.asked)
        return got

    def _got(self, batch: Any, asked: float) -> Got:
        return Got(batch, asked, self._clock(), self._position, self._epoch)

    def _drop(self, *, counted: bool = True) -> None:
        if self._iterator is None:
            return
        held = [self._iterator]
        self._iterator = None
        self._ends.begin(held, counted=counted)

    def _no_batch(self) -> RecipeError:
        return RecipeError(
            f"{self.name}: the split does not fill a single batch, so there is nothing to measure; use a smaller "
            "batch_size, or drop_remainder=False"
        )
