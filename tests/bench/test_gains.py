"""Gains: a ratio's interval agrees with those of the two rates."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataio.bench.gains import gain
from dataio.bench.results import Rate, Run
from tests.bench.sample_results import sample_results

RUN = sample_results().chosen


def run(low: float, median: float, high: float) -> Run:
    return RUN.replace(images_per_second=Rate(low=low, median=median, high=high))


rates = st.lists(st.floats(1, 1e5), min_size=3, max_size=3).map(sorted)


@given(rates, rates)
def test_rates_whose_intervals_do_not_meet_differ(ours: list[float], theirs: list[float]) -> None:
    found = gain(run(*ours), run(*theirs), noise=0.0)
    assert found is not None
    assert found.low <= found.value * (1 + 1e-9) and found.value <= found.high * (1 + 1e-9)
    if ours[0] > theirs[2] * (1 + 1e-6):
        assert found.low > 1 and not found.is_noise


def test_an_exact_baseline_leaves_the_interval_of_the_plan() -> None:
    found = gain(run(90, 100, 120), run(50, 50, 50), noise=0.0)
    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((1.8, 2.0, 2.4))


def test_a_gain_below_the_noise_floor_is_noise() -> None:
    found = gain(run(105, 105, 105), run(100, 100, 100), noise=0.08)
    assert found is not None and found.is_noise


def test_a_baseline_that_may_supply_nothing_gives_no_upper_end() -> None:
    found = gain(run(90, 100, 120), run(0, 50, 60), noise=0.0)
    assert found is not None and found.high == math.inf


def test_without_a_baseline_there_is_no_gain() -> None:
    assert gain(RUN, None, noise=0.0) is None
    assert gain(RUN, run(0, 0, 0), noise=0.0) is None
