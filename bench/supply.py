"""What pipelines deliver when nothing holds them up, in rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import tensorflow as tf

from dataio.bench.idling import wait_until_idle
from dataio.bench.iterating import Clock, LivePipeline
from dataio.bench.memory import PeakMemory, release_freed_memory
from dataio.bench.stats import Spread, is_steady, median_interval
from dataio.machine import anonymous_memory_bytes
from dataio.records import Record
from dataio.stall import Interval

#: Batches at the start of an epoch or a round that are not counted: the first fill and what piled up while the
#: pipeline stood still. An epoch shorter than three times that is counted whole.
SETTLE_BATCHES = 4

#: Share of a round that must pass before its batches count, so that buffers filled meanwhile are used up.
SETTLE_SHARE = 0.1

#: A round in which an epoch begins takes longer. After this many times its length, this share of it is enough. Less is
#: not: calls that began together end together, so that a single batch comes 0 to 100 ms after the one before it.
#: Source: own measurement, 2 cores, photographs: an epoch of TFRecord starts with 0.4 to 0.95 s.
LATE, LATE_SHARE = 3, 0.5


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
    spread: Spread | None = None
    """How rounds scatter in this run, over all its plans; None: only this plan's rounds are known."""

    @property
    def images_per_second(self) -> Interval:
        """Median and 95 % interval of the rounds' rates."""
        return median_interval(self.round_images_per_second, spread=self.spread)


class LiveSupply:
    """Pipelines that stay alive and are measured in rounds, in whatever turn the caller wants.

    A context manager: on leaving the block no pipeline is left. Pipelines hold their buffers, and caches, until they
    are dropped.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        warm_up_seconds: float = 3.0,
        clock: Clock = time.perf_counter,
        memory: Callable[[], int] = anonymous_memory_bytes,
        settle: Callable[[], object] = wait_until_idle,
    ) -> None:
        """
        Args:
            batch_size: pictures a batch.
            warm_up_seconds: warm-up is given up after this long (a whole first epoch apart).
            clock: seconds, monotonic.
            memory: gives the process's anonymous memory in bytes.
            settle: called before each warm-up and round, to wait until the pipelines that were read before stand still.
        """
        self._batch_size, self._warm_up_seconds, self._clock = batch_size, warm_up_seconds, clock
        self._memory, self._settle = memory, settle
        self._live: dict[str, _Measured] = {}
        self._open: dict[str, ExitStack] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._open):
            self.drop(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the pipelines that are alive."""
        return tuple(self._live)

    def add(self, name: str, build: Callable[[], tf.data.Dataset], *, whole_first_epoch: bool = False) -> None:
        """Builds a pipeline and warms it up until its rate stops rising.

        Args:
            name: what it is called from now on; must be new.
            build: makes its dataset; called once.
            whole_first_epoch: whether its first epoch is read to the end before, because it caches.

        Raises:
            RecipeError: the pipeline yields no batch.
        """
        self._settle()
        release_freed_memory()
        before = self._memory()
        with ExitStack() as stack, PeakMemory(read=self._memory) as peak:
            live = stack.enter_context(LivePipeline(build, name=name, clock=self._clock))
            plan = _Measured(live, self._batch_size, self._clock)
            plan.warm_up(self._warm_up_seconds, whole_first_epoch=whole_first_epoch)
            self._live[name], self._open[name] = plan, stack.pop_all()
        plan.peak_bytes = peak.peak_bytes - before
        plan.held_bytes = self._memory() - before

    def run_round(self, name: str, seconds: float) -> None:
        """Measures one pipeline for one round of `seconds`."""
        plan = self._live[name]
        self._settle()
        before = self._memory()
        with PeakMemory(read=self._memory) as peak:
            plan.run_round(seconds)
        plan.peak_bytes = max(plan.peak_bytes, plan.held_bytes + peak.peak_bytes - before)
        plan.held_bytes += self._memory() - before

    def samples(self, name: str, *, latest: int | None = None) -> SupplySamples:
        """What a pipeline supplied: in its latest rounds, or in all of them when None."""
        return self._live[name].samples(name, latest)

    def drop(self, name: str) -> None:
        """Ends a pipeline and lets go of what it holds."""
        del self._live[name]
        self._open.pop(name).close()


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
        """Reads batches until those that count fill `seconds`, or half of it where that takes long."""
        start = self._clock()
        settled = start + SETTLE_SHARE * seconds
        # What was made while the pipeline stood still says nothing about how fast it makes more.
        piled_up = SETTLE_BATCHES + self._live.ready()
        skipped = 0
        counted: list[float] = []
        images, counted_seconds = 0, 0.0
        before = start
        while counted_seconds < (seconds if self._clock() < start + LATE * seconds else LATE_SHARE * seconds):
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

    def samples(self, name: str, latest: int | None = None) -> SupplySamples:
        first = 0 if latest is None else max(0, len(self._rates) - latest)
        return SupplySamples(
            name=name,
            batch_size=self._batch_size,
            round_images_per_second=tuple(self._rates[first:]),
            round_batch_seconds=tuple(self._batch_seconds[first:]),
            first_epoch_images_per_second=self._first_rate,
            first_epoch_whole=self._first_whole,
            first_batch_seconds=tuple(self._live.first_batch_seconds),
            warm_up_seconds=self._warm_up_seconds,
            steady=self._steady,
            peak_memory_bytes=self.peak_bytes,
        )
