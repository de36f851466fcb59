"""Figures and plans in words."""

from __future__ import annotations

import pytest

from dataio.bench.filling import FirstFill
from dataio.bench.results import Bound, Rate
from dataio.bench.words import (
    HELD_UP_PLAN,
    bound_sentence,
    byte_words,
    chosen_loop,
    fill_words,
    gain_words,
    gains_sentence,
    gpu_sentence,
    headline,
    plan_words,
    rate_words,
    share_words,
    time_words,
    with_fill,
)
from dataio.plan import Plan
from tests.bench.sample_results import sample_results


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (3.14159, "3.14"), (38.21, "38.2"), (412.4, "412"), (12345.6, "12,346")]
)
def test_rates_carry_no_more_digits_than_they_deserve(value: float, words: str) -> None:
    assert rate_words(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (112_400, "112 kB"), (1.44e9, "1.44 GB"), (3e15, "3000 TB")],
)
def test_bytes_take_the_unit_that_fits(value: float, words: str) -> None:
    assert byte_words(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.012, "12 ms"), (5.25, "5.2 s"), (42.4, "42 s"), (119.4, "119 s"), (200, "3 min 20 s"), (18_600, "5 h 10 min")],
)
def test_durations_read_at_a_glance(value: float, words: str) -> None:
    assert time_words(value) == words


@pytest.mark.parametrize(("value", "words"), [(0.004, "0.4 %"), (0.0996, "10 %"), (0.37, "37 %"), (1, "100 %")])
def test_shares_are_per_cent(value: float, words: str) -> None:
    assert share_words(value) == words


def test_a_plan_is_what_sets_it_apart_from_autotune() -> None:
    plan = Plan(num_parallel_calls=4, fused_decode_and_crop=True, deterministic=False)
    assert plan_words(plan) == "num_parallel_calls=4, fused_decode_and_crop, deterministic=False"
    assert plan_words(Plan()) == "everything left to AUTOTUNE"


def test_a_gain_within_the_noise_is_told_as_a_tie() -> None:
    results = sample_results()
    chosen, fused = results.chosen, results.run("autotune_fused", "photos-tfrecord")
    assert fused is not None
    close = fused.replace(images_per_second=chosen.images_per_second)
    assert "within the noise" in gain_words(chosen, close, results.noise)
    slow = fused.replace(images_per_second=Rate(median=500, low=490, high=510))
    assert "within the noise" not in gain_words(chosen, slow, results.noise)


def test_the_gain_over_both_baselines_is_always_told() -> None:
    told = gains_sentence(sample_results())
    assert "against the pipeline of TensorFlow's guide (all AUTOTUNE)" in told
    assert "decode and crop in one op" in told


def test_a_gain_is_told_with_its_interval() -> None:
    results = sample_results()
    baseline = results.run("autotune", results.chosen.data)
    assert baseline is not None
    chosen = results.chosen.replace(images_per_second=Rate(median=1500, low=1400, high=1600))
    slow = baseline.replace(images_per_second=Rate(median=1000, low=950, high=1050))
    assert gain_words(chosen, slow, 0.02) == "1.50 x (1.38 to 1.63)"
    unknown = baseline.replace(images_per_second=Rate(median=1000, low=0, high=3000))
    assert gain_words(chosen, unknown, 0.02) == "1.50 x (0.50 or more), within the noise,"


FILL = FirstFill(epoch_batches=25, seconds=0.4, share=0.12)


def test_a_first_fill_worth_a_twentieth_of_the_time_is_told() -> None:
    assert fill_words(FILL) == "besides, the start of every epoch of 25 batches takes 400 ms: 12 % of the time"
    assert fill_words(FILL.replace(share=0.05)) == ""
    assert fill_words(None) == ""


#: An epoch of 7.5 s whose ends take 1.1 s on average.
HELD_UP = FirstFill(epoch_batches=25, seconds=0.4, end_seconds=1.1, share=0.2)


