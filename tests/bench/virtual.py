"""Pipelines and steps in virtual time: exact, instant, and of known stall."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from dataio.bench.ending import THREAD_NAME


class Time:
    """A clock that moves only when something is said to take time.

    On threads where iterators end, time passes beside that of the loop, which stands still until they are done.
    """

    def __init__(self) -> None:
        self._now = 100.0
        self._beside = threading.local()

    @property
    def now(self) -> float:
        return self._now + getattr(self._beside, "seconds", 0.0)

    @now.setter
    def now(self, when: float) -> None:
        if threading.current_thread().name == THREAD_NAME:
            self._beside.seconds = when - self._now
            return
        for thread in threading.enumerate():
            if thread.name == THREAD_NAME:
                thread.join()
        self._now = when

    def clock(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


class VirtualPipeline:
    """Stands in for a dataset: a producer that makes a batch every `seconds(number)` into a buffer of `buffer` batches.

    Batches are uint8[images, 1]. Each epoch begins with an empty buffer and nothing made.
    """

    def __init__(
        self,
        time: Time,
        seconds: Callable[[int], float] | float,
        *,
        buffer: int = 2,
        batches: int = 10**6,
        images: int = 4,
        get_seconds: float = 0.0,
        told_cardinality: bool = True,
        end_seconds: float = 0.0,
    ) -> None:
        self._time = time
        self._seconds = seconds if callable(seconds) else lambda number: seconds
        self._buffer, self._batches, self._get_seconds = buffer, batches, get_seconds
        self._batch = tf.zeros([images, 1], tf.uint8)
        self._told, self._end_seconds = told_cardinality, end_seconds
        self.ended_on: list[str] = []
        """For each iterator that went, the thread that waited for it; only where its end takes time."""
        self.iterators: list[VirtualIterator] = []
        self.made = 0
        """Batches made over all epochs."""

    def cardinality(self) -> tf.Tensor:
        return tf.constant(self._batches if self._told else -2, tf.int64)

    def options(self) -> tf.data.Options:
        return tf.data.Options()

    def __iter__(self) -> Iterator[Any]:
        iterator = VirtualIterator(self)
        if not self._end_seconds:  # one that is to go must have no owner here
            self.iterators.append(iterator)
        return iterator


class VirtualIterator:
    """One epoch of a VirtualPipeline."""

    def __init__(self, pipeline: VirtualPipeline) -> None:
        self._of = pipeline
        self._begun = pipeline._time.now
        self._delivered: list[float] = []
        self._taken: list[float] = []

    def __iter__(self) -> VirtualIterator:
        return self

    def __next__(self) -> tf.Tensor:
        of, number = self._of, len(self._taken)
        if number >= of._batches:
            raise StopIteration
        self._produce(number)
        of._time.now = max(of._time.now, self._delivered[number]) + of._get_seconds
        self._taken.append(of._time.now)
        return of._batch

    def __del__(self) -> None:
        if self._of._end_seconds:
            self._of.ended_on.append(threading.current_thread().name)
            self._of._time.pass_by(self._of._end_seconds)

    def ready(self) -> int:
        """Batches that are ready now."""
        number = len(self._taken)
        for ahead in range(number, min(number + self._of._buffer, self._of._batches)):
            self._produce(ahead)
        return sum(came <= self._of._time.now for came in self._delivered[number:])

    def _produce(self, number: int) -> None:
        while len(self._delivered) <= number:
            this = len(self._delivered)
            # Making a batch begins when the last one is made and there will be a place for it.
            free = self._taken[this - self._of._buffer] if this >= self._of._buffer else self._begun
            last = self._delivered[-1] if self._delivered else self._begun
            self._delivered.append(max(last, free) + self._of._seconds(self._of.made))
            self._of.made += 1


def ready_of(iterator: Any) -> int:
    """Stands in for `ready_batches`."""
    assert isinstance(iterator, VirtualIterator)
    return iterator.ready()


class VirtualStep:
    """A step of known length."""

    name = "virtual step"

    def __init__(self, time: Time, seconds: float, *, known: bool = True) -> None:
        self._time, self._seconds, self._known = time, seconds, known
        self.steps = 0

    @property
    def step_seconds(self) -> float | None:
        return self._seconds if self._known else None

    def __call__(self, batch: Any) -> None:
        self.steps += 1
        self._time.pass_by(self._seconds)
