"""Units of a format that keeps a split in one file: taken in one after the other, in order, as workers deliver them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from dataio.converters.checksums import file_crc32c
from dataio.converters.format import FinishedStore, Store, WritableFormat
from dataio.converters.journal import UnitResult
from dataio.converters.ledger import Ledger
from dataio.converters.planning import Planned
from dataio.converters.worklist import Unit
from dataio.converters.writing import UnitFiles
from dataio.errors import DestinationError

#: Units that may lie in the work folder and wait their turn: enough that no worker waits, few enough to stay in the
#: page cache and to bound the extra space.
AHEAD_UNITS = 8


class Gathering:
    """The stores of all splits, filled in the order of the units."""

    def __init__(
        self, format_: WritableFormat, work: Path, units: Sequence[Unit], split_bytes: Mapping[str, int]
    ) -> None:
        self._format = format_
        self._work = work
        self._units = units
        self._split_bytes = split_bytes
        self._stores: dict[str, Store] = {}
        self._delivered: dict[tuple[str, int], UnitResult] = {}
        self._taken = 0

    @classmethod
    def of(cls, format_: WritableFormat, work: Path, planned: Planned) -> Self:
        """The stores of a planned conversion."""
        sizes = {
            split: planned.store_bytes * len(worklist) // planned.candidates
            for split, worklist in planned.worklists.items()
        }
        return cls(format_, work, planned.units, sizes)

    def resume(self, written: Mapping[tuple[str, int], UnitResult]) -> dict[tuple[str, int], UnitResult]:
        """Finds out how far an earlier run came; returns the units that are in the stores already."""
        done: dict[tuple[str, int], UnitResult] = {}
        for split in dict.fromkeys(unit.split for unit in self._units):
            if not (self.folder(split) / "data.mdb").exists():
                break
            mine = [unit for unit in self._units if unit.split == split]
            try:
                store = self._store(split)
                taken = _units_of(mine, written, store.records)
            except (OSError, ValueError, RuntimeError):
                taken = None  # torn by a power cut before it was synced
            if taken is None or not all(self._has_ledger(written[unit_key(unit)]) for unit in mine[:taken]):
                # The store does not end with a unit that the journal knows, or what belongs to it was lost in a crash.
                self._stores.pop(split, None)
                shutil.rmtree(self.folder(split))
                break
            done |= {unit_key(unit): written[unit_key(unit)] for unit in mine[:taken]}
            self._taken += taken
            if taken < len(mine):
                break
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
            files = UnitFiles.of(self._work, unit.split, unit.number)
            if ready.records:
                try:
                    self._store(unit.split).append(files.content, Ledger.load(files.ledger))
                except OSError as problem:
                    raise DestinationError(
                        f"writing in {self.folder(unit.split)}: {problem.strerror or problem}; what is finished is "
                        "kept: make room and run the same command again"
                    ) from problem
                files.content.unlink()
            self._taken += 1

    def finish(self, split: str) -> FinishedStore:
        """Closes the store of a split and reads it back."""
        return self._store(split).finish()

    def _store(self, split: str) -> Store:
        if split not in self._stores:
            store = self._format.store(self.folder(split), expected_bytes=self._split_bytes[split])
            assert store is not None
            self._stores[split] = store
        return self._stores[split]


def unit_key(unit: Unit) -> tuple[str, int]:
    """What a unit is called in results and journals."""
    return unit.split, unit.number


def _units_of(units: Sequence[Unit], written: Mapping[tuple[str, int], UnitResult], records: int) -> int | None:
    """How many of the first units make up `records`; None when no number does."""
    total = 0
    for number, unit in enumerate(units):
        if total == records:
            return number
        result = written.get(unit_key(unit))
        if result is None or total > records:
            return None
        total += result.records
    return len(units) if total == records else None
