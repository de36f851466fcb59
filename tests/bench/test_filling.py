"""What the starts of epochs cost, in virtual time: every fill here is known exactly."""

from __future__ import annotations

import pytest

from dataio.bench.filling import first_fill
from dataio.bench.stalling import StallSamples, measure_stall
from tests.bench.virtual import Time, VirtualPipeline, VirtualStep, ready_of

STEP = 0.05


def measure(batches: int, *, first: float, budget_seconds: float = 60.0) -> StallSamples:
    """A loop whose pipeline takes `first` seconds to begin each epoch and is twice as fast as the step afterwards."""
    time = Time()
    made = lambda number: first if number % batches == 0 else STEP / 2  # noqa: E731
    return measure_stall(
        lambda: VirtualPipeline(time, made, batches=batches),
        VirtualStep(time, STEP),
        batch_size=4,
        budget_seconds=budget_seconds,
        clock=time.clock,
        state=ready_of,
    )


def test_the_start_of_an_epoch_and_its_share_are_those_built() -> None:
    samples = measure(25, first=0.4)
    fill = first_fill(samples)
    assert fill is not None
    assert fill.epoch_batches == 25
    assert fill.seconds == pytest.approx(0.4)
    assert fill.share == pytest.approx(0.4 / (0.4 + 25 * STEP), rel=0.02)
    assert samples.stall.value == 0.0, "the stall leaves the fill out"


def test_where_no_later_epoch_began_nothing_is_told() -> None:
    assert first_fill(measure(10**6, first=0.4)) is None


def test_the_fill_of_short_epochs_is_part_of_the_stall_and_not_told_again() -> None:
    samples = measure(8, first=0.4)
    assert samples.short_epochs
    assert first_fill(samples) is None
