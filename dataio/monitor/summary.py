"""What a monitor found, as records that go to JSON, and in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from dataio.monitor.comparison import FEWEST_READY, FEWEST_USUAL, ReadyRecorder, compare
from dataio.monitor.recorders import StepTimes
from dataio.records import Record
from dataio.stall import Outcome, Stall, classify, estimate_stall, student_quantile

Method = Literal["waits", "comparison", "none"]


class EpochSummary(Record):
    """Waiting and stepping of one epoch."""

    epoch: int
    """Its number, as Keras or the loop counts, from 0."""
    steps: int
    """Calls of the train function (with steps_per_execution n, each takes n batches)."""
    stall: Stall | None
    """Share of the time in which the step waited; None where it could not be seen."""
    indistinguishable: bool
    """True: the stall cannot be told from none; read it as "under `stall.high`"."""
    wait_ms: float | None
    """Mean wait of a step for its batch, and what the step takes longer because it waited; milliseconds."""
    step_ms: float | None
    """Mean time of a step that need not wait, milliseconds."""
    images_per_second: float | None
    """Pictures trained on, the first step left out; None where the batch size is not known."""
    first_step_seconds: float | None
    """The first step, left out of all other figures: fill of the buffers, tracing, compiling."""


class MonitorSummary(Record):
    """What a `StarvationMonitor` saw of a training run; `to_json` and `save` write it."""

    schema_version: Literal[1] = 1
    """Form of this record in JSON."""
    method: Method
    """waits: each step's wait was timed. comparison: the usual step against steps whose batches were ready.
    none: the wait was not observable."""
    outcome: Outcome
    """fed, limited (from 5 %), starved (from 20 %), or inconclusive."""
    stall: Stall | None
    """Over all epochs; None where it could not be seen."""
    indistinguishable: bool
    """True: the stall cannot be told from none; read it as "under `stall.high`"."""
    reason: str
    """The finding in a sentence, or why there is none."""
    advice: str
    """What to do about it; empty when nothing needs doing."""
    epochs: tuple[EpochSummary, ...]
    """The same for each epoch."""


def summarise_times(epoch: int, times: StepTimes, batch_size: int | None) -> EpochSummary:
    """The summary of an epoch whose waits were timed."""
    count = len(times.wait_seconds)
    stall = stall_of([times])
    slower = slower_after_waits([times])[0]
    return EpochSummary(
        epoch=epoch,
        steps=times.steps,
        stall=stall,
        indistinguishable=stall is not None and times.all_ready,
        wait_ms=(float(np.mean(times.wait_seconds)) + slower) * 1e3 if count else None,
        step_ms=(float(np.mean(times.step_seconds)) - slower) * 1e3 if count else None,
        images_per_second=batch_size / times.period_seconds if batch_size and times.period_seconds else None,
        first_step_seconds=times.first_step_seconds,
    )


def stall_of(epochs: Sequence[StepTimes]) -> Stall | None:
    """The stall over the steps of several epochs, or None without any observed step.

    Where every look found a batch ready, the waits are what handing over costs: the stall is 0 and they are its `high`.
    """
    waits = np.concatenate([times.wait_seconds for times in epochs]) if epochs else np.empty(0)
    steps = np.concatenate([times.step_seconds for times in epochs]) if epochs else np.empty(0)
    if not len(waits):
        return None
    if all(times.all_ready for times in epochs):
        ceiling = float(np.sum(waits) / (np.sum(waits) + np.sum(steps)))
        return Stall(value=0.0, low=0.0, high=ceiling)
    slower, error = slower_after_waits(epochs)
    waits, steps = waits + slower, steps - slower
    drained = [times.drained_batches for times in epochs if times.drained_batches is not None]
    known = np.concatenate(drained) if len(drained) == len(epochs) else None
    stall = estimate_stall(waits, steps, drained_batches=known)
    if not slower:
        return stall
    # One step after a pause may not be all that it takes to be warm: the interval reaches as far again.
    period = float(np.mean(waits + steps))
    below = float(np.hypot(stall.value - stall.low, 2 * error / period))
    above = float(np.hypot(stall.high - stall.value, 2 * error / period)) + slower / period
    return Stall(value=stall.value, low=max(stall.value - below, 0.0), high=min(stall.value + above, 1.0))


def slower_after_waits(epochs: Sequence[StepTimes]) -> tuple[float, float]:
    """Seconds that a step takes longer because it followed a wait, and the standard error of that.

    Only where enough steps on ready batches were timed and are faster by more than chance explains; 0 elsewhere.
    """
    ready = np.concatenate([times.ready_seconds for times in epochs])
    steps = np.concatenate([times.step_seconds for times in epochs])
    if len(ready) < FEWEST_READY or len(steps) < FEWEST_USUAL:
        return 0.0, 0.0
    error = float(np.sqrt(np.var(ready, ddof=1) / len(ready) + np.var(steps, ddof=1) / len(steps)))
    slower = float(np.mean(steps) - np.mean(ready))
    significant = slower > student_quantile(0.975, len(ready) - 1) * error
    return (slower, error) if significant else (0.0, 0.0)


def summarise_comparison(
    epoch: int,
    usual_seconds: Sequence[float],
    recorder: ReadyRecorder,
    *,
    steps: int,
    first_step_seconds: float | None,
    images_per_execution: int | None,
) -> EpochSummary:
    """The summary of an epoch that was compared with executions on ready batches."""
    stall = compare(usual_seconds, recorder.ready_seconds)
    usual = float(np.mean(usual_seconds)) if len(usual_seconds) else None
    return EpochSummary(
        epoch=epoch,
        steps=steps,
        stall=stall,
        indistinguishable=stall is not None and stall.low <= 0,
        wait_ms=stall.value * usual * 1e3 if stall and usual else None,
        step_ms=(1 - stall.value) * usual * 1e3 if stall and usual else None,
        images_per_second=images_per_execution / usual if images_per_execution and usual else None,
        first_step_seconds=first_step_seconds,
    )


def outcome_of(stall: Stall | None) -> Outcome:
    """The outcome of a stall, `inconclusive` without one."""
    if stall is None:
        return "inconclusive"
    return classify(stall)


def percent(stall: Stall, *, indistinguishable: bool) -> str:
    """The stall in words: "62 % (60 to 64)", or "under 1.3 %" where it cannot be told from none."""
    if indistinguishable:
        return f"under {max(np.ceil(stall.high * 1000) / 10, 0.1):.1f} %"
    return f"{stall.value:.0%} ({stall.low:.0%} to {stall.high:.0%})".replace("%", " %")
