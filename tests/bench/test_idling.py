"""Waiting until the process stands still."""

from __future__ import annotations

import pytest

from dataio.bench.idling import IDLE_SHARE, POLL_SECONDS, wait_until_idle


class Process:
    """A process that uses `cores` until `busy_seconds` have passed, and then a little."""

    def __init__(self, busy_seconds: float, *, cores: float = 2.0, idle_share: float = 0.01) -> None:
        self.now = self.used = 0.0
        self._busy_seconds, self._cores, self._idle_share = busy_seconds, cores, idle_share

    def sleep(self, seconds: float) -> None:
        busy = min(seconds, max(0.0, self._busy_seconds - self.now))
        self.used += busy * self._cores + (seconds - busy) * self._idle_share
        self.now += seconds

    def wait(self, limit_seconds: float = 1.0) -> bool:
        return wait_until_idle(
            limit_seconds=limit_seconds,
            process_time=lambda: self.used,
            clock=lambda: self.now,
            sleep=self.sleep,
        )


def test_it_returns_soon_after_the_work_ended() -> None:
    process = Process(0.3)
    assert process.wait()
    assert 0.3 <= process.now <= 0.3 + 2 * POLL_SECONDS


def test_an_idle_process_is_waited_for_once() -> None:
    process = Process(0.0)
    assert process.wait()
    assert process.now == pytest.approx(POLL_SECONDS)


def test_it_gives_up_at_the_limit_and_says_so() -> None:
    process = Process(60.0)
    assert not process.wait(limit_seconds=0.5)
    assert process.now == pytest.approx(0.5, abs=2 * POLL_SECONDS)


def test_a_little_work_does_not_count() -> None:
    assert Process(0.0, idle_share=IDLE_SHARE / 2).wait()
    assert not Process(0.0, idle_share=IDLE_SHARE * 2).wait()
