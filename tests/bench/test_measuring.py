"""Supply, in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from dataio.bench.measuring import LiveSupply, Progress, SupplySamples, measure_supply
from dataio.errors import RecipeError
from tests.bench.virtual import Time, VirtualPipeline


def measure(time: Time, pipelines: dict[str, VirtualPipeline], **options: Any) -> dict[str, SupplySamples]:
    def builder(pipeline: VirtualPipeline) -> Callable[[], Any]:
        return lambda: pipeline

    builders = {name: builder(pipeline) for name, pipeline in pipelines.items()}
    given: dict[str, Any] = {"memory": lambda: 0, "round_seconds": 1.0, "settle": lambda: None} | options
    return measure_supply(builders, batch_size=4, clock=time.clock, **given)


def test_the_supply_is_the_producers_rate() -> None:
    time = Time()
    found = measure(time, {"slow": VirtualPipeline(time, 0.04), "fast": VirtualPipeline(time, 0.01)})
    assert found["slow"].images_per_second.value == pytest.approx(100, rel=1e-6)
    assert found["fast"].images_per_second.value == pytest.approx(400, rel=1e-6)
    assert [len(samples.round_images_per_second) for samples in found.values()] == [5, 5]


def test_batches_that_piled_up_while_others_were_measured_do_not_count() -> None:
    time = Time()
    pipelines = {name: VirtualPipeline(time, 0.02, buffer=16) for name in "ab"}
    for samples in measure(time, pipelines).values():
        assert samples.images_per_second.high == pytest.approx(200, rel=0.01)


def test_rounds_are_taken_in_turn() -> None:
    time = Time()
    seen: list[Progress] = []
    measure(time, {name: VirtualPipeline(time, 0.02) for name in "abc"}, rounds=3, on_progress=seen.append)
    assert [progress.name for progress in seen] == list("abc" * 4)
    assert [progress.phase for progress in seen] == ["warm-up"] * 3 + ["round"] * 9
    assert [progress.done for progress in seen] == list(range(1, 13))
    assert {progress.total for progress in seen} == {12}


def test_warming_up_lasts_until_the_rate_has_stopped_rising() -> None:
    time = Time()
    ramp = lambda number: 0.1 / (1 + number / 5) if number < 45 else 0.01  # noqa: E731
    samples = measure(time, {"ramp": VirtualPipeline(time, ramp)}, warm_up_seconds=10.0)["ramp"]
    assert samples.steady
    assert samples.warm_up_seconds > 2
    assert samples.images_per_second.low == pytest.approx(400, rel=1e-6)


def test_a_rate_that_never_stops_rising_is_said_to_be_unsteady() -> None:
    time = Time()
    ramp = lambda number: 0.1 / (1 + number / 20)  # noqa: E731
    samples = measure(time, {"ramp": VirtualPipeline(time, ramp)}, warm_up_seconds=4.0, rounds=2)["ramp"]
    assert not samples.steady
    assert samples.warm_up_seconds == pytest.approx(4.0, abs=0.7)


def test_a_cache_is_measured_from_its_second_epoch_on_and_the_first_told_apart() -> None:
    time = Time()
    pipeline = VirtualPipeline(time, lambda number: 0.1 if number < 100 else 0.01, batches=100)
    samples = measure(time, {"cached": pipeline}, whole_first_epoch=["cached"])["cached"]
    assert samples.first_epoch_whole
    assert samples.first_epoch_images_per_second == pytest.approx(40, rel=1e-3)
    assert samples.images_per_second.low == pytest.approx(400, rel=0.01)


def test_without_a_whole_first_epoch_its_rate_is_known_as_far_as_it_was_read() -> None:
    time = Time()
    samples = measure(time, {"one": VirtualPipeline(time, 0.02)})["one"]
    assert not samples.first_epoch_whole
    assert samples.first_epoch_images_per_second == pytest.approx(200, rel=1e-3)


def test_the_fill_of_each_epoch_is_left_out_and_kept_apart() -> None:
    time = Time()
    first_is_slow = lambda number: 0.5 if number % 50 == 0 else 0.02  # noqa: E731
    samples = measure(time, {"one": VirtualPipeline(time, first_is_slow, batches=50)})["one"]
    assert samples.images_per_second.value == pytest.approx(200, rel=1e-6)
    assert samples.first_batch_seconds == pytest.approx([0.5] * len(samples.first_batch_seconds))


def test_epochs_of_a_few_batches_are_counted_whole() -> None:
    time = Time()
    first_is_slow = lambda number: 0.1 if number % 4 == 0 else 0.02  # noqa: E731
    samples = measure(time, {"one": VirtualPipeline(time, first_is_slow, batches=4)}, round_seconds=4.0)["one"]
    assert samples.images_per_second.value == pytest.approx(16 / 0.16, rel=0.02)


def test_a_round_in_which_an_epoch_begins_counts_more_than_the_end_of_a_burst() -> None:
    def seconds(number: int) -> float:
        """Epochs of 31 batches begin with 0.9 s; then three come at once every 0.15 s."""
        place = number % 31
        return 0.9 if place == 0 else 0.15 * (place % 3 == 0)

    time = Time()
    samples = measure(time, {"bursts": VirtualPipeline(time, seconds, batches=31)}, rounds=40, round_seconds=0.3)
    rates = sorted(samples["bursts"].round_images_per_second)
    assert rates[20] == pytest.approx(4 * 20, rel=0.25)
    assert rates[-1] < 2 * 4 * 20


def test_memory_is_the_growth_over_what_was_there_before() -> None:
    time = Time()
    held = {"a": 0, "b": 0}
    pipelines = {name: VirtualPipeline(time, 0.02) for name in held}

    def memory() -> int:
        # Each pipeline takes its part once it has been opened and keeps it.
        held["a"] = 30 if pipelines["a"].iterators else 0
        held["b"] = 500 if pipelines["b"].iterators else 0
        return 1000 + held["a"] + held["b"]

    found = measure(time, pipelines, memory=memory)
    assert {name: samples.peak_memory_bytes for name, samples in found.items()} == {"a": 30, "b": 500}


def test_no_iterator_is_left_alive() -> None:
    time = Time()
    pipelines = {"a": VirtualPipeline(time, 0.02), "broken": VirtualPipeline(time, 0.02, batches=0)}
    with pytest.raises(RecipeError, match="broken: the split does not fill a single batch"):
        measure(time, pipelines)
    references = sys.getrefcount(pipelines["a"].iterators[0])
    assert references == 2  # the list's and the argument's: nobody else holds it


def test_one_round_is_refused() -> None:
    time = Time()
    with pytest.raises(ValueError, match="at least 2 rounds"):
        measure(time, {"a": VirtualPipeline(time, 0.02)}, rounds=1)


def test_samples_go_to_json_and_back() -> None:
    time = Time()
    samples = measure(time, {"a": VirtualPipeline(time, 0.02)})["a"]
    assert SupplySamples.from_json(samples.to_json()) == samples


def live_supply(time: Time) -> LiveSupply:
    return LiveSupply(batch_size=4, clock=time.clock, memory=lambda: 0, settle=lambda: None)


def test_a_pipeline_that_stays_alive_is_measured_again_without_another_start() -> None:
    time = Time()
    pipeline = VirtualPipeline(time, 0.02)
    with live_supply(time) as live:
        live.add("one", lambda: pipeline)
        for _ in range(3):
            live.run_round("one", 1.0)
        assert len(live.samples("one").round_images_per_second) == 3
        live.run_round("one", 1.0)
        assert len(live.samples("one", latest=2).round_images_per_second) == 2
    assert len(pipeline.iterators) == 1


def test_a_dropped_pipeline_is_let_go_while_the_others_live_on() -> None:
    time = Time()
    pipelines = {name: VirtualPipeline(time, 0.02) for name in "ab"}
    with live_supply(time) as live:
        for name, pipeline in pipelines.items():
            live.add(name, lambda pipeline=pipeline: pipeline)  # type: ignore[misc]
        live.drop("a")
        references = sys.getrefcount(pipelines["a"].iterators[0])
        assert references == 2
        live.run_round("b", 1.0)
        live.run_round("b", 1.0)
        assert live.samples("b").images_per_second.value == pytest.approx(200, rel=1e-6)


def test_a_pipeline_that_cannot_be_read_leaves_nothing_alive() -> None:
    time = Time()
    with live_supply(time) as live:
        with pytest.raises(RecipeError, match="broken"):
            live.add("broken", lambda: VirtualPipeline(time, 0.02, batches=0))
        live.add("broken", lambda: VirtualPipeline(time, 0.02))
