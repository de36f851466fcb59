"""The journal of an unfinished conversion: what is done, one line of JSON each, appended and synced to the disk.

A line that a crash cut off is not there. What the lines say is the state; nothing else is written down twice.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

#: Lines that may wait for the disk: enough that a slow disk stops nobody for a moment, few enough to bound what a crash
#: of the machine makes to be done again.
_MOST_WAITING = 8


@dataclass(frozen=True, slots=True)
class UnitResult:
    """What a worker wrote of one unit."""

    split: str
    """Name of the split."""
    number: int
    """Which unit of it."""
    records: int
    """Pictures stored; 0 where every file was rejected, and then there is no unit file."""
    rejected: int
    """Files not stored."""
    transcoded: int
    """Records whose file's content could not be stored as it was."""
    file_bytes: int
    """Size of the unit file."""
    file_crc: int
    """CRC-32C of the unit file; 0 where it goes into a store, which is summed as a whole."""
    ledger_bytes: int
    """Size of its ledger."""
    ledger_crc: int
    """CRC-32C of its ledger."""
    classes: Mapping[str, tuple[int, int, int, int]] = field(default_factory=dict)
    """Label (as text, since JSON keys are) to (records, bytes of pictures, rejected, transcoded)."""

    @property
    def key(self) -> tuple[str, int]:
        """Which unit this is."""
        return self.split, self.number

    @property
    def seen(self) -> int:
        """Candidate files of the unit."""
        return self.records + self.rejected

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**{**values, "classes": {label: tuple(counts) for label, counts in values["classes"].items()}})


@dataclass(frozen=True, slots=True)
class Earlier:
    """What an earlier run left."""

    written: Mapping[tuple[str, int], UnitResult]
    """Every unit that it wrote."""
    trusted: frozenset[tuple[str, int]]
    """Those whose files outlived even a crash of the machine: synced, or written since it was started."""
    gathered: frozenset[tuple[str, int]]
    """Those that went into their store, and the disk has that."""


class Journal:
    """The journal of one work folder, open for appending."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the journal and drops a last line that was cut off."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._descriptor, whole)
        self._lines = content[:whole].splitlines()
        self._waiting: deque[Future[None]] = deque()
        self._thread: ThreadPoolExecutor | None = None
        self._is_broken = False

    def lines(self) -> Iterator[dict[str, Any]]:
        """What was there when the journal was opened; a line that cannot be read ends it."""
        for line in self._lines:
            try:
                values = json.loads(line)
            except ValueError:
                # Blocks of an unsynced file can come back as zeros after a power cut; what follows is not trusted.
                return
            yield values

    def note(self, **values: Any) -> None:
        """Adds a line that a killed process leaves, but a crash of the machine only once a later one was appended."""
        os.write(self._descriptor, json.dumps(values).encode() + b"\n")

    def append(self, **values: Any) -> None:
        """Adds a line and waits until the disk has it, and those before it."""
        self.note(**values)
        os.fsync(self._descriptor)

    def append_after(self, sync: Callable[[], object], then: Callable[[], object], **values: Any) -> None:
        """Adds a line as soon as `sync` returned, and calls `then` once the disk has the line; does not wait for it.

        All of it happens in one thread, in the order of the calls. After an error nothing of what waits is done.

        Args:
            sync: waits until the disk has what the line says.
            then: removes what the line makes superfluous.
            values: of the line.

        Raises:
            OSError: one of the lines before it failed.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1)
        self._waiting.append(self._thread.submit(self._append_after, sync, then, values))
        while self._waiting and (self._waiting[0].done() or len(self._waiting) > _MOST_WAITING):
            self._waiting.popleft().result()

    def settle(self) -> None:
        """Waits until nothing waits any more.

        Raises:
            OSError: one of the lines failed.
        """
        while self._waiting:
            self._waiting.popleft().result()

    def _append_after(self, sync: Callable[[], object], then: Callable[[], object], values: Mapping[str, Any]) -> None:
        if self._is_broken:
            return
        try:
            sync()
            self.append(**values)
            then()
        except BaseException:
            self._is_broken = True
            raise

    def close(self) -> None:
        """Lets what waits come to its end and closes the file."""
        if self._thread is not None:
            self._thread.shutdown()
        os.close(self._descriptor)


def boot_id() -> str:
    """Tells this start of the machine from others: what was written since it and not synced is in the page cache.

    Source: Linux, Documentation/admin-guide/sysctl/kernel.rst, "random". Elsewhere every run counts as another start,
    and unsynced files are read back instead of trusted.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"unknown-{os.getpid()}"
