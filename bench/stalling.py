"""The stall loop: a step really runs on a pipeline, batch after batch, and each wait is measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dataio.bench.buffers import ready_batches
from dataio.bench.gpu import GpuLoad, host_to_device_bytes_per_second
from dataio.bench.iterating import Clock, LivePipeline
from dataio.bench.stats import is_steady
from dataio.bench.step import Step
from dataio.bench.stopping import LOOK_CONFIDENCE, StoppingRule
from dataio.records import Record
from dataio.stall import Stall, estimate_stall

Floats = npt.NDArray[np.float64]
State = Callable[[Iterator[Any]], int | None]

#: What reading the buffer's state adds to a step, and the share of a step and its wait that it may add; shorter steps
#: are read less often, but so many times at least in what is left of the budget, because stall is told between two
#: readings. Source: own measurement: reading adds 0.2 ms to a step when the thread has slept for 10 ms.
STATE_SECONDS = 0.0002
STATE_SHARE = 0.005
FEWEST_READINGS = 40

#: A wait beyond this was one, whether or not the buffer's state was read: a ready batch is there within 0.3 to 1 ms,
#: and a thread that the scheduler has left aside is back within some 10 ms (own measurement, both cores busy).
CERTAIN_WAIT_SECONDS = 0.02

#: Share of the budget that warming up may take; parts of that time whose rates are compared to see whether it rises.
WARM_UP_SHARE = 0.25
WARM_UP_WINDOWS = 8

#: Epochs of fewer batches than this are counted whole, first fill and all, because little else is in them.
SHORT_EPOCH = 12

#: Steps on batches that are always ready: left out (tracing, first touches), and measured.
READY_SKIPPED = 5
READY_STEPS = 25


class StallSamples(Record):
    """What each step of a loop waited for and how long it then took; the warm-up is left out."""

    step_name: str
    """The step."""
    batch_size: int
    """Pictures a batch."""
    wait_seconds: tuple[float, ...]
    """For each step, from the end of the one before to having the next batch, ready or not."""
    step_seconds: tuple[float, ...]
    """For each step, from having the batch to the end of the step."""
    ready: tuple[int | None, ...]
    """For each step, batches that were ready when it asked; None where that was not read or is not told."""
    position: tuple[int, ...]
    """For each step, the number of its batch in its epoch, from 0."""
    epoch_batches: int | None
    """Batches in an epoch; None while unknown."""
    state_told: bool
    """Whether the pipeline tells how many batches are ready: it ends in a prefetch and is autotuned."""
    floor_seconds: float
    """What getting a batch takes at the median although it is ready, measured in the same loop: work, not waiting."""
    ready_step_seconds: float
    """What a whole step takes at the median when batches are always ready, getting them included."""
    first_batch_seconds: tuple[float, ...]
    """For each epoch begun: from asking for an iterator to its first batch, seconds. Not part of the stall, unless
    epochs are `short`."""
    end_of_epoch_seconds: tuple[float, ...] = ()
    """For each epoch that ended since the loop began: how long its iterator took to go, so far where it still goes.
    Training waits for it; this loop does not, so that no other figure holds any of it."""
    warm_up_steps: int
    """Steps left out at the beginning."""
    steady: bool
    """Whether the rate had stopped rising when warm-up ended."""
    budget_seconds: float
    """Time allowed."""
    budget_ended: bool
    """Whether it ended before the interval was narrow enough."""
    known_step_seconds: float | None
    """Step time as the step says, or None."""
    gpu_utilisation: float | None = None
    """Share of time in which the first GPU ran anything, by NVML, in [0, 1]; None without one."""
    host_to_device_bytes_per_second: float | None = None
    """How fast a batch's pictures go to the first GPU; None without one."""

    @property
    def short_epochs(self) -> bool:
        """Whether epochs have so few batches that their first fill is counted as part of the stall."""
        return self.epoch_batches is not None and self.epoch_batches < SHORT_EPOCH

    @property
    def counted_steps(self) -> int:
        """Steps that the stall is made from."""
        return len(_counted(self)[0])

    @property
    def stall(self) -> Stall:
        """The stall with its interval, of which 95 % hold the truth although the window ends when it is narrow."""
        waits, steps, drained = _counted(self)
        return estimate_stall(waits, steps, drained_batches=drained, confidence=LOOK_CONFIDENCE)

    @property
    def demand_images_per_second(self) -> float:
        """Pictures that the step can take in a second: by its known step time, else as measured on ready batches."""
        return self.batch_size / (self.known_step_seconds or self.ready_step_seconds)


