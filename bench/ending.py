"""Iterators that go on threads of their own: nobody waits for their end, and how long it took is known."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

#: Name of the threads.
THREAD_NAME = "dataio-end-of-iterator"


class Ends:
    """The ends of a pipeline's iterators.

    An end waits for autotuning's thread, which now and then overhears that it is over and sleeps on, for as long as the
    epoch took. Source: own measurement and TensorFlow's stack, docs/tuning.md, "Between two epochs".
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """
        Args:
            clock: seconds, monotonic.
        """
        self._clock = clock
        self._ends: list[_End] = []
        self._uncounted: list[_End] = []

    def begin(self, held: list[Any], *, counted: bool = True) -> None:
        """Lets go what `held` holds, which must be its only owner.

        Args:
            held: the iterator; emptied by the thread.
            counted: whether `seconds` tells this end; that of an epoch that was broken off stands for no other.
        """
        (self._ends if counted else self._uncounted).append(_End(held, self._clock))

    @property
    def seconds(self) -> tuple[float, ...]:
        """What each counted end took, in order; those that still run, their time so far."""
        return tuple(end.seconds for end in self._ends)

    def wait(self) -> None:
        """Returns when all are over."""
        for end in (*self._ends, *self._uncounted):
            end.thread.join()


class _End:
    """One end, on its thread."""

    def __init__(self, held: list[Any], clock: Callable[[], float]) -> None:
        self._held, self._clock = held, clock
        self._ended: float | None = None
        self._began = clock()
        self.thread = threading.Thread(target=self._run, name=THREAD_NAME)
        self.thread.start()

    def _run(self) -> None:
        self._held.clear()
        self._ended = self._clock()

    @property
    def seconds(self) -> float:
        ended = self._ended  # once: the thread may write it meanwhile
        return (self._clock() if ended is None else ended) - self._began
