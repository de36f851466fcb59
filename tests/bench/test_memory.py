"""Peak memory."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dataio.bench.memory import PeakMemory, release_freed_memory
from dataio.machine import anonymous_memory_bytes


def test_the_peak_is_the_highest_reading() -> None:
    readings = iter([10, 50, 20])
    seen = threading.Event()

    def read() -> int:
        value = next(readings, None)
        if value is None:
            seen.set()
        return value if value is not None else 5

    with PeakMemory(read=read, sample_seconds=0.001) as peak:
        assert seen.wait(5)
    assert peak.peak_bytes == 50


def test_a_block_of_memory_is_seen_and_given_back() -> None:
    size = 64 << 20
    release_freed_memory()
    before = anonymous_memory_bytes()
    with PeakMemory() as peak:
        block = np.ones(size, np.uint8)
        del block
    release_freed_memory()
    assert peak.peak_bytes - before < 2 * size
    assert anonymous_memory_bytes() - before < size / 4


def test_sampling_ends_when_the_block_raises() -> None:
    with pytest.raises(ZeroDivisionError), PeakMemory():
        raise ZeroDivisionError
    assert "dataio-memory" not in {thread.name for thread in threading.enumerate()}