def measure_stall(
    build: Callable[[], tf.data.Dataset],
    step: Step,
    *,
    batch_size: int,
    budget_seconds: float = 20.0,
    whole_first_epoch: bool = False,
    clock: Clock = time.perf_counter,
    state: State = ready_batches,
) -> StallSamples:
    """Runs `step` on the pipeline until the stall's interval is narrow enough or the budget ends.

    A batch counts as ready, and getting it as part of the step, when the prefetch buffer held one as the step asked.
    Otherwise the wait is what getting it took beyond what getting a ready one takes. The warm-up (until the rate stops
    rising) and each epoch's first fill are left out.

    Args:
        build: makes the dataset; called once.
        step: consumes a batch and returns when the device is done.
        batch_size: pictures a batch.
        budget_seconds: time for warm-up and window; a whole first epoch comes on top.
        whole_first_epoch: run through the first epoch without stepping before anything else: it fills the cache.
        clock: seconds, monotonic.
        state: gives the number of ready batches of an iterator, or None.

    Raises:
        RecipeError: the pipeline yields no batch.
    """
    with LivePipeline(build, clock=clock) as live:
        first = live.advance()
        step(first.batch)  # traces and compiles, which no budget should pay for
        if whole_first_epoch:
            while live.advance().epoch == 0:
                pass
        loop = _Loop(live, step, batch_size, budget_seconds, clock, state)
        loop.measure_ready(first.batch)
        copying = host_to_device_bytes_per_second(first.batch)
        del first
        loop.warm_up()
        with GpuLoad() as gpu:
            loop.fill_window()
        return loop.samples().replace(gpu_utilisation=gpu.utilisation, host_to_device_bytes_per_second=copying)


