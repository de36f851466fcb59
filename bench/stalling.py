"""The stall loop: a step really runs on a pipeline, batch after batch, and each wait is measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dataio.bench.buffers import ready_batches
from dataio.bench.iterating import Clock, LivePipeline
from dataio.bench.step import Step
from dataio.records import Record
from dataio.stall import Stall, classify, estimate_stall

#: What reading the buffer's state adds to a step, and the share of a step that it may add. Shorter steps are read less
#: often. Source: own measurement: 0.2 ms after a sleep of 10 ms.
STATE_SECONDS = 0.0002
STATE_SHARE = 0.0075

#: The window is narrow enough when its interval is at most this wide: two points to either side.
NARROW_WIDTH = 0.04

#: Steps in a window at least, and by how much it grows between two looks at the interval.
#: Source: own simulation, `python -m tests.benchmarks.coverage`: with fewer steps or more looks, stopping at the first
#: interval that looks good leaves out the truth more often than one time in ten.
FEWEST_STEPS = 60
WINDOW_GROWTH = 1.25

#: Share of the budget that warming up may take, and the least that it takes.
WARM_UP_SHARE = 0.3
WARM_UP_SECONDS = 0.5


class StallSamples(Record):
    """What each step of a loop waited for and how long it then took, first fills and warm-up left out."""

    step_name: str
    """The step."""
    batch_size: int
    """Pictures a batch."""
    wait_seconds: tuple[float, ...]
    """For each step, from asking for the batch to having it, ready or not."""
    step_seconds: tuple[float, ...]
    """For each step, the rest: the step itself, the loop and reading the buffer's state."""
    ready: tuple[int | None, ...]
    """For each step, batches that were ready when it asked; None where that was not read."""
    ready_after: int | None
    """Batches that were ready after the last step."""
    floor_seconds: float | None
    """What getting a ready batch takes at the median; only where the pipeline does not tell its state and it had to be
    measured with batches that are always ready."""
    first_batch_seconds: tuple[float, ...]
    """For each epoch begun: from asking for an iterator to its first batch, seconds. Not part of the stall."""
    warm_up_steps: int
    """Steps left out at the beginning."""
    budget_seconds: float
    """Time allowed."""
    budget_ended: bool
    """Whether it ended before the interval was narrow enough."""
    known_step_seconds: float | None
    """Step time as the step says, or None."""

    @property
    def stall(self) -> Stall:
        """The stall with its interval."""
        return _estimate(self)

    @property
    def measured_step_seconds(self) -> float:
        """The median step, loop included."""
        return float(np.median(self.step_seconds))

    @property
    def demand_images_per_second(self) -> float:
        """Pictures that the step can take in a second: by its known step time, else by the measured one."""
        return self.batch_size / (self.known_step_seconds or self.measured_step_seconds)


def measure_stall(
    build: Callable[[], tf.data.Dataset],
    step: Step,
    *,
    batch_size: int,
    budget_seconds: float = 20.0,
    whole_first_epoch: bool = False,
    clock: Clock = time.perf_counter,
    state: Callable[[Iterator[Any]], int | None] = ready_batches,
) -> StallSamples:
    """Runs `step` on the pipeline until the stall's interval is narrow enough or the budget ends.

    A batch counts as ready, and getting it as no wait, when the prefetch buffer held one as the step asked. The first
    fill of each epoch and the warm-up (until the buffer has filled or the step has waited) are left out.

    Args:
        build: makes the dataset; called once.
        step: consumes a batch and returns when the device is done.
        batch_size: pictures a batch.
        budget_seconds: time for warm-up and window; a whole first epoch comes on top.
        whole_first_epoch: run through the first epoch, without stepping, before anything: it fills the cache.
        clock: seconds, monotonic.
        state: gives the number of ready batches of an iterator, or None.

    Raises:
        RecipeError: the pipeline yields no batch.
    """
    raise NotImplementedError


def _estimate(samples: StallSamples) -> Stall:
    raise NotImplementedError
