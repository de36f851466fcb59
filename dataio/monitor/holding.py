"""Steps on ready batches in a loop that starves: how long is a step that does not follow a wait?

A step that follows a wait takes longer than one whose batch was ready: its threads slept, the core and its
caches are cold. That time is lost to the wait as well, but it is step time to whoever times waits. So the loop is held
now and then until some batches are ready. The step after the pause is as cold as any other; the last one that finds its
batch ready follows a step that did: that one is timed. Production goes on meanwhile: a starved loop loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dataio.monitor.readings import Reading

#: Batches that must be ready when the pause ends: one for the cold step, one for the step that is timed. Where the
#: buffer holds more, so many are waited for: the more steps on end find theirs ready, the warmer is the last of them.
_FEWEST_READY, _WANTED = 2, 4

#: Steps before the first pause, between two, and how that grows once there are many timed steps.
_FIRST_STEPS, _BETWEEN, _MANY, _GROWTH, _MOST_BETWEEN = 20, 15, 20, 1.3, 1000

#: Share of waiting from which on a loop is held.
_WORTH_SHARE = 0.05

#: Longest pause, in steps and in seconds; and pauses without success after which no more are made.
_LONGEST_STEPS, _LONGEST_SECONDS = 6.0, 2.0
_MOST_FAILURES = 3

#: Between two looks at the buffer. A look takes 0.03 to 0.3 ms.
_POLL_SECONDS = 0.002


class Holding:
    """Holds the loop of one iterator, and knows which of its steps ran on ready batches."""

    def __init__(
        self,
        read: Callable[[], Reading | None],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """Args:
        read: looks at the iterator's model; None once the iterator is gone.
        clock: seconds, monotonic.
        sleep: as time.sleep.
        """
        self._read, self._clock, self._sleep = read, clock, sleep
        self._next, self._failures = _FIRST_STEPS, 0
        self.timed: list[int] = []
        """Steps that found their batch ready and followed one that did."""
        self.disturbed: list[tuple[int, int]] = []
        """First and last of the steps around each pause that are not as they would be without it."""

    def is_over(self, place: int) -> bool:
        """Whether step `place` is as it would be without a pause."""
        return not self.disturbed or place > self.disturbed[-1][1]

    def hold(self, place: int, reading: Reading, period_seconds: float, share: float) -> None:
        """Pauses before step `place`, if it is time to and the loop waits.

        Args:
            place: of the step.
            reading: a look at the model, just taken.
            period_seconds: of a step and its wait.
            share: of it that is wait.
        """
        if place < self._next or self._failures >= _MOST_FAILURES:
            return
        if reading.ready or reading.buffer < _FEWEST_READY or share < _WORTH_SHARE:
            return
        ready = self._fill(min(reading.buffer, _WANTED), min(_LONGEST_STEPS * period_seconds, _LONGEST_SECONDS))
        # Each step takes back only its wait of what was made in the pause.
        self.disturbed.append((place - 1, place + math.ceil(max(ready, 1) / share) + 1))
        between = _BETWEEN * _GROWTH ** max(len(self.timed) - _MANY, 0)
        self._next = self.disturbed[-1][1] + int(min(between, _MOST_BETWEEN))
        if ready >= _FEWEST_READY:
            self.timed.append(place + ready - 1)
            self._failures = 0
        else:
            self._failures += 1

    def _fill(self, wanted: int, longest_seconds: float) -> int:
        """Waits for `wanted` ready batches; returns how many there are."""
        started, ready = self._clock(), 0
        while ready < wanted and self._clock() - started < longest_seconds:
            self._sleep(_POLL_SECONDS)
            reading = self._read()
            if reading is None:
                break
            ready = reading.ready
        return ready
