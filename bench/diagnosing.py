"""Diagnosis of a tf.data pipeline that somebody else built: known traps, costs, the limit, what a step would wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import psutil
import tensorflow as tf
from pydantic import Field

from dataio.bench.filling import first_fill
from dataio.bench.iterating import Clock, LivePipeline
from dataio.bench.judging import Verdict, judge
from dataio.bench.operators import OperatorLoad, Reading, Tuned, TuningLog, loads_between, name_limit, read_model
from dataio.bench.stalling import measure_stall
from dataio.bench.stats import median_interval
from dataio.bench.step import Step
from dataio.bench.traps import Surroundings, Trap, find_traps
from dataio.bench.words import HELD_UP_PIPELINE, share_words, with_fill
from dataio.errors import StepError
from dataio.loading import load_function
from dataio.machine import usable_cores, usable_memory_bytes
from dataio.records import Record
from dataio.stall import Interval

#: Shares of the budget for looking at the pipeline alone, and of that for letting AUTOTUNE settle.
_ALONE_SHARE, _SETTLE_SHARE = 0.5, 0.3

#: Seconds between two readings of what AUTOTUNE chose, and of a window whose rate is taken.
_READING_SECONDS, _WINDOW_SECONDS = 0.25, 0.5

#: Share of the time from which on ends of epochs are noted. Source: below, noise of the measurement hides it.
_TOLD_END_SHARE = 0.02


class Diagnosis(Record):
    """What was found about a pipeline."""

    schema_version: Literal[1] = 1
    """Form of this record in JSON."""
    dataset: str
    """The function that made it."""
    traps: tuple[Trap, ...]
    """Known mistakes, those that make the data wrong first."""
    end_of_epoch_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the time that iterators took to go at ends of epochs, alone or with the step, whichever is larger; 0
    where no epoch ended. High: autotuning's thread held them up, and holds up training."""
    notes: tuple[str, ...] = ()
    """What to know besides, a sentence each."""
    supply_images_per_second: Interval
    """What it delivers when nothing holds it up: median of windows, with a 95 % interval."""
    batch_size: Annotated[int, Field(ge=1)]
    """Pictures a batch."""
    first_batch_seconds: float
    """From asking for an iterator to the first batch."""
    busy_cores: float
    """Cores that the process kept busy while it ran alone."""
    other_busy_cores: float
    """Cores that other processes kept busy meanwhile; 0 where that cannot be told (a share of a larger machine)."""
    cores: int
    """Cores that it may keep busy."""
    limit: str
    """What limits it, in words."""
    operators: tuple[OperatorLoad, ...]
    """Cost and load of its operators, from the consumer down; empty where autotuning is off."""
    tuned: tuple[Tuned, ...]
    """What AUTOTUNE chose over time; empty where autotuning is off."""
    verdict: Verdict | None
    """What a step would wait; None without a step."""


def load_dataset(spec: str) -> Callable[[], tf.data.Dataset]:
    """The function named as "package.module:function", which takes nothing and makes a dataset.

    Raises:
        StepError: there is no such function, or it does not give a tf.data.Dataset.
    """
    function = load_function(spec, what="dataset", error=StepError)

    def make() -> tf.data.Dataset:
        dataset = function()
        if not isinstance(dataset, tf.data.Dataset):
            raise StepError(f"dataset {spec!r} gives a {type(dataset).__name__}, not a tf.data.Dataset")
        return dataset

    return make


def diagnose(
    make: Callable[[], tf.data.Dataset],
    *,
    name: str = "dataset",
    step: Step | None = None,
    batch_size: int | None = None,
    budget_seconds: float = 30.0,
    replicas: int = 1,
    clock: Clock = time.perf_counter,
) -> Diagnosis:
    """Looks at a pipeline as it is written and as it runs.

    Args:
        make: makes the dataset; called for each part of the diagnosis.
        name: what results call it.
        step: consumes a batch; None leaves the verdict out.
        batch_size: pictures a batch; None takes the first dimension of what comes.
        budget_seconds: time for everything.
        replicas: workers that share the input, for the traps of sharing.
        clock: seconds, monotonic.

    Raises:
        StepError: the dataset cannot be read as a graph.
        RecipeError: it yields no batch.
    """
    cores = usable_cores()
    traps = find_traps(make(), Surroundings(usable_memory_bytes(), cores, replicas))
    share = _ALONE_SHARE if step is not None else 1.0
    alone = _run_alone(make, name, budget_seconds * share, batch_size, clock)
    calls_python = any(trap.name in {"python-function", "from-generator"} for trap in traps)
    limit, _ = name_limit(
        alone.loads,
        busy_cores=alone.busy_cores,
        cores=cores,
        other_busy_cores=alone.other_busy_cores,
        calls_python=calls_python,
    )
    supply = median_interval(alone.rates)
    verdict, end_share = None, alone.end_share
    if step is not None:
        samples = measure_stall(
            make, step, batch_size=alone.batch_size, budget_seconds=budget_seconds * (1 - share), clock=clock
        )
        verdict = judge(
            samples.stall,
            supply=supply,
            demand_images_per_second=samples.demand_images_per_second,
            step_name=step.name,
            limit=limit,
            advice=[f"{trap.operator}: {trap.fix}" for trap in traps if trap.cost == "speed"],
            budget_seconds=budget_seconds,
        )
        fill = first_fill(samples)
        verdict = with_fill(verdict, fill)
        end_share = max(end_share, fill.end_share if fill is not None else 0.0)
    held_up = end_share > _TOLD_END_SHARE and alone.autotuned
    return Diagnosis(
        dataset=name,
        traps=traps,
        end_of_epoch_share=end_share,
        notes=(f"ends of epochs took {share_words(end_share)} of the time: {HELD_UP_PIPELINE}",) if held_up else (),
        supply_images_per_second=supply,
        batch_size=alone.batch_size,
        first_batch_seconds=alone.first_batch_seconds,
        busy_cores=alone.busy_cores,
        other_busy_cores=alone.other_busy_cores,
        cores=cores,
        limit=limit,
        operators=alone.loads,
        tuned=alone.tuned,
        verdict=verdict,
    )


