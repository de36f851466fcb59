"""Medians, ratios and noise of measured rounds."""

from __future__ import annotations

import numpy as np
import pytest

from dataio.bench.stats import differs, is_steady, median_interval, noise_floor, pooled_spread, ratio_interval
from dataio.stall import Interval


def test_the_interval_holds_the_median_and_grows_with_the_spread() -> None:
    calm = median_interval([100, 101, 99, 100, 100.5])
    rough = median_interval([100, 130, 70, 100, 110])
    assert calm.low <= calm.value == 100 <= calm.high
    assert rough.width > 5 * calm.width


def test_fewer_than_five_rounds_give_a_wider_interval_than_five() -> None:
    assert median_interval([99, 100, 101]).width > median_interval([99, 100, 101, 99, 101]).width
    assert median_interval([99, 101]).width > median_interval([99, 100, 101]).width


def test_one_round_gives_no_interval() -> None:
    with pytest.raises(ValueError, match="at least 2 rounds, found 1"):
        median_interval([100.0])


def test_intervals_of_five_rounds_hold_the_true_median_nine_times_in_ten() -> None:
    random = np.random.default_rng(0)
    held = 0
    for seed in range(300):
        interval = median_interval(random.normal(1000, 50, 5), seed=seed, resamples=500)
        held += interval.low <= 1000 <= interval.high
    assert held / 300 >= 0.9


def test_a_drift_that_hits_both_plans_alike_cancels_in_their_ratio() -> None:
    slowing = np.array([1.0, 0.9, 0.8, 0.7, 0.6])
    ratio = ratio_interval(110 * slowing, 100 * slowing)
    assert ratio.value == pytest.approx(1.1)
    assert ratio.width < 1e-9
    assert differs(ratio)


def test_rounds_of_unequal_number_are_compared_unpaired() -> None:
    ratio = ratio_interval([200, 210, 190, 200, 205], [100, 102, 98, 100])
    assert ratio.low < 2 < ratio.high
    assert differs(ratio)


def test_equal_plans_do_not_differ() -> None:
    random = np.random.default_rng(1)
    wrong = sum(
        differs(ratio_interval(random.normal(100, 5, 5), random.normal(100, 5, 5), seed=seed, resamples=500))
        for seed in range(200)
    )
    assert wrong <= 20


@pytest.mark.parametrize(("low", "high", "expected"), [(0.9, 1.1, False), (1.01, 1.2, True), (0.8, 0.99, True)])
def test_a_ratio_differs_when_its_interval_leaves_one_out(low: float, high: float, expected: bool) -> None:
    assert differs(Interval(value=(low + high) / 2, low=low, high=high)) is expected


def test_two_equal_plans_stay_below_the_noise_floor_in_95_of_100_cases() -> None:
    random = np.random.default_rng(0)
    floor = noise_floor(random.normal(1000, 80, (200, 5)))
    exceeded = 0
    for _ in range(500):
        first, second = np.median(random.normal(1000, 80, 5)), np.median(random.normal(1000, 80, 5))
        exceeded += abs(first / second - 1) > floor
    assert exceeded / 500 < 0.08
    assert 0.05 < floor < 0.2


def test_the_noise_floor_needs_rounds() -> None:
    with pytest.raises(ValueError, match="at least 2 rounds"):
        noise_floor([[100.0]])


@pytest.mark.parametrize(
    ("rates", "steady"),
    [
        ([100, 100, 100], False),  # too few to say
        ([10, 20, 40, 80], False),
        ([80, 100, 100, 101], False),
        ([98, 100, 100, 101], True),
        ([100, 100, 50, 60], True),  # slower than before is no ramp
    ],
)
def test_a_rate_is_steady_once_it_has_stopped_rising(rates: list[float], steady: bool) -> None:
    assert is_steady(rates) is steady


def test_two_rounds_take_their_scatter_from_all_plans_of_the_run() -> None:
    random = np.random.default_rng(3)
    spread = pooled_spread(rate * (1 + 0.05 * random.standard_normal(2)) for rate in range(100, 5000, 50))
    assert spread is not None and spread.freedom == 98
    assert spread.relative == pytest.approx(0.05, rel=0.2)
    alone, together = median_interval([990, 1010]), median_interval([990, 1010], spread=spread)
    assert together.value == alone.value == 1000
    assert together.width == pytest.approx(2 * 1.984 * spread.relative * 1000 / 2**0.5, rel=0.01)  # t of 98


def test_intervals_with_a_common_scatter_hold_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(0)
    held = []
    for _ in range(1000):
        plans = [1 + 0.1 * random.standard_normal(2) for _ in range(7)]
        found = median_interval(plans[0], spread=pooled_spread(plans))
        held.append(found.low <= 1 <= found.high)
    assert np.mean(held) >= 0.93


def test_plans_of_a_single_round_have_no_common_scatter() -> None:
    assert pooled_spread([[1.0], [2.0]]) is None
