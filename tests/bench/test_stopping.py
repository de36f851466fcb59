"""When a window ends."""

from __future__ import annotations

from dataio.bench.stopping import FEWEST_STEPS, StoppingRule
from dataio.stall import Stall

NARROW = Stall(value=0.5, low=0.49, high=0.51)
WIDE = Stall(value=0.5, low=0.4, high=0.6)
ACROSS = Stall(value=0.05, low=0.033, high=0.067)


def test_a_window_ends_after_two_good_looks_in_a_row() -> None:
    rule = StoppingRule()
    assert not rule.is_enough(NARROW, 100)
    assert not rule.is_enough(WIDE, 100)
    assert not rule.is_enough(NARROW, 100)
    assert rule.is_enough(NARROW, 100)


def test_a_stall_that_cannot_be_named_does_not_end_a_window_however_often_it_is_looked_at() -> None:
    rule = StoppingRule()
    assert not any(rule.is_enough(ACROSS, 1000) for _ in range(10))


def test_few_counted_steps_do_not_end_a_window() -> None:
    rule = StoppingRule()
    assert not any(rule.is_enough(NARROW, FEWEST_STEPS - 1) for _ in range(5))


def test_looks_come_at_growing_distance() -> None:
    rule = StoppingRule()
    looks = []
    for steps in range(1000):
        if rule.is_due(steps):
            looks.append(steps)
            rule.is_enough(WIDE, steps)
    assert looks == [60, 90, 135, 203, 305, 458, 687]
