"""Steps on ready batches in a loop that waits, under a fake clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dataio.monitor.holding import Holding
from dataio.monitor.readings import Reading
from dataio.monitor.recorders import GapRecorder, StepTimes
from dataio.monitor.summary import slower_after_waits, stall_of, summarise_times
from tests.dataio.monitor.loops import FakeLoop


def test_where_the_buffer_holds_more_the_last_of_several_ready_steps_is_timed() -> None:
    loop = FakeLoop(produce=0.020, work=0.002, buffer=8)
    _, holding = run(loop, 200)
    assert len(holding.timed) >= 4
    assert [timed - first for timed, (first, _) in zip(holding.timed, holding.disturbed, strict=True)] == [4] * len(
        holding.timed
    )


def run(loop: FakeLoop, steps: int) -> tuple[StepTimes, Holding]:
    holding = Holding(loop.read, clock=loop.clock, sleep=loop.sleep)
    recorder = GapRecorder(loop.read, clock=loop.clock, holding=holding)
    for _ in range(steps):
        recorder.begin()
        loop.get_next()
        loop.step()
    return recorder.times(), holding


@pytest.mark.parametrize(("work", "truth"), [(0.002, 0.9), (0.010, 0.5), (0.015, 0.25)])
def test_what_a_step_takes_longer_because_it_waited_is_stall(work: float, truth: float) -> None:
    times, _ = run(FakeLoop(produce=0.020, work=work, cold=0.001), 200)
    stall = stall_of([times])
    assert stall is not None
    assert stall.value == pytest.approx(truth, abs=0.005)
    assert stall.high >= truth + 0.05 * 0.99  # as far again as the millisecond of twenty that was found
    summary = summarise_times(0, times, 8)
    assert summary.step_ms == pytest.approx(work * 1e3, abs=0.01)
    assert summary.wait_ms == pytest.approx((0.020 - work) * 1e3, abs=0.1)


def test_a_starved_loop_loses_nothing_by_being_held() -> None:
    loop = FakeLoop(produce=0.020, work=0.005)
    _, holding = run(loop, 200)
    assert len(holding.timed) >= 5
    assert loop.now <= 201 * 0.020


def test_the_steps_around_a_pause_are_not_counted() -> None:
    times, holding = run(FakeLoop(produce=0.020, work=0.005), 200)
    assert len(holding.disturbed) >= 5
    assert times.wait_seconds[3:] == pytest.approx(np.full(len(times.wait_seconds) - 3, 0.015), abs=2e-6)


def test_a_fed_loop_is_never_held() -> None:
    _, holding = run(FakeLoop(produce=0.005, work=0.020), 200)
    assert holding.disturbed == []


def test_a_pipeline_that_holds_one_batch_is_left_alone() -> None:
    times, holding = run(FakeLoop(produce=0.020, work=0.005, buffer=1), 200)
    assert holding.disturbed == []
    assert len(times.ready_seconds) == 0


def test_pauses_that_find_nothing_ready_end() -> None:
    loop = FakeLoop(produce=0.020, work=0.005)

    def never_ready() -> Reading:
        return replace(loop.read(), ready=0)

    holding = Holding(never_ready, clock=loop.clock, sleep=loop.sleep)
    recorder = GapRecorder(loop.read, clock=loop.clock, holding=holding)
    for _ in range(300):
        recorder.begin()
        loop.get_next()
        loop.step()
    assert len(holding.disturbed) == 3
    assert holding.timed == []


def times_of(step_seconds: list[float], ready_seconds: list[float]) -> StepTimes:
    steps = np.array(step_seconds)
    return StepTimes(np.full(len(steps), 0.01), steps, len(steps), None, None, None, False, np.array(ready_seconds))


def test_a_difference_within_chance_changes_nothing() -> None:
    random = np.random.default_rng(0)
    steps = random.normal(0.010, 0.002, 60).tolist()
    assert slower_after_waits([times_of(steps, random.normal(0.010, 0.002, 5).tolist())]) == (0.0, 0.0)
    assert slower_after_waits([times_of(steps, [0.005, 0.005])]) == (0.0, 0.0)
    assert slower_after_waits([times_of(steps, [0.0051, 0.0049, 0.005, 0.0052])])[0] == pytest.approx(0.005, abs=0.001)
