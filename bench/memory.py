"""Peak anonymous memory while something runs, sampled from a thread."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from dataio.machine import anonymous_memory_bytes

#: Seconds between two readings. One costs 0.03 ms (own measurement), so this is 0.15 % of a core.
SAMPLE_SECONDS = 0.02


class PeakMemory:
    """The highest RssAnon of this process while the `with` block runs.

    Peaks shorter than `sample_seconds` can be missed.
    """

    def __init__(
        self, *, sample_seconds: float = SAMPLE_SECONDS, read: Callable[[], int] = anonymous_memory_bytes
    ) -> None:
        """
        Args:
            sample_seconds: time between two readings.
            read: gives the memory in bytes.
        """
        self._sample_seconds, self._read = sample_seconds, read
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dataio-memory", daemon=True)
        self._peak_bytes = 0

    def __enter__(self) -> Self:
        self._peak_bytes = self._read()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._peak_bytes = max(self._peak_bytes, self._read())

    @property
    def peak_bytes(self) -> int:
        """The highest reading so far, bytes."""
        return self._peak_bytes

    def _watch(self) -> None:
        while not self._stop.wait(self._sample_seconds):
            self._peak_bytes = max(self._peak_bytes, self._read())


def release_freed_memory() -> None:
    """Gives freed memory back to the system, so that the next pipeline's growth is its own and not reuse."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl does not
        if trim is not None:
            trim(0)
