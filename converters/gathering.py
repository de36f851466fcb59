"""Units of a format that keeps a split in one file: taken in one after the other, in order, as workers deliver them.

While one is copied, the disk takes those before it: a unit's own file stays until the store's bytes and then the
journal's line are on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from dataio.converters.checksums import file_crc32c
from dataio.converters.format import FinishedStore, Store, WritableFormat
from dataio.converters.journal import Earlier, Journal, UnitResult
from dataio.converters.ledger import Ledger
from dataio.converters.planning import Planned
from dataio.converters.worklist import Unit
from dataio.converters.writing import UnitFiles
from dataio.errors import DataDamaged, DestinationError

#: Units that may lie in the work folder and wait their turn: enough that no worker waits, few enough to stay in the
#: page cache and to bound the extra space.
AHEAD_UNITS = 8


class Gathering:
    """The stores of all splits, filled in the order of the units."""

    def __init__(self, format_: WritableFormat, work: Path, planned: Planned, journal: Journal) -> None:
        self._format = format_
        self._work = work
        self._units = planned.units
        self._journal = journal
        self._stores: dict[str, Store] = {}
        self._delivered: dict[tuple[str, int], UnitResult] = {}
        self._taken = 0

    def resume(self, earlier: Earlier) -> dict[tuple[str, int], UnitResult]:
        """Finds out how far an earlier run came; returns the units that are in the stores already."""
        done: dict[tuple[str, int], UnitResult] = {}
        for unit in self._units:
            result = earlier.written.get(unit_key(unit))
            if result is None or unit_key(unit) not in earlier.gathered or not self._has_ledger(result):
                break
            try:
                if result.records:
                    files = UnitFiles.of(self._work, unit.split, unit.number)
                    self._store(unit.split).adopt(Ledger.load(files.ledger), result.file_bytes)
            except DataDamaged:
                break  # what comes after is written over
            done[unit_key(unit)] = result
            self._taken += 1
        return done

    def _has_ledger(self, result: UnitResult) -> bool:
        files = UnitFiles.of(self._work, result.split, result.number)
        try:
            return files.outcomes.exists() and file_crc32c(files.ledger) == (result.ledger_crc, result.ledger_bytes)
        except OSError:
            return False

    def folder(self, split: str) -> Path:
        """Where the store of a split lies while it is written."""
        return self._work / f"{split}.store"

    def may_start(self, number: int) -> bool:
        """Whether the `number`-th of all units may be written already."""
        return number < self._taken + AHEAD_UNITS

    def deliver(self, result: UnitResult) -> None:
        """Takes in a unit, and those that waited for it."""
        self._delivered[result.key] = result
        while self._taken < len(self._units):
            unit = self._units[self._taken]
            ready = self._delivered.pop(unit_key(unit), None)
            if ready is None:
                return
            with self._disk_trouble(unit.split):
                self._take(unit, ready)
            self._taken += 1

    def _take(self, unit: Unit, result: UnitResult) -> None:
        files = UnitFiles.of(self._work, unit.split, unit.number)
        sync: Callable[[], None] = _nothing
        if result.records:
            store = self._store(unit.split)
            store.append(files.content, Ledger.load(files.ledger))
            sync = store.sync
        self._journal.append_after(sync, partial(files.content.unlink, missing_ok=True), gathered=list(unit_key(unit)))

    @contextmanager
    def _disk_trouble(self, split: str) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise DestinationError(
                f"writing in {self.folder(split)}: {problem.strerror or problem}; what is finished is "
                "kept: make room and run the same command again"
            ) from problem

    def finish(self, split: str) -> FinishedStore:
        """Reads the store of a split back; then the disk has all of it."""
        with self._disk_trouble(split):
            store = self._store(split)
            finished = store.finish()  # while the disk still takes the last units
            self._journal.settle()
            del self._stores[split]
            store.close()
        return finished

    def close(self) -> None:
        """Gives up the stores that are not finished; the journal must be closed, whose thread syncs them."""
        while self._stores:
            self._stores.popitem()[1].abandon()

    def _store(self, split: str) -> Store:
        if split not in self._stores:
            store = self._format.store(self.folder(split))
            assert store is not None
            self._stores[split] = store
        return self._stores[split]


def _nothing() -> None:
    """What is waited for where a unit added nothing."""


def unit_key(unit: Unit) -> tuple[str, int]:
    """What a unit is called in results and journals."""
    return unit.split, unit.number
