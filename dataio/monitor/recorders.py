"""Recorders of the waits and steps of one epoch, for loops whose GetNext and step take turns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dataio.monitor.gaps import GAP_WINDOW, LONGEST_GAP_SECONDS, GapLog, split_periods
from dataio.monitor.holding import Holding
from dataio.monitor.readings import Reading

#: Share of the loop's time that readings of the model may take. Well below the 1 % that monitoring may cost.
_READING_SHARE = 0.002

#: Steps between two readings at most: half of what TensorFlow keeps, so that two readings always overlap.
_LONGEST_STRIDE = GAP_WINDOW // 2

#: Of each 100 steps on a GPU, those at whose start the device is waited for. Elsewhere the host runs ahead of it.
_SYNCHRONISED_STEPS, _SYNCHRONISED_EVERY = 20, 100

#: A wait below this may be that of a ready batch, told by its length where the buffer's state is not known.
#: Source: own measurement: GetNext of a ready 9.6 MB batch after 20 ms of sleep, 95th percentile 1.6 ms.
READY_WAIT_SECONDS = 2e-3

#: Readings that must all find a batch ready before the waits are called the floor.
_FEWEST_READINGS = 5

#: Steps of which it is judged whether a loop waits.
_RECENT_STEPS = 10

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Waits and steps of one epoch, without its first step, in which buffers fill and functions are traced."""

    wait_seconds: Floats
    """float64[observed steps]: seconds in GetNext."""
    step_seconds: Floats
    """float64[observed steps]: seconds from the end of GetNext to the start of the next."""
    steps: int
    """Steps of the epoch, observed or not."""
    first_step_seconds: float | None
    """First step: fill of the buffers, tracing and compiling included; None when it has not ended."""
    period_seconds: float | None
    """Mean time of a step and its wait, over all steps but the first; None when there are none."""
    drained_batches: Floats | None
    """float64[observed steps]: batches ready before a step less those ready before the next; None: cannot be seen."""
    all_ready: bool
    """Whether every look found a batch ready: the waits are then what handing over a ready batch costs."""
    ready_seconds: Floats = field(default_factory=lambda: np.empty(0))
    """float64[few]: seconds of steps that found their batch ready in a loop that waits, wait and step together."""


class StepRecorder(Protocol):
    """Told when a step begins and when its batch is there."""

    def begin(self) -> None:
        """GetNext is about to be called."""

    def end(self) -> None:
        """GetNext has returned with a batch; not called where that cannot be seen."""

    def exhausted(self) -> None:
        """The last `begin` found the data at their end: no step followed it."""

    def times(self) -> StepTimes:
        """What was recorded so far."""


