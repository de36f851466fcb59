"""The epochs that a monitor has seen, each with its recorder, and their summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dataio.monitor.comparison import ReadyRecorder
from dataio.monitor.recorders import StepRecorder, StepTimes
from dataio.monitor.summary import EpochSummary, summarise_comparison, summarise_times


@dataclass
class TimedEpoch:
    """An epoch whose waits are timed."""

    number: int
    recorder: StepRecorder | None
    """Gone once the epoch is over."""
    batch_size: int | None
    finished: StepTimes | None = None

    @property
    def times(self) -> StepTimes:
        """Waits and steps so far, or of the whole epoch."""
        if self.finished is not None:
            return self.finished
        assert self.recorder is not None, "an epoch that is not finished has its recorder"
        return self.recorder.times()

    def finish(self) -> None:
        """Keeps the times and lets go of the recorder, and with it of the iterator."""
        if self.finished is None:
            self.finished = self.times
            self.recorder = None

    def summary(self) -> EpochSummary:
        return summarise_times(self.number, self.times, self.batch_size)


@dataclass
class ComparedEpoch:
    """An epoch whose executions are compared with those on ready batches; the recorder serves all epochs of a fit."""

    number: int
    recorder: ReadyRecorder
    images_per_execution: int | None
    executions: int = 0
    first: tuple[int, int] = field(init=False)
    """Lengths of the recorder's lists when the epoch began."""
    last: tuple[int, int] | None = field(default=None, init=False)
    """The same when it ended."""

    def __post_init__(self) -> None:
        self.first = self._lengths()

    def finish(self) -> None:
        """Marks what belongs to this epoch."""
        if self.last is None:
            self.recorder.finish()
            self.last = self._lengths()

    @property
    def usual_seconds(self) -> Sequence[float]:
        """Seconds of this epoch's usual executions."""
        return self.recorder.usual_seconds[self.first[0] : (self.last or self._lengths())[0]]

    def summary(self) -> EpochSummary:
        firsts = self.recorder.first_seconds[self.first[1] : (self.last or self._lengths())[1]]
        return summarise_comparison(
            self.number,
            self.usual_seconds,
            self.recorder,
            steps=self.executions,
            first_step_seconds=firsts[0] if firsts else None,
            images_per_execution=self.images_per_execution,
        )

    def _lengths(self) -> tuple[int, int]:
        return len(self.recorder.usual_seconds), len(self.recorder.first_seconds)


Epoch = TimedEpoch | ComparedEpoch
