"""Wait and step times out of tf.data's own clock: when each step began, and the gaps between two GetNext.

TensorFlow's model of a pipeline keeps, for each iterator, the microseconds between the end of one GetNext and the start
of the next (`gap_times`, the newest 100): what the consumer did meanwhile. With the times at which steps began, taken
in Python, the rest of each period is what GetNext took: the wait. Nothing is added to the pipeline itself.

Source: TensorFlow, core/kernels/data/model_dataset_op.cc (RecordIteratorGapTime at the start of GetNext) and
core/framework/model.cc (a window of 100, gaps of 10 s and more are dropped).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

#: Gaps that TensorFlow keeps. Source: kGapTimeWindow in core/framework/model.cc.
GAP_WINDOW = 100

#: Gaps of this length or more are not kept. Source: kGapDurationThresholdUsec, same file.
LONGEST_GAP_SECONDS = 10.0


class GapLog:
    """All gaps of one iterator, put together from readings of the newest 100."""

    def __init__(self, reading: Sequence[int] = ()) -> None:
        """Args:
        reading: the model's `gap_times` at the start; those gaps are not of interest.
        """
        self._gaps: list[float] = []
        self._last = list(reading)

    def __len__(self) -> int:
        return len(self._gaps)

    def add(self, reading: Sequence[int], expected: int, unknown: Sequence[int] = ()) -> None:
        """Takes a new reading of the model's `gap_times`.

        Args:
            reading: microseconds, oldest first, at most 100.
            expected: gaps that must have happened since the last reading. When fewer are found, TensorFlow dropped
                long ones.
            unknown: which of the expected gaps (from 0) may have been dropped: those of steps that took 10 s or more.
        """
        found = self._count_new(list(reading), expected)
        new = [gap * 1e-6 for gap in reading[len(reading) - found :]]
        if found == expected:
            self._gaps.extend(new)
        elif found == expected - len(unknown):
            values = iter(new)
            self._gaps.extend(np.nan if place in unknown else next(values) for place in range(expected))
        else:
            self._gaps.extend([np.nan] * expected)  # which gap belongs to which step cannot be told
        self._last = list(reading)

    def seconds(self) -> npt.NDArray[np.float64]:
        """float64[gaps]: seconds; NaN where TensorFlow kept none."""
        return np.array(self._gaps, dtype=np.float64)

    def _count_new(self, reading: list[int], expected: int) -> int:
        """How many of `reading` are new: as many as were expected, or fewer if the rest continues the last one."""
        if len(reading) < GAP_WINDOW:  # nothing has left the window: the reading goes on where the last one ended
            return len(reading) - len(self._last) if reading[: len(self._last)] == self._last else 0
        for found in range(min(expected, len(reading)), -1, -1):
            kept = len(reading) - found
            if kept <= len(self._last) and reading[:kept] == self._last[len(self._last) - kept :]:
                return found
        return 0


def split_periods(
    begins: npt.NDArray[np.float64], gaps: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Waits and steps of all steps but those whose gap is not known yet.

    A step's period runs from its GetNext to the next one. `begins` are taken in Python just before GetNext; where a
    function was traced in between, GetNext really began later: not before the one before it ended and its gap was
    over. That bound keeps the time of tracing out of the waits.

    Args:
        begins: float64[steps], seconds at which each step began.
        gaps: float64[steps - 1 or fewer], seconds between the end of GetNext of a step and the start of the next; NaN
            where unknown.

    Returns:
        (wait_seconds, step_seconds), float64[gaps] each, NaN where the gap is unknown.
    """
    count = min(len(gaps), len(begins) - 1)
    waits = np.full(max(count, 0), np.nan)
    if count < 1:
        return waits, waits.copy()
    start = begins[0]
    for place in range(count):
        gap = gaps[place]
        following = begins[place + 1]
        if np.isnan(gap):
            start = following
            continue
        following = max(following, start + gap)
        waits[place] = following - start - gap
        start = following
    return waits, np.array(gaps[:count], dtype=np.float64)