class _Loop:
    """The loop and its raw figures."""

    def __init__(
        self, live: LivePipeline, step: Step, batch_size: int, budget_seconds: float, clock: Clock, state: State
    ) -> None:
        self._live, self._step, self._batch_size = live, step, batch_size
        self._clock, self._state = clock, state
        self._budget_seconds = budget_seconds
        self._deadline = clock() + budget_seconds
        self._state_told = self._ready_now() is not None
        self._floor_seconds = self._ready_step_seconds = 0.0
        self._state_every = 1
        self._warm_up_steps = 0
        self._steady = self._narrow = False
        self._waits: list[float] = []
        self._steps: list[float] = []
        self._ready: list[int | None] = []
        self._positions: list[int] = []
        self._ends_before = len(live.end_seconds)  # of the epoch that filled a cache, which is longer than others

    def measure_ready(self, batch: Any) -> None:
        """Notes what a step, and getting its batch, takes in this loop when `batch` is always ready."""
        limit = self._clock() + WARM_UP_SHARE * self._budget_seconds
        waits: list[float] = []
        walls: list[float] = []
        with LivePipeline(lambda: tf.data.Dataset.from_tensors(batch).repeat().prefetch(2), clock=self._clock) as ready:
            before = self._clock()
            while len(waits) < READY_SKIPPED + READY_STEPS and (len(waits) < 3 or self._clock() < limit):
                got = ready.advance()
                self._step(got.batch)
                after = self._clock()
                waits.append(got.came - before)
                walls.append(after - before)
                before = after
        skipped = min(READY_SKIPPED, len(waits) - 2)
        self._floor_seconds = float(np.median(waits[skipped:]))
        self._ready_step_seconds = float(np.median(walls[skipped:]))

    def warm_up(self) -> None:
        """Steps until the loop's rate has stopped rising."""
        start = self._clock()
        seconds = WARM_UP_SHARE * self._budget_seconds
        rates: list[float] = []
        while not self._steady and self._clock() < start + seconds:
            opened = ended = self._clock()
            taken = 0
            while taken == 0 or ended < opened + seconds / WARM_UP_WINDOWS:
                ended = self._one(ended)
                taken += 1
            rates.append(taken / (ended - opened))
            self._steady = is_steady(rates)
        self._warm_up_steps = len(self._waits)
        self._state_every = self._reading_interval(float(np.median(np.add(self._waits, self._steps))))
        for figures in (self._waits, self._steps, self._ready, self._positions):
            figures.clear()

    def _reading_interval(self, wall_seconds: float) -> int:
        """Steps from one reading of the buffer's state to the next, for steps that take so long with their wait."""
        steps_left = max(self._deadline - self._clock(), 0.0) / wall_seconds
        cheap = math.ceil(STATE_SECONDS / (STATE_SHARE * wall_seconds))
        return max(1, min(cheap, int(steps_left / FEWEST_READINGS)))

    def fill_window(self) -> None:
        """Steps until the interval is narrow enough or the budget ends."""
        rule = StoppingRule()
        before = self._clock()
        while not self._narrow and (before < self._deadline or not self._waits):
            before = self._one(before)
            if rule.is_due(len(self._waits)):
                samples = self.samples()
                self._narrow = rule.is_enough(samples.stall, samples.counted_steps)
                before = self._clock()  # looking took time that no step waited or worked

    def _one(self, before: float) -> float:
        """One step of the loop, which the last one left at `before`; returns when this one ended."""
        ready = self._ready_now() if self._state_told and len(self._waits) % self._state_every == 0 else None
        got = self._live.advance()
        if got.position == 0:
            ready = None  # what was read belongs to the epoch that has just ended
        self._step(got.batch)
        after = self._clock()
        self._waits.append(got.came - before)
        self._steps.append(after - got.came)
        self._ready.append(ready)
        self._positions.append(got.position)
        return after

    def _ready_now(self) -> int | None:
        # Apart, so that no name holds the iterator when its epoch ends: it would go with that name, on this thread.
        iterator = self._live.iterator
        return None if iterator is None else self._state(iterator)

    def samples(self) -> StallSamples:
        return StallSamples(
            step_name=self._step.name,
            batch_size=self._batch_size,
            wait_seconds=tuple(self._waits),
            step_seconds=tuple(self._steps),
            ready=tuple(self._ready),
            position=tuple(self._positions),
            epoch_batches=self._live.epoch_batches,
            state_told=self._state_told,
            floor_seconds=self._floor_seconds,
            ready_step_seconds=self._ready_step_seconds,
            first_batch_seconds=tuple(self._live.first_batch_seconds),
            end_of_epoch_seconds=self._live.end_seconds[self._ends_before :],
            warm_up_steps=self._warm_up_steps,
            steady=self._steady,
            budget_seconds=self._budget_seconds,
            budget_ended=not self._narrow,
            known_step_seconds=self._step.step_seconds,
        )


def _counted(samples: StallSamples) -> tuple[Floats, Floats, Floats | None]:
    """(waits, steps, drained) of the steps that count, as `estimate_stall` takes them."""
    # What getting a ready batch takes goes over from each wait to its step.
    waits = np.array(samples.wait_seconds) - samples.floor_seconds
    steps = np.array(samples.step_seconds) + samples.floor_seconds
    if not samples.state_told:
        kept = np.array([samples.short_epochs or position > 0 for position in samples.position], bool)
        return waits[kept], steps[kept], None
    if samples.short_epochs:
        ready = np.array([bool(batches) for batches in samples.ready], bool)
        return np.where(ready, 0.0, waits), np.where(ready, steps + waits, steps), np.zeros(len(waits))
    end = samples.epoch_batches if samples.epoch_batches is not None else math.inf
    read = [number for number, batches in enumerate(samples.ready) if batches is not None]
    counted: list[tuple[float, float, float]] = []
    for this, following in pairwise(read):
        here, there = samples.ready[this] or 0, samples.ready[following] or 0
        gap = following - this
        if samples.position[following] != samples.position[this] + gap:
            continue  # the epoch ended in between
        if samples.position[following] + there >= end:
            continue  # everything is made: the buffer empties because the epoch ends, not because production is slow
        wait, step, drained = waits[this], steps[this], (here - there) / gap
        # Of the steps in between it is not known whether their batch was ready, but a long wait of theirs is one.
        certain = float(np.maximum(waits[this + 1 : following] - CERTAIN_WAIT_SECONDS, 0).sum())
        if here:
            counted.append((certain / gap, step + wait, drained))
        else:
            beyond = max(wait - CERTAIN_WAIT_SECONDS, 0.0)
            counted.append((wait - beyond + (beyond + certain) / gap, step, drained))
    columns = np.array(counted, np.float64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]
