"""Waits until pipelines that nobody reads have filled their buffers and stand still."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds between two readings of the process's time.
POLL_SECONDS = 0.02
#: Below this share of one core the process counts as standing still. A pipeline at work takes one core or more; the
#: thread that samples memory takes 0.2 %.
IDLE_SHARE = 0.25


def wait_until_idle(
    *,
    limit_seconds: float = 1.0,
    process_time: Callable[[], float] = time.process_time,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Returns once this process uses hardly any processor time; whether that came before the limit.

    A pipeline goes on after its round until its prefetch buffer is full: 0.2 to 0.3 s of both cores on photographs
    (own measurement), which the next pipeline's round would otherwise pay for.

    Args:
        limit_seconds: longest wait.
        process_time: processor seconds that this process has used.
        clock: seconds, monotonic.
        sleep: waits for some seconds.
    """
    end = clock() + limit_seconds
    while clock() < end:
        before, began = process_time(), clock()
        sleep(POLL_SECONDS)
        if process_time() - before < IDLE_SHARE * (clock() - began):
            return True
    return False
