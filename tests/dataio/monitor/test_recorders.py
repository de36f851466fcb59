"""Recorders of waits, under a fake clock."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dataio.monitor.gaps import LONGEST_GAP_SECONDS
from dataio.monitor.recorders import CallRecorder, GapRecorder, StepRecorder, StepTimes
from tests.dataio.monitor.loops import FakeLoop


def run(loop: FakeLoop, recorder: StepRecorder, steps: int, step: Callable[[], None] | None = None) -> StepTimes:
    for _ in range(steps):
        recorder.begin()
        loop.get_next()
        recorder.end()
        (step or loop.step)()
    return recorder.times()


@pytest.mark.parametrize("steps", [5, 99, 100, 101, 260])
def test_waits_from_gaps_are_those_of_a_starved_loop(steps: int) -> None:
    loop = FakeLoop(produce=0.020, work=0.005)
    times = run(loop, GapRecorder(loop.read, clock=loop.clock), steps)
    assert times.steps == steps
    assert len(times.wait_seconds) == steps - 2  # the first fills the buffers, the last has no successor
    assert times.step_seconds == pytest.approx(np.full(steps - 2, 0.005), abs=2e-6)
    assert times.wait_seconds[-1] == pytest.approx(0.015, abs=2e-6)
    assert not times.all_ready


def test_a_fed_loop_is_known_by_its_buffer_not_by_the_length_of_its_waits() -> None:
    loop = FakeLoop(produce=0.001, work=0.010)
    times = run(loop, GapRecorder(loop.read, clock=loop.clock), 60)
    assert times.all_ready
    assert times.wait_seconds == pytest.approx(np.zeros(58), abs=2e-6)


def test_batches_taken_from_a_full_buffer_are_told() -> None:
    loop = FakeLoop(produce=0.020, work=0.015, buffer=8)
    loop.sleep(1.0)  # the buffer is full when the loop begins
    times = run(loop, GapRecorder(loop.read, clock=loop.clock), 60)
    assert times.drained_batches is not None
    assert float(np.sum(times.drained_batches)) == pytest.approx(7, abs=1)


def test_the_end_of_the_data_does_not_look_like_a_drained_buffer() -> None:
    loop = FakeLoop(produce=0.001, work=0.010, buffer=8, length=60)
    times = run(loop, GapRecorder(loop.read, clock=loop.clock), 60)
    assert times.drained_batches is not None
    assert float(np.sum(times.drained_batches)) == pytest.approx(0, abs=1)


def test_a_step_so_long_that_tensorflow_forgets_it_is_left_out() -> None:
    loop = FakeLoop(produce=0.020, work=0.005)
    lengths = iter([0.005] * 10 + [LONGEST_GAP_SECONDS + 2] + [0.005] * 200)
    times = run(loop, GapRecorder(loop.read, clock=loop.clock), 120, lambda: loop.sleep(next(lengths)))
    assert len(times.wait_seconds) == 120 - 3
    assert np.max(times.wait_seconds) <= 0.020


def test_an_iterator_that_is_gone_leaves_what_was_read_before() -> None:
    loop = FakeLoop(produce=0.020, work=0.005)
    alive = True
    recorder = GapRecorder(lambda: loop.read() if alive else None, clock=loop.clock)
    run(loop, recorder, 40)
    alive = False
    assert len(run(loop, recorder, 10).wait_seconds) == 38


def test_with_a_device_to_wait_for_only_the_steps_between_two_waits_count() -> None:
    loop = FakeLoop(produce=0.020, work=0.005)
    barriers = 0

    def synchronise() -> None:
        nonlocal barriers
        barriers += 1

    times = run(loop, GapRecorder(loop.read, clock=loop.clock, synchronise=synchronise), 300)
    assert barriers == pytest.approx(300 * 0.21, abs=5)  # a fifth: the rest of the steps runs undisturbed
    assert len(times.wait_seconds) == pytest.approx(60, abs=3)
    assert np.sum(times.wait_seconds) / np.sum(times.wait_seconds + times.step_seconds) == pytest.approx(0.75, abs=0.01)


def test_waits_that_a_thread_sees_are_those_of_its_calls() -> None:
    loop = FakeLoop(produce=0.020, work=0.005)
    times = run(loop, CallRecorder(clock=loop.clock), 50)
    assert times.steps == 50
    assert times.wait_seconds[5:] == pytest.approx(np.full(43, 0.015), abs=1e-6)
    assert times.drained_batches is None
    assert not times.all_ready


def test_waits_of_a_millisecond_at_most_may_be_ready_batches_where_the_buffer_is_not_seen() -> None:
    loop = FakeLoop(produce=0.0005, work=0.010)
    assert run(loop, CallRecorder(clock=loop.clock), 50).all_ready


def test_nothing_is_claimed_about_a_loop_of_one_step() -> None:
    loop = FakeLoop(produce=0.020, work=0.005)
    times = run(loop, GapRecorder(loop.read, clock=loop.clock), 1)
    assert len(times.wait_seconds) == 0
    assert times.period_seconds is None
    assert times.first_step_seconds is None
