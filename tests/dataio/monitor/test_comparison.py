"""Comparing usual executions with those whose batches were ready, under a fake clock."""

from __future__ import annotations

import numpy as np
import pytest

from dataio.monitor.comparison import FEWEST_READY, FEWEST_USUAL, ReadyRecorder, compare
from tests.dataio.monitor.loops import FakeLoop


def run(loop: FakeLoop, executions: int, size: int, epochs: int = 1) -> ReadyRecorder:
    recorder = ReadyRecorder(
        loop.produced, batches_per_execution=size, clock=loop.clock, sleep=loop.sleep, synchronise=None
    )
    for epoch in range(epochs):
        recorder.start_epoch(same_iterator=epoch > 0)
        for _ in range(executions):
            recorder.begin()
            for _ in range(size):
                loop.get_next()
                loop.step()
        recorder.finish()
    return recorder


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(("work", "truth"), [(0.004, 0.8), (0.010, 0.5), (0.016, 0.2)])
def test_the_stall_of_a_starved_loop_is_found_without_seeing_a_wait(size: int, work: float, truth: float) -> None:
    loop = FakeLoop(produce=0.020, work=work, buffer=2 * size)
    recorder = run(loop, 200, size)
    stall = compare(recorder.usual_seconds, recorder.ready_seconds)
    assert stall is not None
    assert stall.value == pytest.approx(truth, abs=0.02)


def test_batches_that_were_ready_when_an_epoch_began_do_not_hide_its_stall() -> None:
    loop = FakeLoop(produce=0.020, work=0.002, buffer=6)
    recorder = ReadyRecorder(loop.produced, batches_per_execution=1, clock=loop.clock, sleep=loop.sleep)
    recorder.start_epoch(same_iterator=False)
    for number in range(30):
        recorder.begin()
        loop.get_next()
        loop.step()
        if number == 0:
            loop.sleep(1.0)  # as while functions are traced and compiled
    assert len(recorder.usual_seconds) >= 8
    assert recorder.usual_seconds == pytest.approx([0.020] * len(recorder.usual_seconds), abs=1e-6)


def test_the_execution_after_a_pause_is_not_taken_for_a_ready_one_where_the_next_is_ready_too() -> None:
    loop = FakeLoop(produce=0.020, work=0.010, buffer=4, cold=0.003)
    recorder = run(loop, 60, 1)
    assert len(recorder.ready_seconds) >= 4
    assert recorder.ready_seconds == pytest.approx([0.010] * len(recorder.ready_seconds), abs=1e-6)


def test_a_fed_loop_is_hardly_held() -> None:
    loop = FakeLoop(produce=0.005, work=0.010, buffer=4)
    recorder = run(loop, 500, 1)
    assert loop.now <= 1.01 * 500 * 0.010 + 0.1
    stall = compare(recorder.usual_seconds, recorder.ready_seconds)
    assert stall is not None
    assert stall.value < 0.01


def test_a_starved_loop_loses_nothing_by_being_held() -> None:
    loop = FakeLoop(produce=0.020, work=0.005, buffer=4)
    run(loop, 500, 1)
    assert loop.now <= 1.02 * 500 * 0.020


def test_epochs_over_one_iterator_keep_count_of_what_is_ready() -> None:
    loop = FakeLoop(produce=0.020, work=0.010, buffer=4)
    recorder = run(loop, 40, 2, epochs=4)
    assert len(recorder.ready_seconds) >= 8
    assert len(recorder.first_seconds) == 4
    assert np.median(recorder.ready_seconds) == pytest.approx(0.020, abs=0.001)


def test_buffers_that_cannot_hold_an_execution_give_no_ready_one() -> None:
    loop = FakeLoop(produce=0.020, work=0.010, buffer=2)
    assert run(loop, 60, 4).ready_seconds == []


def test_too_few_executions_give_no_stall() -> None:
    assert compare([0.1] * FEWEST_USUAL, [0.05] * (FEWEST_READY - 1)) is None
    assert compare([0.1] * (FEWEST_USUAL - 1), [0.05] * FEWEST_READY) is None
    assert compare([0.1] * FEWEST_USUAL, [0.05] * FEWEST_READY) is not None


def test_an_execution_that_takes_longer_when_ready_is_no_stall_below_zero() -> None:
    stall = compare([0.1] * 20, [0.11] * 5)
    assert stall is not None
    assert (stall.value, stall.low, stall.high) == (0, 0, 0)


def test_the_interval_tells_how_much_executions_vary() -> None:
    random = np.random.default_rng(1)
    steady = compare([0.1] * 40, [0.05] * 8)
    noisy = compare(random.normal(0.1, 0.03, 40).tolist(), random.normal(0.05, 0.01, 8).tolist())
    assert steady is not None
    assert noisy is not None
    assert noisy.width > steady.width + 0.02