def test_the_end_of_epochs_is_told_with_reason_and_remedy_from_a_tenth_of_the_gap_on() -> None:
    told = fill_words(HELD_UP, reason=HELD_UP_PLAN)
    assert told == (
        "besides, start and end of every epoch of 25 batches take 400 ms and, on average, 1.1 s: 20 % of the time. "
        "TensorFlow's autotuning thread holds up the end of epochs now and then; a plan with autotune=False and fixed "
        "num_parallel_calls, cycle_length and prefetch is not held up"
    )
    assert fill_words(HELD_UP) == told.partition(". ")[0], "no reason where autotuning is off"
    small = FILL.replace(end_seconds=0.04)
    assert fill_words(small, reason=HELD_UP_PLAN) == fill_words(FILL)
    assert "start and end" in fill_words(FILL.replace(end_seconds=0.05))


def test_where_starts_are_part_of_the_stall_only_the_end_is_told() -> None:
    told = fill_words(HELD_UP.replace(seconds=0.0, epoch_batches=8))
    assert told == "besides, the end of every epoch of 8 batches takes 1.1 s on average: 20 % of the time"


def test_an_end_as_long_as_that_of_any_iterator_is_not_put_down_to_autotuning() -> None:
    quick = FirstFill(epoch_batches=25, seconds=0.004, end_seconds=0.002, share=0.12)
    assert fill_words(quick, reason=HELD_UP_PLAN) == (
        "besides, the start of every epoch of 25 batches takes 4 ms: 12 % of the time"
    )


def test_a_verdict_tells_the_first_fill_after_its_reason_and_keeps_its_figures() -> None:
    verdict = sample_results().verdict
    assert verdict is not None
    told = with_fill(verdict, FILL)
    assert told.reason == f"{verdict.reason}; {fill_words(FILL)}"
    assert with_fill(verdict, HELD_UP, reason=HELD_UP_PLAN).reason.endswith(HELD_UP_PLAN)
    assert told.replace(reason=verdict.reason) == verdict
    assert with_fill(verdict, None) == verdict


def test_the_headline_tells_a_large_first_fill_too() -> None:
    results = sample_results()
    loops = tuple(loop.replace(first_fill=FILL) for loop in results.loops)
    assert "1.3 % of its time within epochs, and 12 % at their starts" in headline(results.replace(loops=loops))
    assert "at their starts" not in headline(results)
    held_up = tuple(loop.replace(first_fill=HELD_UP) for loop in results.loops)
    assert "1.3 % of its time within epochs, and 20 % between them" in headline(results.replace(loops=held_up))


def test_what_the_gpu_did_is_told_where_it_is_known() -> None:
    loop = chosen_loop(sample_results())
    assert loop is not None
    assert gpu_sentence(loop) == gpu_sentence(None) == ""
    loop = loop.replace(gpu_utilisation=0.83, host_to_device_bytes_per_second=9.5e9)
    assert "busy 83 % of the time" in gpu_sentence(loop)
    assert "9.5 GB/s" in gpu_sentence(loop)


def test_the_headline_tells_the_stall_now_and_before() -> None:
    told = headline(sample_results())
    assert "1.3 %" in told
    assert "36 %" in told


def test_the_headline_without_a_step_tells_the_supply() -> None:
    results = sample_results(step=False)
    assert rate_words(results.chosen.images_per_second.median) in headline(results)


def test_an_undecided_verdict_is_not_told_as_a_finding() -> None:
    results = sample_results()
    assert results.verdict is not None
    told = headline(results.replace(verdict=results.verdict.replace(outcome="inconclusive")))
    assert "does not decide" in told


def test_a_bound_that_the_plan_has_passed_is_not_told_since_it_does_not_do_that_work() -> None:
    results = sample_results()
    rate = results.chosen.images_per_second.median
    storage = Bound(name="storage, cold", images_per_second=rate / 2, how="read once")
    decoding = Bound(name="decoding", images_per_second=rate * 2, how="bare loop")
    assert "50 % of the bound by decoding" in bound_sentence(results.replace(bounds=(storage, decoding)))
    assert bound_sentence(results.replace(bounds=(storage,))) == ""
