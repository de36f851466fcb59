"""Ends of iterators, on threads of their own, by a clock that stands where the test puts it."""

from __future__ import annotations

import threading
import weakref

from dataio.bench.ending import Ends
from dataio.bench.iterating import LivePipeline
from tests.bench.virtual import Time, VirtualPipeline


class Reluctant:
    """Something whose end is held up until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def __del__(self) -> None:
        self.let_go.wait()


def test_an_end_that_still_runs_counts_with_its_time_so_far() -> None:
    now = [100.0]
    ends = Ends(lambda: now[0])
    held = [Reluctant()]
    let_go = held[0].let_go
    ends.begin(held)
    now[0] = 103.0
    assert ends.seconds == (3.0,)
    let_go.set()
    ends.wait()
    now[0] = 110.0
    assert ends.seconds == (3.0,)


def test_an_end_that_is_not_counted_is_waited_for_all_the_same() -> None:
    ends = Ends(lambda: 0.0)
    held = [Reluctant()]
    held[0].let_go.set()
    gone = weakref.ref(held[0])
    ends.begin(held, counted=False)
    ends.wait()
    assert gone() is None
    assert ends.seconds == ()


def test_a_pipeline_tells_how_long_each_epoch_and_its_end_took_and_does_not_wait() -> None:
    time = Time()
    with LivePipeline(
        lambda: VirtualPipeline(time, 0.1, batches=3, end_seconds=2.0),
        clock=time.clock,
    ) as live:
        got = [live.advance() for _ in range(7)]
        assert live.end_seconds == (2.0, 2.0)
        assert [round(seconds, 6) for seconds in live.epoch_seconds] == [0.3, 0.3]
    assert [round(one.came - 100, 6) for one in got] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert len(live.end_seconds) == 2, "the epoch that was broken off stands for no other"
