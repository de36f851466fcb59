"""How fast a cache on disk can be read back: by the disk under it, and by tf.data."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dataio.bench.storage import forget_pages, storage_kind

_MIB = 1 << 20

#: Bytes written and read back to learn the disk's rate.
PROBE_BYTES = 128 * _MIB

#: Bytes per second at which tf.data's file cache feeds a pipeline where the disk does not limit it: one thread reads,
#: checks and copies. Source: own measurement, 2 cores, file in the page cache: 0.52 GB/s with pictures of 950 kB, 0.58
#: with 265 kB; 1.2 to 2.3 GB/s where nothing else runs. See docs/tuning.md, "Cache on disk".
FILE_BYTES_PER_SECOND = 0.58e9

#: Bytes of pixels that one core decodes in a second; what is read more slowly is better decoded anew.
#: Source: own measurement: 1,080 us for 562 kB of pixels, decoding fused with cropping.
DECODED_BYTES_PER_SECOND = 0.52e9


def lies_in_memory(folder: Path) -> bool:
    """Whether a folder, or the nearest that exists above it, is on a filesystem in memory: no room is won there."""
    return storage_kind(folder) == "memory"


def cache_bytes_per_second(
    parent: Path, *, probe_bytes: int = PROBE_BYTES, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Bytes per second of a cache in `parent` that is too large for the page cache: a file written, forgotten, read.

    0.0 where nothing can be written or forgotten. Takes about a second on a disk of 200 MB/s.

    Args:
        parent: the folder that caches are made in.
        probe_bytes: size of the file, at least 1 MiB.
        clock: seconds, monotonic.
    """
    chunk = os.urandom(_MIB)
    try:
        with tempfile.NamedTemporaryFile(dir=parent, prefix="dataio-probe-") as file:
            for _ in range(probe_bytes // _MIB):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            if not forget_pages(Path(file.name)):
                return 0.0
            start, total = clock(), 0
            with open(file.name, "rb", buffering=0) as reader:
                while read := len(reader.read(_MIB)):
                    total += read
            return min(FILE_BYTES_PER_SECOND, total / max(clock() - start, 1e-9))
    except OSError:
        return 0.0  # full or read-only: no place for a cache
