"""What the starts of epochs cost, in virtual time: every fill here is known exactly."""

from __future__ import annotations

import pytest

from dataio.bench.filling import FirstFill, first_fill
from dataio.bench.stalling import StallSamples, measure_stall
from tests.bench.virtual import Time, VirtualPipeline, VirtualStep, ready_of

STEP = 0.05


def measure(
    batches: int, *, first: float, end: float = 0.0, budget_seconds: float = 60.0, whole_first_epoch: bool = False
) -> StallSamples:
    """A loop whose pipeline takes `first` seconds to begin each epoch, `end` seconds to end it, and is twice as fast as
    the step in between."""
    time = Time()
    made = lambda number: first if number % batches == 0 else STEP / 2  # noqa: E731
    return measure_stall(
        lambda: VirtualPipeline(time, made, batches=batches, end_seconds=end),
        VirtualStep(time, STEP),
        batch_size=4,
        budget_seconds=budget_seconds,
        whole_first_epoch=whole_first_epoch,
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


def test_the_end_of_an_epoch_counts_beside_its_start_though_the_loop_did_not_wait_for_it() -> None:
    samples = measure(25, first=0.4, end=0.6)
    fill = first_fill(samples)
    assert fill is not None
    assert fill.seconds == pytest.approx(0.4)
    assert fill.end_seconds == pytest.approx(0.6)
    assert fill.share == pytest.approx(1.0 / (1.0 + 25 * STEP), rel=0.02)
    assert fill.end_share == pytest.approx(0.6 / (1.0 + 25 * STEP), rel=0.02)
    assert samples.wait_seconds == pytest.approx(measure(25, first=0.4).wait_seconds)


def test_rare_long_ends_count_by_their_mean() -> None:
    samples = measure(25, first=0.4).replace(end_of_epoch_seconds=(0.0, 0.0, 0.0, 2.0))
    fill = first_fill(samples)
    assert fill is not None
    assert fill.end_seconds == pytest.approx(0.5)
    assert fill.share == pytest.approx(0.9 / (0.9 + 25 * STEP), rel=0.02)


def test_the_end_of_the_epoch_that_filled_a_cache_stands_for_no_other() -> None:
    once = measure(10**3, first=0.4, end=0.6, budget_seconds=20, whole_first_epoch=True)
    assert once.end_of_epoch_seconds == ()


def test_the_ends_of_short_epochs_are_no_part_of_the_stall_and_told_alone() -> None:
    samples = measure(8, first=0.4, end=0.6)
    fill = first_fill(samples)
    assert fill is not None
    assert fill.seconds == 0.0
    assert fill.end_seconds == pytest.approx(0.6)
    assert fill.share == fill.end_share == pytest.approx(0.6 / (0.6 + 0.4 + 8 * STEP), rel=0.05)


def test_what_was_saved_before_ends_were_measured_is_still_read() -> None:
    fill = FirstFill.from_json('{"epoch_batches": 25, "seconds": 0.4, "share": 0.12}')
    assert fill.end_seconds == fill.end_share == 0.0