class GapRecorder:
    """Waits from tf.data's own clock: right to some ten microseconds, and nothing is added to the pipeline."""

    def __init__(
        self,
        read: Callable[[], Reading | None],
        *,
        clock: Callable[[], float],
        synchronise: Callable[[], None] | None = None,
        holding: Holding | None = None,
    ) -> None:
        """Args:
        read: looks at the iterator's model; None once the iterator is gone.
        clock: seconds, monotonic.
        synchronise: waits until the device has done what was given to it; None where there is nothing to wait for.
        holding: holds a starved loop now and then, to time steps on ready batches; None: it is left alone.
        """
        self._holding = holding
        self._read, self._clock, self._synchronise = read, clock, synchronise
        self._begins: list[float] = []
        self._synchronised: list[bool] = []
        self._log: GapLog | None = None
        self._read_at = 0
        self._stride = 1
        self._reading_seconds = 0.0
        self._looks: list[tuple[int, Reading]] = []
        self._past_end = False

    def begin(self) -> None:
        place = len(self._begins)
        self._synchronised.append(_synchronise_at(place, self._synchronise))
        over = self._holding is None or self._holding.is_over(place)
        if place == 1 or (place - self._read_at >= self._stride and over):
            reading = self._take(place)
            if reading is not None:
                self._looks.append((place, reading))
                self._hold(place, reading)
        self._begins.append(self._clock())

    def end(self) -> None:
        """Not needed: the end of GetNext is in the gaps."""

    def exhausted(self) -> None:
        self._past_end = True

    def _hold(self, place: int, reading: Reading) -> None:
        """Lets a loop that waits be held before step `place`."""
        newest = min(len(reading.gaps), len(self._begins) - 1, _RECENT_STEPS)
        if self._holding is None or newest < 1:
            return
        seconds = self._begins[-1] - self._begins[-1 - newest]
        share = 1 - sum(reading.gaps[-newest:]) * 1e-6 / seconds
        self._holding.hold(place, reading, seconds / newest, share)

    def times(self) -> StepTimes:
        count = len(self._begins)
        self._take(count)
        begins = np.array(self._begins, dtype=np.float64)
        waits, steps = split_periods(begins, self._log.seconds() if self._log else np.empty(0))
        observed = ~np.isnan(waits)
        observed[:1] = False
        if self._synchronise is not None:
            both = np.array(self._synchronised[:-1]) & np.array(self._synchronised[1:])
            observed &= both[: len(observed)]
        periods, timed = np.diff(begins), self._holding.timed if self._holding else []
        for first, last in self._holding.disturbed if self._holding else []:
            observed[first : last + 1] = False
        ready = [look.ready for _, look in self._looks]
        change = self._drained_batches(count)
        return StepTimes(
            wait_seconds=waits[observed],
            step_seconds=steps[observed],
            steps=count - self._past_end,
            first_step_seconds=_first_step(begins),
            period_seconds=_period(begins),
            drained_batches=None if change is None else change[: len(observed)][observed],
            all_ready=len(ready) >= _FEWEST_READINGS and min(ready) > 0,
            ready_seconds=periods[[place for place in timed if place < len(periods)]],
        )

    def _drained_batches(self, count: int) -> Floats | None:
        """float64[count]: ready batches that the buffer lost during each step, interpolated between looks.

        Looks at the last steps are left out: once the data end, the buffer runs dry for that reason alone.
        """
        looks = [(place, look.ready) for place, look in self._looks if place < count - look.buffer]
        if not looks:
            return None
        places, ready = zip(*looks, strict=True)
        levels: Floats = np.interp(np.arange(count + 1), places, ready)
        return levels[:-1] - levels[1:]

    def _take(self, place: int) -> Reading | None:
        """Reads the model before step `place` begins; gaps are known up to step `place - 2` then."""
        if place < 1:
            return None
        started = self._clock()
        reading = self._read()
        if reading is None:
            return None
        if self._log is None:
            self._log = GapLog(reading.gaps)
        else:
            known = len(self._log)
            expected = max(place - 1 - known, 0)
            periods = np.diff(self._begins[known : known + expected + 1])
            self._log.add(reading.gaps, expected, np.flatnonzero(periods >= LONGEST_GAP_SECONDS).tolist())
        self._read_at = place
        # One slow reading (the first, or one after a switch of threads) must not set the pace for good.
        self._reading_seconds = 0.5 * self._reading_seconds + 0.5 * (self._clock() - started)
        period = _period(np.array(self._begins[-_LONGEST_STRIDE:]))
        wanted = self._reading_seconds / (_READING_SHARE * period) if period else 1.0
        self._stride = min(max(math.ceil(wanted), 1), _LONGEST_STRIDE)
        return reading


class CallRecorder:
    """Waits as the calling thread sees them: for pipelines without a model and for distributed datasets.

    Handing over a batch that is ready takes 0.3 to 1 ms after a step; that floor is part of each wait.
    """

    def __init__(self, *, clock: Callable[[], float], synchronise: Callable[[], None] | None = None) -> None:
        """Args: as those of `GapRecorder`."""
        self._clock, self._synchronise = clock, synchronise
        self._begins: list[float] = []
        self._ends: list[float] = []
        self._synchronised: list[bool] = []

    def begin(self) -> None:
        self._synchronised.append(_synchronise_at(len(self._begins), self._synchronise))
        self._begins.append(self._clock())

    def end(self) -> None:
        self._ends.append(self._clock())

    def exhausted(self) -> None:
        """Not needed: the step that did not follow has no end."""

    def times(self) -> StepTimes:
        begins, ends = np.array(self._begins), np.array(self._ends)
        count = max(min(len(begins) - 1, len(ends)), 0)
        waits, steps = (ends[:count] - begins[:count]), (begins[1 : count + 1] - ends[:count])
        observed = np.arange(count) > 0
        if self._synchronise is not None:
            both = np.array(self._synchronised[:-1]) & np.array(self._synchronised[1:])
            observed &= both[:count]
        waits, steps = waits[observed], steps[observed]
        return StepTimes(
            wait_seconds=waits,
            step_seconds=steps,
            steps=len(ends),
            first_step_seconds=_first_step(begins),
            period_seconds=_period(begins),
            drained_batches=None,
            all_ready=len(waits) >= _FEWEST_READINGS and bool(np.quantile(waits, 0.9) < READY_WAIT_SECONDS),
        )


def _synchronise_at(place: int, synchronise: Callable[[], None] | None) -> bool:
    if synchronise is None:
        return False
    if (place - 1) % _SYNCHRONISED_EVERY > _SYNCHRONISED_STEPS:
        return False
    synchronise()
    return True


def _first_step(begins: Floats) -> float | None:
    return float(begins[1] - begins[0]) if len(begins) > 1 else None


def _period(begins: Floats) -> float | None:
    return float((begins[-1] - begins[1]) / (len(begins) - 2)) if len(begins) > 2 else None
