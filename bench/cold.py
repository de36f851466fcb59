"""What a pipeline supplies while its files come from storage and not from the page cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dataio.bench.iterating import Clock, LivePipeline
from dataio.bench.storage import forget_pages

if TYPE_CHECKING:
    import tensorflow as tf

#: Batches at the start that are not counted: they fill the buffers.
_SETTLE_BATCHES = 2


def measure_cold(
    path: Path,
    build: Callable[[], tf.data.Dataset],
    *,
    clock: Clock,
    seconds: float = 2.0,
    forget: Callable[[Path], bool] = forget_pages,
) -> float | None:
    """Images per second of the first epoch after the dataset's files were dropped from the page cache.

    This is one window without an interval: dropping the pages again for more rounds would cost other programs more than
    the figure is worth. A cache below this system (hypervisor, storage server) may still have answered.

    Args:
        path: the dataset's files.
        build: makes the dataset.
        clock: seconds, monotonic.
        seconds: reading ends after this long, or with the epoch.
        forget: drops the pages; tells whether it could.

    Returns:
        None where pages cannot be dropped, or the epoch is too short to say anything.
    """
    if not forget(path):
        return None
    with LivePipeline(build, name=str(path), clock=clock) as live:
        got = live.advance()
        begun = got.came
        images = 0
        for _ in range(_SETTLE_BATCHES - 1):
            got = live.advance()
            begun = got.came
        end = begun
        while end < begun + seconds:
            got = live.advance()
            if got.epoch > 0:
                break
            images, end = images + got.images, got.came
    return images / (end - begun) if images and end > begun else None
