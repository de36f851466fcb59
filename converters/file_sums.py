"""Sums of whole files, several threads reading and summing at once.

Stripes of one file and the beginning of the next are in work together, so that no thread waits where a file ends, and
all threads together still go through the files from front to back.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dataio.converters.checksums import READ_BYTES, join_crc32c, open_regular, part_crc32c

#: Bytes that a thread takes of a file at a time: large enough to hide handing it out and joining the sums (0.1 ms).
_STRIPE_BYTES = 16 << 20

#: Files that are open before it is their turn: ledgers are small, so a thread may be done with several of them while
#: another sums the end of a shard.
_FILES_AHEAD = 4


@dataclass(frozen=True, slots=True)
class _Begun:
    """A file that threads are at."""

    descriptor: int
    stripes: list[Future[tuple[int, int]]]


def sum_files(
    paths: Iterable[Path], *, threads: int, report: Callable[[int], None] = lambda count: None
) -> Iterator[tuple[int, int] | OSError]:
    """(CRC-32C, bytes) of each file, or why it cannot be read, in the order of `paths`; each is read once.

    Args:
        paths: the files. A folder, a pipe or a device is none.
        threads: how many read and sum at once. More than 1 pays where bytes come faster than one core takes them
            (about 9 GB/s): from the page cache, from fast arrays.
        report: told how many more bytes were read.
    """
    # New memory costs as much as reading into it, so there is one buffer a thread.
    buffers = deque(np.empty(READ_BYTES, np.uint8) for _ in range(threads))

    def summed(descriptor: int, start: int, end: int) -> tuple[int, int]:
        buffer = buffers.pop()
        try:
            return part_crc32c(descriptor, start, end, buffer)
        finally:
            buffers.append(buffer)

    def begin(path: Path) -> _Begun | OSError:
        try:
            descriptor = open_regular(path)
        except OSError as problem:
            return problem
        size = os.fstat(descriptor).st_size
        starts = range(0, size, _STRIPE_BYTES)
        stripes = [pool.submit(summed, descriptor, start, min(start + _STRIPE_BYTES, size)) for start in starts]
        return _Begun(descriptor, stripes)

    pool = ThreadPoolExecutor(threads)
    begun: deque[_Begun | OSError] = deque()
    try:
        for path in paths:
            begun.append(begin(path))
            if len(begun) > _FILES_AHEAD:
                yield _sum(begun[0], report)
                _close(begun.popleft())
        while begun:
            yield _sum(begun[0], report)
            _close(begun.popleft())
    finally:
        pool.shutdown(cancel_futures=True)
        for file in begun:
            _close(file)


def _sum(file: _Begun | OSError, report: Callable[[int], None]) -> tuple[int, int] | OSError:
    if isinstance(file, OSError):
        return file
    crc = size = 0
    for stripe in file.stripes:
        try:
            part, count = stripe.result()
        except OSError as problem:
            return problem
        crc = join_crc32c(crc, part, count)
        size += count
        report(count)
    return crc, size


def _close(file: _Begun | OSError) -> None:
    if not isinstance(file, OSError):
        # None of its stripes is in work: a descriptor that is closed too early could be another file's by then.
        for stripe in file.stripes:
            if not stripe.cancel():
                stripe.exception()
        os.close(file.descriptor)
