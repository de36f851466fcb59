"""Gaps out of TensorFlow's window of 100, and waits out of gaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataio.monitor.gaps import GAP_WINDOW, GapLog, split_periods


def test_readings_that_overlap_are_joined_without_repeats() -> None:
    gaps = [1000 + 7 * number for number in range(230)]
    log = GapLog()
    known = 0
    for end in (40, 90, 140, 180, 230):
        log.add(gaps[max(0, end - GAP_WINDOW) : end], expected=end - known)
        known = end
    assert log.seconds() == pytest.approx(np.array(gaps) * 1e-6)


def test_gaps_before_the_log_began_are_not_in_it() -> None:
    log = GapLog([5, 6, 7])
    log.add([5, 6, 7, 8, 9], expected=2)
    assert log.seconds() == pytest.approx([8e-6, 9e-6])


def test_a_gap_that_tensorflow_dropped_is_unknown_at_its_place() -> None:
    log = GapLog([1])
    log.add([1, 20, 30], expected=3, unknown=[1])
    assert log.seconds()[[0, 2]] == pytest.approx([20e-6, 30e-6])
    assert np.isnan(log.seconds()[1])


def test_gaps_that_cannot_be_placed_are_unknown() -> None:
    log = GapLog([1, 2, 3])
    log.add([9, 9, 9, 9], expected=2)  # not a continuation: somebody else used the iterator
    assert np.isnan(log.seconds()).tolist() == [True, True]


def test_equal_gaps_are_counted_as_expected() -> None:
    log = GapLog([10] * 100)
    log.add([10] * 100, expected=30)
    assert len(log) == 30


@given(
    waits=st.lists(st.floats(0, 0.5), min_size=2, max_size=40),
    steps=st.lists(st.floats(1e-4, 0.5), min_size=40, max_size=40),
)
def test_waits_are_what_periods_hold_beyond_the_gaps(waits: list[float], steps: list[float]) -> None:
    gaps = np.array(steps[: len(waits)])
    begins = np.concatenate([[0.0], np.cumsum(np.array(waits) + gaps)])
    found, worked = split_periods(begins, gaps)
    assert found == pytest.approx(waits, abs=1e-9)
    assert worked == pytest.approx(gaps)


def test_time_spent_tracing_before_get_next_is_not_a_wait() -> None:
    # Step 1 is called at 1.0 s, but tracing holds its GetNext back until 4.0 s: the gap of step 0 shows it.
    begins = np.array([0.0, 1.0, 5.0, 6.0])
    gaps = np.array([3.9, 0.9, 0.9])
    waits, _ = split_periods(begins, gaps)
    assert waits == pytest.approx([0.0, 0.2, 0.1])  # by the clock alone step 1 would have waited 3.1 s


def test_a_step_without_its_gap_is_unknown_and_the_next_one_is_right() -> None:
    waits, steps = split_periods(np.array([0.0, 2.0, 20.0, 22.0]), np.array([1.5, np.nan, 1.0]))
    assert waits[[0, 2]] == pytest.approx([0.5, 1.0])
    assert np.isnan(waits[1])
    assert np.isnan(steps[1])