@dataclass(frozen=True)
class _Alone:
    """What a run without a step showed."""

    rates: list[float]
    batch_size: int
    first_batch_seconds: float
    end_share: float
    autotuned: bool
    busy_cores: float
    other_busy_cores: float
    loads: tuple[OperatorLoad, ...]
    tuned: tuple[Tuned, ...]


def _run_alone(
    make: Callable[[], tf.data.Dataset], name: str, seconds: float, batch_size: int | None, clock: Clock
) -> _Alone:
    """Reads the pipeline as fast as it goes, lets AUTOTUNE settle, and looks at its operators over the rest."""
    log = TuningLog()
    told = make().options().autotune.enabled is not False  # without autotuning there is no model to read
    with LivePipeline(make, name=name, clock=clock) as live:
        got = live.advance()
        size = batch_size or got.images
        start = now = read_at = clock()
        while now - start < seconds * _SETTLE_SHARE:
            live.advance()
            now = clock()
            if now - read_at >= _READING_SECONDS:
                _note(log, now - start, live.iterator if told else None)
                read_at = now
        before, best = _model(live.iterator if told else None), _Span()
        span = _Span(epoch=live.epoch, begin=clock())
        processor, machine, began = time.process_time(), _machine_seconds(), clock()
        window_begin, window_images = span.begin, 0
        rates: list[float] = []
        window_seconds = min(_WINDOW_SECONDS, seconds * (1 - _SETTLE_SHARE) / 5)
        while now - start < seconds or len(rates) < 2:
            got = live.advance()
            now = clock()
            window_images += size if batch_size else got.images
            if live.epoch != span.epoch:  # a new iterator: its operators start from zero
                best = max(best, span, key=lambda one: one.seconds)
                before, span = _model(live.iterator if told else None), _Span(epoch=live.epoch, begin=now)
            else:
                span.images += size if batch_size else got.images
                span.seconds = now - span.begin
            if now - read_at >= _READING_SECONDS:
                after = _note(log, now - start, live.iterator if told else None)
                read_at = now
                if before is not None and after is not None and span.seconds > 0:
                    span.loads = loads_between(before, after, seconds=span.seconds, images=span.images)
            if now - window_begin >= window_seconds:
                rates.append(window_images / (now - window_begin))
                window_begin, window_images = now, 0
        elapsed = max(clock() - began, 1e-9)
        busy = (time.process_time() - processor) / elapsed
        others = max((_machine_seconds() - machine) / elapsed - busy, 0.0)
        longest = max(best, span, key=lambda one: (bool(one.loads), one.seconds))
        return _Alone(
            rates=rates,
            batch_size=size,
            first_batch_seconds=live.first_batch_seconds[0],
            end_share=_end_share(live),
            autotuned=told,
            busy_cores=busy,
            other_busy_cores=others,
            loads=longest.loads,
            tuned=log.choices(),
        )


@dataclass
class _Span:
    """A stretch of one epoch over which operators are looked at."""

    epoch: int = -1
    begin: float = 0.0
    seconds: float = 0.0
    images: int = 0
    loads: tuple[OperatorLoad, ...] = ()


def _end_share(live: LivePipeline) -> float:
    """What ends took of the time of the epochs that ended; 0 where none did."""
    ends = sum(live.end_seconds)
    return ends / (ends + sum(live.epoch_seconds)) if ends else 0.0


def _machine_seconds() -> float:
    """Processor seconds that the whole machine has spent; 0 where this process may use only a part of it."""
    if usable_cores() != psutil.cpu_count():
        return 0.0
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _model(iterator: object) -> Reading | None:
    return read_model(iterator) if iterator is not None else None


def _note(log: TuningLog, seconds: float, iterator: object) -> Reading | None:
    reading = _model(iterator)
    if reading is not None:
        log.add(seconds, reading)
    return reading
