"""The stall loop, in virtual time: every stall here is known exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dataio.bench.ending import THREAD_NAME
from dataio.bench.stalling import StallSamples, measure_stall
from dataio.errors import RecipeError
from dataio.stall import classify
from tests.bench.virtual import Time, VirtualPipeline, VirtualStep, ready_of

STEP = 0.05


def measure(time: Time, pipeline: VirtualPipeline, step: VirtualStep | None = None, **options: Any) -> StallSamples:
    options = {"budget_seconds": 60.0, "state": ready_of} | options
    return measure_stall(
        lambda: pipeline,  # type: ignore[arg-type, return-value]
        step or VirtualStep(time, STEP),
        batch_size=4,
        clock=time.clock,
        **options,
    )


@pytest.mark.parametrize("truth", [0.0, 0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("buffer", [1, 16])
def test_the_reported_stall_is_the_one_built(truth: float, buffer: int) -> None:
    time = Time()
    pipeline = VirtualPipeline(time, STEP / (1 - truth) if truth else STEP * 0.8, buffer=buffer)
    samples = measure(time, pipeline, budget_seconds=200.0)
    assert samples.stall.value == pytest.approx(truth, abs=0.005)
    assert samples.stall.low <= truth <= samples.stall.high
    assert not samples.budget_ended


def test_random_service_times_are_reported_within_two_points() -> None:
    time = Time()
    service = np.random.default_rng(0).gamma(11, STEP * 1.25 / 11, 100_000)
    samples = measure(time, VirtualPipeline(time, lambda number: float(service[number])), budget_seconds=300.0)
    assert samples.stall.value == pytest.approx(0.2, abs=0.02)
    assert samples.stall.low <= 0.2 <= samples.stall.high


def test_the_first_fill_is_no_stall() -> None:
    time = Time()
    pipeline = VirtualPipeline(time, lambda number: 2.0 if number == 0 else STEP / 2)
    samples = measure(time, pipeline)
    assert samples.first_batch_seconds == (2.0,)
    assert samples.stall.value == 0.0
    assert classify(samples.stall) == "fed"


def test_the_fill_of_every_later_epoch_is_left_out_too_and_told_apart() -> None:
    time = Time()
    pipeline = VirtualPipeline(time, STEP / 2, batches=40)
    samples = measure(time, pipeline)
    assert len(samples.first_batch_seconds) > 2
    assert samples.stall.value == 0.0


def test_a_buffer_that_empties_because_the_epoch_ends_is_no_stall() -> None:
    time = Time()
    samples = measure(time, VirtualPipeline(time, STEP / 2, batches=40, buffer=10, told_cardinality=False))
    assert samples.epoch_batches == 40
    assert samples.stall.value == 0.0


def test_a_stall_within_epochs_is_seen_although_epochs_are_left_out_at_both_ends() -> None:
    time = Time()
    samples = measure(time, VirtualPipeline(time, STEP * 2, batches=40))
    assert samples.stall.value == pytest.approx(0.5, abs=0.01)


def test_epochs_of_a_few_batches_are_counted_whole_with_their_fill() -> None:
    time = Time()
    # Each epoch: the first batch after 0.1 s, then three that are ready: 0.1 s of waiting in 0.3 s.
    samples = measure(time, VirtualPipeline(time, lambda number: 0.1 if number % 4 == 0 else 0.001, batches=4))
    assert samples.short_epochs
    assert samples.stall.value == pytest.approx(0.1 / 0.3, abs=0.02)


def test_getting_a_ready_batch_is_work_and_not_waiting() -> None:
    time = Time()
    samples = measure(time, VirtualPipeline(time, STEP / 2, get_seconds=0.005))
    assert min(samples.wait_seconds) == pytest.approx(0.005)
    assert samples.stall.value == 0.0


def test_a_pipeline_that_does_not_tell_its_state_is_measured_by_its_waits_with_a_wider_interval() -> None:
    time = Time()
    untold = measure(time, VirtualPipeline(time, STEP * 2), state=lambda iterator: None)
    assert not untold.state_told
    assert untold.stall.value == pytest.approx(0.5, abs=0.005)
    fed = measure(time, VirtualPipeline(time, STEP / 2), state=lambda iterator: None)
    assert fed.stall.value == 0.0
    assert fed.stall.high > 0.015


def test_a_budget_too_small_for_the_noise_ends_inconclusive() -> None:
    time = Time()
    service = np.random.default_rng(0).gamma(1, STEP * 1.08, 100_000)
    samples = measure(time, VirtualPipeline(time, lambda number: float(service[number])), budget_seconds=10.0)
    assert samples.budget_ended
    assert classify(samples.stall) == "inconclusive"


def test_a_budget_of_nothing_still_ends() -> None:
    time = Time()
    samples = measure(time, VirtualPipeline(time, STEP), budget_seconds=1e-3)
    assert samples.budget_ended
    assert len(samples.wait_seconds) >= 1


def test_the_window_ends_early_when_the_stall_is_clear() -> None:
    time = Time()
    begun = time.now
    samples = measure(time, VirtualPipeline(time, STEP * 10), budget_seconds=1000.0)
    assert time.now - begun < 400
    assert not samples.budget_ended


def test_warming_up_lasts_until_the_rate_has_stopped_rising() -> None:
    time = Time()
    ramp = lambda number: 0.5 / (1 + number / 10) if number < 90 else 0.05  # noqa: E731
    samples = measure(time, VirtualPipeline(time, ramp), VirtualStep(time, 0.01), budget_seconds=120.0)
    assert samples.steady
    assert samples.warm_up_steps > 60
    assert samples.stall.value == pytest.approx(0.8, abs=0.02)


def test_a_whole_first_epoch_is_run_through_without_stepping() -> None:
    time = Time()
    step = VirtualStep(time, STEP)
    pipeline = VirtualPipeline(time, lambda number: 1.0 if number < 40 else STEP / 2, batches=40)
    samples = measure(time, pipeline, step, whole_first_epoch=True)
    assert samples.stall.value == 0.0
    assert len(samples.first_batch_seconds) >= 2


def test_a_short_step_has_its_buffer_read_less_often() -> None:
    time = Time()
    step = VirtualStep(time, 0.002)
    samples = measure(time, VirtualPipeline(time, 0.004), step)
    read = sum(ready is not None for ready in samples.ready)
    assert read < len(samples.ready) / 5
    assert samples.stall.value == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("step_seconds", [0.002, 1e-5])
def test_a_starved_short_step_is_seen_within_a_second(step_seconds: float) -> None:
    time = Time()
    samples = measure(time, VirtualPipeline(time, 0.02), VirtualStep(time, step_seconds), budget_seconds=1.0)
    assert samples.stall.value == pytest.approx(1 - step_seconds / 0.02, abs=0.02)
    assert samples.stall.low > 0.5


@pytest.mark.parametrize("offset", range(4))
def test_a_long_gap_is_seen_also_at_a_step_whose_buffer_was_not_read(offset: int) -> None:
    # The buffer is read at every fourth step of 10 ms; the gap comes every 152 batches, so always at the same of four.
    time = Time()
    pipeline = VirtualPipeline(time, lambda number: 1.0 if number % 152 == offset else 0.005)
    samples = measure(time, pipeline, VirtualStep(time, 0.01))
    assert sum(ready is not None for ready in samples.ready) < 0.3 * len(samples.ready)
    assert samples.stall.value == pytest.approx(0.98 / (0.98 + 152 * 0.01), abs=0.03)


def test_the_demand_is_the_known_one_or_what_ready_batches_allow() -> None:
    time = Time()
    known = measure(time, VirtualPipeline(time, STEP * 2))
    assert known.demand_images_per_second == pytest.approx(4 / STEP)
    found = measure(time, VirtualPipeline(time, STEP * 2), VirtualStep(time, STEP, known=False))
    assert found.known_step_seconds is None
    assert found.demand_images_per_second == pytest.approx(4 / STEP)


def test_a_pipeline_without_a_batch_is_an_error_that_says_what_to_do() -> None:
    time = Time()
    with pytest.raises(RecipeError, match="smaller batch_size"):
        measure(time, VirtualPipeline(time, STEP, batches=0))
    with pytest.raises(RecipeError, match="does not fill a single batch"):
        measure(time, VirtualPipeline(time, STEP, batches=0, told_cardinality=False))


def test_samples_go_to_json_and_back() -> None:
    time = Time()
    samples = measure(time, VirtualPipeline(time, STEP * 2))
    assert StallSamples.from_json(samples.to_json()) == samples


def test_no_epoch_ends_on_the_thread_of_the_loop() -> None:
    time = Time()
    pipeline = VirtualPipeline(time, STEP / 2, batches=20, end_seconds=3.0)
    samples = measure(time, pipeline, budget_seconds=20.0)
    assert set(pipeline.ended_on) == {THREAD_NAME}
    assert len(samples.end_of_epoch_seconds) > 5
    assert samples.end_of_epoch_seconds == pytest.approx((3.0,) * len(samples.end_of_epoch_seconds))
    assert samples.stall.value == 0.0
