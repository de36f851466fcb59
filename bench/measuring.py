"""Measuring pipelines: what they supply alone, and (from `stalling`) how long a step waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

import tensorflow as tf

from dataio.bench.idling import wait_until_idle
from dataio.bench.iterating import Clock, LivePipeline
from dataio.bench.memory import PeakMemory, release_freed_memory
from dataio.bench.stalling import StallSamples, measure_stall
from dataio.bench.stats import is_steady, median_interval
from dataio.machine import anonymous_memory_bytes
from dataio.records import Record
from dataio.stall import Interval

__all__ = ["Progress", "StallSamples", "SupplySamples", "measure_stall", "measure_supply"]

#: Batches at the start of an epoch or a round that are not counted: the first fill and what piled up while the
#: pipeline stood still. An epoch shorter than three times that is counted whole.
SETTLE_BATCHES = 4

#: Share of a round that must pass before its batches count, so that buffers filled meanwhile are used up.
SETTLE_SHARE = 0.1


class SupplySamples(Record):
    """What one pipeline delivered when nothing held it up, round by round."""

    name: str
    """The plan's name."""
    batch_size: int
    """Pictures a batch."""
    round_images_per_second: tuple[float, ...]
    """The rate of each round, warm-up and settling left out."""
    round_batch_seconds: tuple[tuple[float, ...], ...]
    """For each round, seconds between batches, in order."""
    first_epoch_images_per_second: float | None
    """The rate of the first epoch, cold: from its second batch on, as far as it was read. None: no second batch."""
    first_epoch_whole: bool
    """Whether the rounds began after a whole first epoch, so that a cache was filled."""
    first_batch_seconds: tuple[float, ...]
    """For each epoch begun: from asking for an iterator to its first batch, seconds."""
    warm_up_seconds: float
    """How long warming up took."""
    steady: bool
    """Whether the rate had stopped rising when warm-up ended; False: the figures may still be too low."""
    peak_memory_bytes: int
    """Growth of the process's anonymous memory (RssAnon) by this pipeline: its peak less what was there before it was
    built. Mapped file pages do not count."""

    @property
    def images_per_second(self) -> Interval:
        """Median and 95 % interval of the rounds' rates."""
        return median_interval(self.round_images_per_second)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a measurement is."""

    name: str
    """The plan being measured."""
    phase: Literal["warm-up", "round"]
    """What is being done."""
    done: int
    """Pieces of work (warm-ups and rounds of every plan) finished."""
    total: int
    """Pieces of work in all."""


def measure_supply(
    builders: Mapping[str, Callable[[], tf.data.Dataset]],
    *,
    batch_size: int,
    rounds: int = 5,
    round_seconds: float = 0.7,
    warm_up_seconds: float = 3.0,
    whole_first_epoch: Collection[str] = (),
    clock: Clock = time.perf_counter,
    memory: Callable[[], int] = anonymous_memory_bytes,
    on_progress: Callable[[Progress], None] | None = None,
    settle: Callable[[], object] = wait_until_idle,
) -> dict[str, SupplySamples]:
    """What each pipeline supplies, in rounds taken in turn (A B C A B C ...), so that a slow minute hits all alike.

    Every pipeline is warmed up first until its rate stops rising. All stay alive until the end and so hold their memory
    (and caches) at once; measure many in several calls.

    Args:
        builders: for each plan's name, what makes its dataset; called once.
        batch_size: pictures a batch.
        rounds: of each plan, at least 2.
        round_seconds: length of a round.
        warm_up_seconds: warm-up is given up after this long (a whole first epoch apart).
        whole_first_epoch: names of plans that are measured from their second epoch on, because they cache.
        clock: seconds, monotonic.
        memory: gives the process's anonymous memory in bytes.
        on_progress: called after each warm-up and round.
        settle: called before each warm-up and round, to wait until the pipelines that were read before stand still.

    Raises:
        RecipeError: a pipeline yields no batch.
    """
    if rounds < 2:
        raise ValueError(f"supply needs at least 2 rounds, found {rounds}")
    total = len(builders) * (rounds + 1)
    done = 0

    def report(name: str, phase: Literal["warm-up", "round"]) -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(Progress(name, phase, done, total))

    with ExitStack() as stack:
        measured: dict[str, _Measured] = {}
        for name, build in builders.items():
            settle()
            release_freed_memory()
            before = memory()
            with PeakMemory(read=memory) as peak:
                live = stack.enter_context(LivePipeline(build, name=name, clock=clock))
                plan = _Measured(live, batch_size, clock)
                plan.warm_up(warm_up_seconds, whole_first_epoch=name in whole_first_epoch)
            plan.peak_bytes = peak.peak_bytes - before
            plan.held_bytes = memory() - before
            measured[name] = plan
            report(name, "warm-up")
        for _ in range(rounds):
            for name, plan in measured.items():
                settle()
                before = memory()
                with PeakMemory(read=memory) as peak:
                    plan.run_round(round_seconds)
                plan.peak_bytes = max(plan.peak_bytes, plan.held_bytes + peak.peak_bytes - before)
                plan.held_bytes += memory() - before
                report(name, "round")
        return {name: plan.samples(name) for name, plan in measured.items()}


class _Measured:
    """One pipeline under measurement and its raw figures."""

    def __init__(self, live: LivePipeline, batch_size: int, clock: Clock) -> None:
        self._live, self._batch_size, self._clock = live, batch_size, clock
        self._rates: list[float] = []
        self._batch_seconds: list[tuple[float, ...]] = []
        self._first_rate: float | None = None
        self._first_whole = False
        self._warm_up_seconds = 0.0
        self._steady = False
        self.peak_bytes = 0
        """Most anonymous memory that the pipeline took at any time, bytes."""
        self.held_bytes = 0
        """Anonymous memory that the pipeline held at the end of its last turn, bytes."""

    def warm_up(self, limit_seconds: float, *, whole_first_epoch: bool) -> None:
        start = self._clock()
        first = self._live.advance()
        images = 0
        last = first.came
        if whole_first_epoch:
            while (got := self._live.advance()).epoch == 0:
                images, last = images + got.images, got.came
            self._first_whole = True
        window_seconds = limit_seconds / 8
        limit = self._clock() + limit_seconds
        windows: list[float] = []
        while not self._steady and self._clock() < limit:
            opened, taken = self._clock(), 0
            while self._clock() < opened + window_seconds:
                got = self._live.advance()
                taken += got.images
                if got.epoch == 0:
                    images, last = images + got.images, got.came
            windows.append(taken / (self._clock() - opened))
            self._steady = is_steady(windows)
        if images and last > first.came:
            self._first_rate = images / (last - first.came)
        self._first_whole = self._first_whole or self._live.epoch > 0
        self._warm_up_seconds = self._clock() - start

    def run_round(self, seconds: float) -> None:
        """Reads batches until those that count fill `seconds`; gives up counting more after three times that."""
        start = self._clock()
        settled = start + SETTLE_SHARE * seconds
        # What was made while the pipeline stood still says nothing about how fast it makes more.
        piled_up = SETTLE_BATCHES + self._live.ready()
        skipped = 0
        counted: list[float] = []
        images, counted_seconds = 0, 0.0
        before = start
        while counted_seconds < seconds and (not counted or self._clock() < start + 3 * seconds):
            got = self._live.advance()
            since, before = got.came - before, got.came
            whole = self._live.epoch_batches is not None and self._live.epoch_batches < 3 * SETTLE_BATCHES
            if skipped < piled_up or got.came < settled:
                skipped += 1
                continue
            if got.position < SETTLE_BATCHES and not whole:
                continue
            counted.append(since)
            images += got.images
            counted_seconds += since
        self._rates.append(images / counted_seconds)
        self._batch_seconds.append(tuple(round(value, 6) for value in counted))

    def samples(self, name: str) -> SupplySamples:
        return SupplySamples(
            name=name,
            batch_size=self._batch_size,
            round_images_per_second=tuple(self._rates),
            round_batch_seconds=tuple(self._batch_seconds),
            first_epoch_images_per_second=self._first_rate,
            first_epoch_whole=self._first_whole,
            first_batch_seconds=tuple(self._live.first_batch_seconds),
            warm_up_seconds=self._warm_up_seconds,
            steady=self._steady,
            peak_memory_bytes=self.peak_bytes,
        )
