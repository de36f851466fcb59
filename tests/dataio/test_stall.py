"""Stall figures: estimates, intervals, names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataio.errors import RecordError
from dataio.stall import Interval, Stall, classify, estimate_stall, stall_share, student_quantile


def test_the_share_is_waiting_over_waiting_and_stepping() -> None:
    assert stall_share([1.0, 1.0], [3.0, 3.0]) == pytest.approx(0.25)
    assert stall_share([], []) == 0.0


@pytest.mark.parametrize(
    ("low", "value", "high", "name"),
    [
        (0.0, 0.0, 0.049, "fed"),
        (0.05, 0.05, 0.19, "limited"),
        (0.2, 0.5, 1.0, "starved"),
        (0.03, 0.06, 0.09, "inconclusive"),
        (0.15, 0.19, 0.25, "inconclusive"),
        (0.0, 0.3, 1.0, "inconclusive"),
        (0.042, 0.051, 0.06, "limited"),  # across the line, but narrow: the middle decides
        (0.04, 0.049, 0.06, "fed"),
        (0.19, 0.2, 0.21, "starved"),
    ],
)
def test_a_stall_is_named_when_its_interval_allows_one_name_or_is_narrow(
    low: float, value: float, high: float, name: str
) -> None:
    assert classify(Interval(value=value, low=low, high=high)) == name


def test_equal_waits_give_their_share_with_an_interval_of_one_batch() -> None:
    stall = estimate_stall([1.0] * 100, [3.0] * 100, drained_batches=[0.0] * 100)
    assert stall.value == pytest.approx(0.25)
    assert stall.width == pytest.approx(0.01)


def test_without_steps_nothing_is_known() -> None:
    assert estimate_stall([], []) == Stall(value=0.0, low=0.0, high=1.0)


def test_one_step_says_nearly_nothing() -> None:
    stall = estimate_stall([1.0], [1.0], drained_batches=[0.0])
    assert (stall.low, stall.high) == (0.0, 1.0)


def test_a_buffer_that_empties_counts_as_the_stall_that_it_hides() -> None:
    # A producer 20 % slower than the step, behind 16 ready batches: no step waits, but one batch in five was borrowed.
    steps = 80
    drained = [1.0 if number % 5 == 0 else 0.0 for number in range(steps)]
    stall = estimate_stall([0.0] * steps, [1.0] * steps, drained_batches=drained)
    assert stall.value == pytest.approx(0.2)


def test_a_buffer_that_fills_takes_back_what_it_cost() -> None:
    waits = [1.0, 1.0] + [0.0] * 98
    drained = [0.0, -1.0, -1.0] + [0.0] * 97
    assert estimate_stall(waits, [1.0] * 100, drained_batches=drained).value == pytest.approx(0.0)


def test_an_unknown_buffer_widens_the_interval_by_what_it_may_hide() -> None:
    told = estimate_stall([0.0] * 100, [1.0] * 100, drained_batches=[0.0] * 100)
    untold = estimate_stall([0.0] * 100, [1.0] * 100, buffer_batches=16)
    assert told.high <= 0.01
    assert untold.high >= 0.16


def test_an_unknown_buffer_hides_nothing_when_every_step_waits() -> None:
    waits = np.random.default_rng(0).normal(1.0, 0.1, 200)
    small = estimate_stall(waits, [1.0] * 200, buffer_batches=1)
    large = estimate_stall(waits, [1.0] * 200, buffer_batches=64)
    assert small == large


def test_the_same_numbers_give_the_same_interval_and_more_noise_a_wider_one() -> None:
    random = np.random.default_rng(0)
    calm, rough = random.gamma(100, 0.01, 200), random.gamma(4, 0.25, 200)
    nothing = [0.0] * 200
    first = estimate_stall(calm, [1.0] * 200, drained_batches=nothing)
    assert first == estimate_stall(calm, [1.0] * 200, drained_batches=nothing)
    assert estimate_stall(rough, [1.0] * 200, drained_batches=nothing).width > 2 * first.width


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(1e-6, 10), st.floats(-3, 3)), min_size=1, max_size=60),
    st.booleans(),
)
def test_value_and_interval_are_shares_in_order(rows: list[tuple[float, float, float]], told: bool) -> None:
    waits, steps, drained = (list(column) for column in zip(*rows, strict=True))
    stall = estimate_stall(waits, steps, drained_batches=drained if told else None, resamples=50)
    assert 0 <= stall.low <= stall.value <= stall.high <= 1


def test_95_percent_intervals_hold_the_truth_near_the_first_threshold() -> None:
    # Waits of a producer with random service time and no buffer, around 5 % of the time: skewed, mostly short.
    random = np.random.default_rng(0)
    truth_waits = np.maximum(random.gamma(4, 0.25, 400_000) - 1.6, 0.0)
    truth = stall_share(truth_waits, np.ones(400_000))
    assert 0.03 < truth < 0.08
    held = 0
    for _ in range(200):
        waits = np.maximum(random.gamma(4, 0.25, 200) - 1.6, 0.0)
        stall = estimate_stall(waits, np.ones(200), drained_batches=np.zeros(200), resamples=300)
        held += stall.low <= truth <= stall.high
    assert held >= 180


def test_an_interval_out_of_order_is_refused() -> None:
    with pytest.raises(RecordError, match="low <= value <= high"):
        Interval(value=1.0, low=2.0, high=3.0)


def test_a_stall_above_one_is_refused() -> None:
    with pytest.raises(RecordError, match="high"):
        Stall(value=0.5, low=0.5, high=1.5)


@pytest.mark.parametrize(("freedom", "expected"), [(4, 2.7764), (9, 2.2622), (39, 2.0227)])
def test_students_quantiles_are_those_of_the_tables(freedom: int, expected: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(expected, rel=1e-3)
