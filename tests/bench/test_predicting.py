"""Predictions: from a serial calibration, then from what was measured; and memory before anything is built."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataio.bench.costs import Costs, StageSeconds
from dataio.bench.footprint import Footprint, predict_footprint, refusal
from dataio.bench.predicting import Predictor, calls_at_once
from dataio.plan import Plan
from dataio.recipe import Recipe

from .test_bounds import Pictures

CORES = 4


def costs(read: float = 0.1e-3, picture: float = 0.7e-3, overhead: float = 0.2e-3) -> Costs:
    seconds = {"read": read, "picture": picture, "op overhead": overhead}
    total = sum(seconds.values())
    stages = tuple(
        StageSeconds(stage=stage, seconds_per_image=value, bytes_per_image=None, share=value / total)  # type: ignore[arg-type]
        for stage, value in seconds.items()
    )
    return Costs(images=1000, seconds_per_image=total, stages=stages)


@pytest.fixture
def predictor() -> Predictor:
    made = Predictor(CORES)
    made.calibrate(Plan(), costs())
    return made


def rate(predictor: Predictor, **fields: object) -> float:
    return predictor.predict(Plan(**{"cycle_length": 1} | fields)).value


def test_a_serial_plan_takes_the_clock_time_of_the_calibration(predictor: Predictor) -> None:
    assert rate(predictor, num_parallel_calls=1) == pytest.approx(1000)


def test_calls_share_the_work_up_to_the_cores(predictor: Predictor) -> None:
    assert rate(predictor, num_parallel_calls=2) == pytest.approx(2000)
    assert rate(predictor, num_parallel_calls=4) == pytest.approx(4000)
    assert rate(predictor, num_parallel_calls=16) == pytest.approx(4000)
    assert rate(predictor, num_parallel_calls="auto") == pytest.approx(4000)


def test_one_reader_limits_what_calls_can_do() -> None:
    slow_reader = Predictor(CORES)
    slow_reader.calibrate(Plan(), costs(read=0.5e-3))
    assert rate(slow_reader, num_parallel_calls=4) == pytest.approx(2000)
    assert rate(slow_reader, num_parallel_calls=4, cycle_length=2) > 2000


def test_a_cache_saves_reading_alone(predictor: Predictor) -> None:
    assert rate(predictor, num_parallel_calls=1, cache="memory") == pytest.approx(1 / 0.903e-3, rel=1e-3)


def test_reading_is_never_taken_for_all_that_a_faster_kernel_does() -> None:
    disturbed = Predictor(CORES)
    disturbed.calibrate(Plan(), costs(read=2e-3))  # of a kernel that altogether takes 0.6 ms
    disturbed.learn(Plan(kernel="opencv", num_parallel_calls=4, cycle_length=1), 6000.0)
    found = disturbed.predict(Plan(kernel="opencv", num_parallel_calls=4, cycle_length=1, cache="memory"))
    assert found.low > 0
    assert found.value <= 4.001 * 6000 / 0.9  # a quarter of the work is left, done by four calls at once


@given(
    read=st.floats(1e-6, 1e-2),
    picture=st.floats(1e-5, 1e-2),
    rates=st.lists(st.floats(10, 1e5), min_size=1, max_size=4),
)
def test_whatever_was_measured_rates_are_positive(read: float, picture: float, rates: list[float]) -> None:
    made = Predictor(CORES)
    made.calibrate(Plan(), costs(read=read, picture=picture))
    kernels = [{"kernel": "opencv"}, {}, {"fused_decode_and_crop": True}, {"kernel": "opencv", "cache": "decoded"}]
    for fields, found in zip(kernels, rates, strict=False):
        made.learn(Plan(num_parallel_calls=4, **fields), found)
    for fields, calls, cache in itertools.product(kernels[:3], (1, 4, 8), ("none", "memory", "disk", "decoded")):
        if cache == "decoded" and "fused_decode_and_crop" in fields:
            continue
        plan = Plan(**fields | {"num_parallel_calls": calls, "cache": cache})
        assert 0 < made.predict(plan).low < float("inf")
        assert made.work_seconds(plan) > 0


def test_the_efficiency_that_was_measured_carries_over_to_like_plans(predictor: Predictor) -> None:
    predictor.learn(Plan(num_parallel_calls=4, cycle_length=1, prefetch=2), 3200.0)
    assert rate(predictor, num_parallel_calls=4) == pytest.approx(3200)
    assert rate(predictor, num_parallel_calls=4, cache="memory") == pytest.approx(3200 / 0.903, rel=0.01)


def test_a_python_kernel_is_known_from_its_own_run(predictor: Predictor) -> None:
    predictor.learn(Plan(kernel="opencv", num_parallel_calls=4, cycle_length=1), 6000.0)
    assert rate(predictor, kernel="opencv", num_parallel_calls=4) == pytest.approx(6000)
    assert rate(predictor, kernel="opencv", num_parallel_calls=16, threads=16) == pytest.approx(6000, rel=0.1)


def test_a_plan_that_is_measured_again_counts_once(predictor: Predictor) -> None:
    plan = Plan(num_parallel_calls=4, prefetch=2)
    for _ in range(5):
        predictor.learn(plan, 1000.0)
    predictor.learn(plan, 3000.0)
    assert rate(predictor, num_parallel_calls=4, prefetch=2) == pytest.approx(3000)


def test_plans_with_the_same_cache_tell_more_than_others(predictor: Predictor) -> None:
    uncached = Plan(kernel="opencv", num_parallel_calls=4, cycle_length=1)
    predictor.learn(uncached, 4000.0)
    predictor.learn(uncached.replace(cache="memory"), 4200.0)
    found = rate(predictor, kernel="opencv", num_parallel_calls=4, cycle_length=1, cache="memory", prefetch=2)
    assert found == pytest.approx(4200, rel=0.02)


def test_another_number_of_calls_costs_a_python_kernel(predictor: Predictor) -> None:
    predictor.learn(Plan(kernel="opencv", num_parallel_calls=CORES + 1, cycle_length=1), 4000.0)
    alike = rate(predictor, kernel="opencv", num_parallel_calls=CORES + 1, cycle_length=1, prefetch=2)
    assert rate(predictor, kernel="opencv", num_parallel_calls=CORES, cycle_length=1) == pytest.approx(0.86 * alike)
    assert rate(predictor, kernel="opencv", num_parallel_calls=2 * CORES, cycle_length=1) == pytest.approx(0.86 * alike)


def test_taking_decoded_pictures_from_disk_costs_their_bytes_and_from_memory_nothing(predictor: Predictor) -> None:
    costs = next(iter(predictor.calibrations.values()))
    stages = tuple(stage.replace(bytes_per_image=100_000.0) for stage in costs.stages)
    counted = Predictor(CORES)
    counted.calibrate(Plan(), costs.replace(stages=stages))
    nothing = Predictor(CORES)
    nothing.calibrate(Plan(), costs.replace(stages=tuple(s.replace(bytes_per_image=None) for s in costs.stages)))
    plan = Plan(num_parallel_calls=CORES, cache="decoded_disk")
    more = CORES / counted.predict(plan).value - CORES / nothing.predict(plan).value
    assert more == pytest.approx(100_000 * 13 * 0.4e-9, rel=0.01)  # 13 bytes of pixels a byte, 0.4 ns each
    kept = plan.replace(cache="decoded")
    assert counted.predict(kept).value == pytest.approx(nothing.predict(kept).value)


def test_cutting_from_decoded_pictures_is_known_from_the_bare_loop_until_it_was_measured(predictor: Predictor) -> None:
    plan = Plan(kernel="opencv", cache="decoded", num_parallel_calls=CORES)
    unknown = predictor.predict(plan)
    predictor.kept_seconds = 100e-6
    known = predictor.predict(plan)
    assert known.value == pytest.approx(0.9 * CORES / 120e-6)
    assert known.width / known.value < unknown.width / unknown.value
    predictor.learn(plan, 20_000.0)
    assert predictor.predict(plan).value == pytest.approx(20_000)


def test_however_many_cores_one_thread_hands_out_the_places_of_decoded_pictures() -> None:
    many = Predictor(1000)
    many.calibrate(Plan(), costs())
    many.kept_seconds = 100e-6
    assert many.predict(Plan(kernel="opencv", cache="decoded")).value == pytest.approx(1 / 5e-6)


def test_decoded_pictures_of_tensorflow_are_known_from_a_serial_run_of_their_own(predictor: Predictor) -> None:
    plan = Plan(cache="decoded", num_parallel_calls=CORES)
    unknown = predictor.predict(plan)
    predictor.calibrate(plan, costs(read=2e-6, picture=0.4e-3, overhead=0.1e-3))
    known = predictor.predict(plan)
    assert known.value == pytest.approx(CORES / 0.502e-3)  # reading is no part of it any more
    assert known.width / known.value < unknown.width / unknown.value
    assert rate(predictor, num_parallel_calls=1) == pytest.approx(1000)  # and nothing else is changed by it
    predictor.learn(plan, 3000.0)
    assert predictor.predict(plan).value == pytest.approx(3000)


def test_a_plan_counts_as_measured_by_any_of_its_family(predictor: Predictor) -> None:
    kept = Plan(kernel="opencv", cache="decoded", num_parallel_calls=CORES)
    predictor.learn(kept.replace(cache="none"), 4000.0)
    assert not predictor.has_measured(kept)
    predictor.learn(kept.replace(num_parallel_calls=1), 9000.0)
    assert predictor.has_measured(kept)


def test_the_interval_is_wider_the_less_is_known(predictor: Predictor) -> None:
    def width(plan: Plan) -> float:
        found = predictor.predict(plan)
        assert found.low < found.value < found.high
        return (found.high - found.low) / found.value

    unknown, calibrated = width(Plan(kernel="opencv")), width(Plan(num_parallel_calls=4))
    predictor.learn(Plan(num_parallel_calls=2), 1900.0)
    same_kernel = width(Plan(num_parallel_calls=4))
    predictor.learn(Plan(num_parallel_calls=4), 3800.0)
    same_calls = width(Plan(num_parallel_calls=4, prefetch=2))
    assert unknown > calibrated > same_kernel > same_calls


def test_without_a_calibration_it_refuses() -> None:
    with pytest.raises(ValueError, match="calibration"):
        Predictor(CORES).predict(Plan())


@pytest.mark.parametrize(
    ("plan", "calls"),
    [
        (Plan(), CORES),
        (Plan(autotune=False), 1),
        (Plan(num_parallel_calls=2), 2),
        (Plan(num_parallel_calls=9), CORES),
        (Plan(num_parallel_calls=9, threads=2), 2),
    ],
)
def test_calls_at_once_are_limited_by_threads_and_cores(plan: Plan, calls: int) -> None:
    assert calls_at_once(plan, CORES) == calls


RECIPE = Recipe(image_size=224, batch_size=64, dtype="uint8")


def footprint(plan: Plan, recipe: Recipe = RECIPE) -> Footprint:
    return predict_footprint(Pictures(), recipe, plan, split="train", cores=CORES)


def test_a_cache_holds_the_whole_split() -> None:
    data = Pictures()
    cached = footprint(Plan(cache="memory")).cache_bytes
    assert data.splits["train"].bytes < cached < data.splits["train"].bytes + 8 * 5000
    assert footprint(Plan()).cache_bytes == 0


def test_a_cache_of_a_sample_must_hold_the_whole() -> None:
    for cache in ("memory", "disk"):
        sample = footprint(Plan(cache=cache))
        whole = predict_footprint(Pictures(), RECIPE, Plan(cache=cache), split="train", cores=CORES, whole=10)
        assert whole.cache_bytes == pytest.approx(10 * sample.cache_bytes, abs=10)
        assert whole.disk_bytes == pytest.approx(10 * sample.disk_bytes, abs=10)
        assert whole.batch_bytes == sample.batch_bytes


def test_batches_count_those_ready_and_those_in_the_making() -> None:
    few, many = footprint(Plan(prefetch=2)), footprint(Plan(prefetch=10))
    assert many.batch_bytes - few.batch_bytes == 8 * RECIPE.batch_bytes
    opencv = footprint(Plan(prefetch=2, kernel="opencv", num_parallel_calls=8))
    assert opencv.batch_bytes == (2 + 1 + 8) * RECIPE.batch_bytes
    assert footprint(Plan(), RECIPE.replace(dtype="float32")).batch_bytes == 4 * footprint(Plan()).batch_bytes


def test_only_formats_read_in_sequence_hold_records_to_shuffle() -> None:
    assert footprint(Plan()).shuffle_bytes == 0
    sequential = Pictures()
    sequential.random_access = False
    found = predict_footprint(sequential, RECIPE, Plan(), split="train", cores=CORES)
    assert found.shuffle_bytes > sequential.splits["train"].bytes


def test_what_passes_the_limit_is_refused_with_its_figures() -> None:
    plan = footprint(Plan(cache="memory"))
    assert refusal(plan, free_bytes=plan.total_bytes * 2) is None
    reason = refusal(plan, free_bytes=plan.total_bytes)
    assert reason is not None and "80%" in reason


def test_a_cache_on_disk_takes_disk_and_no_memory() -> None:
    records, pixels = footprint(Plan(cache="disk")), footprint(Plan(cache="decoded_disk"))
    assert records.cache_bytes == pixels.cache_bytes == 0
    stored = Pictures().splits["train"].bytes
    assert stored < records.disk_bytes < stored + 8 * 500 < pixels.disk_bytes
    assert footprint(Plan(cache="memory")).disk_bytes == 0


def test_records_from_a_file_wait_in_memory_for_their_turn_in_the_order() -> None:
    plan = Plan(cache="decoded_disk")
    assert footprint(plan, RECIPE.replace(shuffle=False)).shuffle_bytes == 0
    assert footprint(plan, RECIPE.replace(shuffle_buffer=4)).shuffle_bytes >= footprint(plan).disk_bytes / 2 - 4 * 200
    assert footprint(Plan(cache="decoded")).shuffle_bytes == 0


def test_a_cache_that_passes_the_room_on_disk_is_refused_with_its_figures() -> None:
    plan = footprint(Plan(cache="disk"))
    assert refusal(plan, free_bytes=plan.total_bytes * 2, disk_room_bytes=plan.disk_bytes) is None
    reason = refusal(plan, free_bytes=plan.total_bytes * 2, disk_room_bytes=plan.disk_bytes - 1)
    assert reason is not None and "on disk" in reason and "DATAIO_CACHE_DIR" in reason
