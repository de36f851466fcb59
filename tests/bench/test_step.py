"""Simulated accelerators."""

from __future__ import annotations

import pytest

from dataio.bench.step import ACCELERATORS, SimulatedAccelerator, simulated_step
from dataio.errors import StepError


class LateSleeper:
    """A clock whose sleep returns late by a fixed amount."""

    def __init__(self, late: float) -> None:
        self.now, self.late = 0.0, late

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + self.late


def test_a_step_takes_its_time_on_average_although_sleep_is_late() -> None:
    time = LateSleeper(late=0.0001)
    step = SimulatedAccelerator(0.010, clock=time.clock, sleep=time.sleep)
    for _ in range(60):
        step(None)
    before = time.now
    for _ in range(100):
        step(None)
    assert (time.now - before) / 100 == pytest.approx(0.010, rel=1e-3)


def test_a_long_delay_of_the_machine_is_not_made_up_for() -> None:
    time = LateSleeper(late=0.2)
    step = SimulatedAccelerator(0.010, clock=time.clock, sleep=time.sleep)
    for _ in range(50):
        step(None)
    before = time.now
    step(None)
    assert time.now - before > 0.2095


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_step_time_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(StepError, match="above 0 seconds"):
        SimulatedAccelerator(seconds)


def test_the_presets_of_mlperf_storage_have_its_rates() -> None:
    assert ACCELERATORS["a100-resnet50"].images_per_second == pytest.approx(919.5, abs=0.1)
    assert ACCELERATORS["h100-resnet50"].images_per_second == pytest.approx(1785.7, abs=0.1)


def test_a_preset_scales_with_the_batch() -> None:
    assert simulated_step("a100-resnet50", 64).step_seconds == pytest.approx(0.435 * 64 / 400)
    assert simulated_step("a100-resnet50", 64).name == "a100-resnet50"


def test_an_unknown_preset_lists_those_there_are() -> None:
    with pytest.raises(StepError, match=r"no accelerator named 'b500'.*a100-resnet50 \(920 images/s\), h100-resnet50"):
        simulated_step("b500", 64)


def test_every_preset_says_where_it_comes_from() -> None:
    assert all(len(preset.source) > 20 and preset.images_per_second > 0 for preset in ACCELERATORS.values())
