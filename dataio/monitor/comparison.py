"""Stall without seeing any wait: what the loop takes, against what it takes when its batches are ready.

Where several steps run in one call, or a strategy fetches in its own threads, GetNext runs while a step does, and the
time it takes is no wait. What can be seen is when executions begin. The recorder holds the loop for a moment until the
pipeline's buffers are full, takes the time of an execution then, and compares: stall = 1 - ready time / usual time. The
first execution after a pause is slower than one that follows another, since the threads slept: where the buffers hold
enough for two, the second is taken.
A starved loop loses nothing by the pause, since production goes on meanwhile; a fed one finds its buffers full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from dataio.stall import Stall

#: Usual executions between two pauses, and how that grows once there are many ready executions: a pause loses next to
#: no time, but it takes the executions around it out of the usual ones.
_USUAL_BETWEEN, _MANY_READY, _GROWTH, _MOST_BETWEEN = 5, 30, 1.3, 1000

#: Pauses without success after which no more are made: the buffers do not hold an execution's batches.
_MOST_FAILURES = 3

#: Longest pause, and how long production must stand still before the buffers count as full.
_LONGEST_PAUSE_SECONDS = 5.0
_SHORTEST_QUIET_SECONDS, _LONGEST_QUIET_SECONDS = 0.005, 2.0
_POLL_SECONDS = 0.001

#: Executions after a pause, and at the start of an epoch, that are left out at most while the buffers are fuller than
#: usual. At a start "usual" is not known: until they run dry.
_LONGEST_DRAIN, _LONGEST_START = 20, 8

#: Ready executions and usual ones without which nothing is said.
FEWEST_READY, FEWEST_USUAL = 3, 10


class ReadyRecorder:
    """Times of executions, usual ones and those that found all their batches ready."""

    def __init__(
        self,
        produced: Callable[[], int],
        *,
        batches_per_execution: int,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        synchronise: Callable[[], None] | None = None,
    ) -> None:
        """Args:
        produced: batches that the pipeline has delivered into the loop's buffers so far.
        batches_per_execution: batches that one call of the train function takes.
        clock: seconds, monotonic.
        sleep: as time.sleep.
        synchronise: waits for the device; None where there is none to wait for.
        """
        self._produced, self._size = produced, batches_per_execution
        self._clock, self._sleep, self._synchronise = clock, sleep, synchronise
        self.usual_seconds: list[float] = []
        """Seconds of executions that ran as they do without us."""
        self.ready_seconds: list[float] = []
        """Seconds of executions whose batches were ready when they began."""
        self.first_seconds: list[float] = []
        """Seconds of each epoch's first execution."""
        self._since = self._failures = 0
        self._full: int | None = None
        self._filled = self._dry = False
        self._base = self._taken = self._level = self._drained = self._place = 0
        self._longest_drain = _LONGEST_START
        self._began: float | None = None
        self._state: Literal["first", "usual", "warming", "ready", "draining"] = "usual"

    def start_epoch(self, *, same_iterator: bool) -> None:
        """A new epoch begins, with a new iterator or with the one that the last epoch used."""
        self._place, self._drained, self._dry, self._state = 0, 0, False, "usual"
        self._began = None
        if not same_iterator:
            self._base, self._taken = self._produced(), 0

    def begin(self) -> None:
        """An execution is about to be called."""
        self._close()
        self._place += 1
        available = self._available()
        if self._state == "draining":
            self._drained += 1
            if self._dry or self._drained > self._longest_drain:
                self._state = "usual"
            # The execution that finds the buffers as usual is left out too: its next batch is half made already.
            self._dry = available <= self._level
        if self._state == "warming":
            if self._synchronise is not None:
                self._synchronise()
            self._judge(available)
        if self._place == 1:
            self._state = "first"
        elif self._state == "usual" and self._is_pause():
            self._hold(available)
        self._taken += self._size
        self._began = self._clock()

    def finish(self) -> None:
        """The epoch is over; its last execution is left out, since what follows it is not known."""
        self._began = None

    def _available(self) -> int:
        return self._produced() - self._base - self._taken

    def _is_pause(self) -> bool:
        more = max(len(self.ready_seconds) - _MANY_READY, 0)
        between = min(_USUAL_BETWEEN * _GROWTH**more, _MOST_BETWEEN)
        return self._since >= between and self._failures < _MOST_FAILURES

    def _hold(self, level: int) -> None:
        """Waits until the buffers are full; the coming execution is a ready one if they hold enough."""
        if self._synchronise is not None:
            self._synchronise()
        self._since = 0
        self._filled = self._full is None or level < self._full
        available = self._fill(level) if self._filled else level
        self._level, self._longest_drain = level, _LONGEST_DRAIN
        self._drained, self._dry = 0, False
        if available is None:
            self._state = "draining"
            self._failures += 1
            return
        if self._filled and available >= 2 * self._size:
            self._state = "warming"
        else:
            self._judge(available)

    def _judge(self, available: int) -> None:
        """The coming execution is a ready one if there are enough batches for it."""
        self._state = "ready" if available >= self._size else "draining"
        self._failures = 0 if available >= self._size else self._failures + 1

    def _fill(self, available: int) -> int | None:
        """Waits until as many batches are there as once when production had stopped; returns how many, or None when
        that takes too long."""
        quiet = 2 * float(np.mean(self.usual_seconds[-20:] or [0.1])) / self._size
        quiet = min(max(quiet, _SHORTEST_QUIET_SECONDS), _LONGEST_QUIET_SECONDS)
        started = changed = self._clock()
        while self._full is None or available < self._full:
            self._sleep(min(_POLL_SECONDS, quiet / 4))
            now = self._clock()
            if self._available() != available:
                available, changed = self._available(), now
            elif now - changed >= quiet:
                self._full = max(self._full or 0, available)
                return available
            if now - started > _LONGEST_PAUSE_SECONDS:
                return None
        return available

    def _close(self) -> None:
        """Files the execution that began last."""
        if self._began is None:
            return
        if self._state == "ready" and self._synchronise is not None:
            self._synchronise()
        seconds = self._clock() - self._began
        if self._state == "first":
            self.first_seconds.append(seconds)
            # While functions were traced and compiled the buffers filled up.
            self._state, self._level, self._drained, self._dry = "draining", self._size - 1, 0, False
            self._longest_drain = _LONGEST_START
        elif self._state == "ready":
            self.ready_seconds.append(seconds)
            self._state = "draining" if self._filled else "usual"
        elif self._state == "usual":
            self.usual_seconds.append(seconds)
            self._since += 1


def compare(
    usual_seconds: Sequence[float], ready_seconds: Sequence[float], *, resamples: int = 1000, seed: int = 0
) -> Stall | None:
    """The stall of executions that usually take `usual_seconds`, or None when there are too few of either kind.

    1 - mean(ready) / mean(usual), in [0, 1]; the interval (95 %) is a bootstrap over both. Means on both sides: what
    now and then holds up an execution holds up either kind.
    """
    if len(ready_seconds) < FEWEST_READY or len(usual_seconds) < FEWEST_USUAL:
        return None
    usual, ready = np.asarray(usual_seconds, dtype=np.float64), np.asarray(ready_seconds, dtype=np.float64)
    generator = np.random.default_rng(seed)
    usual_means = np.mean(generator.choice(usual, (resamples, len(usual))), axis=1)
    ready_means = np.mean(generator.choice(ready, (resamples, len(ready))), axis=1)
    draws = np.clip(1 - ready_means / usual_means, 0, 1)
    value = float(np.clip(1 - np.mean(ready) / np.mean(usual), 0, 1))
    low, high = np.quantile(draws, [0.025, 0.975])
    return Stall(value=value, low=min(float(low), value), high=max(float(high), value))
