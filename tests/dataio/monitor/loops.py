"""A training loop under a fake clock: a producer, a buffer and a step, as the recorders see them."""

from __future__ import annotations

from dataclasses import dataclass, field

from dataio.monitor.gaps import GAP_WINDOW, LONGEST_GAP_SECONDS
from dataio.monitor.readings import Reading


@dataclass
class FakeLoop:
    """A pipeline that makes a batch every `produce` seconds into a buffer, and a step of `work` seconds."""

    produce: float
    work: float
    buffer: int = 2
    now: float = 0.0
    made: float = 0.0
    taken: int = 0
    gaps: list[int] = field(default_factory=list)
    finished: float = 0.0
    ended_get_next: float | None = None
    length: int | None = None
    cold: float = 0.0
    """Seconds that a step takes longer after the thread slept or waited."""
    slept: bool = False

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept = True
        self._advance(seconds)

    def produced(self) -> int:
        return int(self.made)

    def ready(self) -> int:
        return int(self.made) - self.taken

    def read(self) -> Reading:
        return Reading(tuple(self.gaps[-GAP_WINDOW:]), self.ready(), self.buffer)

    def get_next(self) -> None:
        """Blocks until a batch is there, and keeps the gap as TensorFlow does."""
        if self.ended_get_next is not None:
            gap = self.now - self.ended_get_next
            if gap < LONGEST_GAP_SECONDS:
                self.gaps.append(round(gap * 1e6))
        while self.ready() < 1:
            self.slept = True
            self._advance(self.produce * (int(self.made) + 1 - self.made))
        self.taken += 1
        self.ended_get_next = self.now

    def step(self) -> None:
        self._advance(self.work + (self.cold if self.slept else 0))
        self.slept = False

    def _advance(self, seconds: float) -> None:
        seconds = max(seconds, 1e-9)
        self.now += seconds
        limit = self.taken + self.buffer
        if self.length is not None:
            limit = min(limit, self.length)
        # A batch that is in the making when the buffer fills is finished, as tf.data's prefetch thread does.
        self.made = min(round(self.made + seconds / self.produce, 9), max(limit, int(self.made)))
