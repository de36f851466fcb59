"""The work folder of an unfinished conversion: one run at a time, and what an earlier run left of use.

It lies inside the destination, so that finished files move to their names without being copied, and goes when the
dataset is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dataio.converters.format import WritableFormat
from dataio.converters.gathering import Gathering
from dataio.converters.journal import Earlier, Journal, UnitResult, boot_id
from dataio.converters.ledger import Ledger
from dataio.converters.manifest import WORK_FOLDER
from dataio.converters.planning import Planned
from dataio.converters.worker import worklist_path
from dataio.converters.worklist import Worklist, differences
from dataio.converters.writing import UnitFiles
from dataio.errors import DataDamaged, DestinationError, RecordError, SourceChanged

_JOURNAL, _LOCK = "journal.jsonl", "lock"


class WorkFolder:
    """A locked work folder; a context manager."""

    def __init__(self, destination: Path) -> None:
        """Makes the folder and locks it.

        Raises:
            DestinationError: it cannot be made, or another run holds it.
        """
        self.path = destination / WORK_FOLDER
        self._made_destination = not destination.exists()
        try:
            self._lock = self._take_lock(destination)
        except OSError as problem:
            if isinstance(problem, DestinationError):
                raise
            raise DestinationError(f"{destination}: cannot be written: {problem.strerror}") from None
        self.journal = Journal(self.path / _JOURNAL)
        self._gathering: Gathering | None = None

    def _take_lock(self, destination: Path) -> int:
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except FileNotFoundError:
                continue  # the other run was just finishing and took the folder away
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                raise DestinationError(f"{destination}: another dataio is writing there; wait for it to end") from None
            try:
                if os.path.samestat(os.fstat(lock), (self.path / _LOCK).stat()):
                    return lock
            except FileNotFoundError:
                pass
            os.close(lock)  # a lock on a file that is gone keeps nobody out

    def forget(self) -> None:
        """Removes what an earlier run left."""
        self.journal.close()
        for path in self.path.iterdir():
            if path.name == _LOCK:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        self.journal = Journal(self.path / _JOURNAL)

    def gathering(self, format_: WritableFormat, planned: Planned) -> Gathering | None:
        """What takes in the units of a format that keeps a split in one file, closed with the folder; else None."""
        if format_.gathers:
            self._gathering = Gathering(format_, self.path, planned, self.journal)
        return self._gathering

    def remove_partials(self) -> None:
        """Removes files that a killed worker was still writing."""
        for path in self.path.glob(".*.part*"):
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the folder; the conversion is over."""
        shutil.rmtree(self.path)

    def close(self) -> None:
        """Gives up the lock."""
        try:
            self.journal.close()
        finally:
            if self._gathering is not None:
                self._gathering.close()
            os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None:
                with contextlib.suppress(OSError):  # the error that is on its way out says more
                    self._leave_as_found()
        finally:
            self.close()

    def _leave_as_found(self) -> None:
        """Removes the folder where nothing was begun."""
        if not (self.path / _JOURNAL).stat().st_size:
            self.remove()
            if self._made_destination:
                self.path.parent.rmdir()


def resume(work: WorkFolder, worklists: Mapping[str, Worklist], settings: Mapping[str, Any]) -> Earlier:
    """What an earlier run with the same settings and source wrote, by unit; begins a journal if none is there.

    Args:
        work: the locked folder.
        worklists: of this run.
        settings: whatever decides the bytes of the output, as JSON values.

    Raises:
        DestinationError: the earlier run had other settings.
        SourceChanged: files were added, removed or edited since.
    """
    lines = list(work.journal.lines())
    boot = boot_id()
    work.remove_partials()
    if not lines or lines[0].get("settings") is None:
        work.forget()
        for split, worklist in worklists.items():
            worklist.save(worklist_path(work.path, split))
        work.journal.append(settings=settings, boot=boot)
        return Earlier({}, frozenset(), frozenset())
    if lines[0]["settings"] != settings:
        told = _difference(lines[0]["settings"], settings)
        raise DestinationError(
            f"{work.path.parent}: an unfinished run with other options lies there ({told}); "
            "repeat its options to finish it, or use --overwrite to start anew"
        )
    _check_source(work, worklists)
    written: dict[tuple[str, int], UnitResult] = {}
    trusted: set[tuple[str, int]] = set()
    gathered: set[tuple[str, int]] = set()
    current = lines[0].get("boot")
    for line in lines:
        current = line.get("boot", current)
        if "written" in line:
            result = UnitResult.from_dict(line["written"])
            written[result.key] = result
            if current == boot:
                trusted.add(result.key)
        for name, keys in (("synced", trusted), ("gathered", gathered)):
            if name in line:
                split, number = line[name]
                keys.add((split, number))
    work.journal.append(boot=boot)
    return Earlier(written, frozenset(trusted), frozenset(gathered))


def usable_units(work: WorkFolder, earlier: Earlier, gathering: Gathering | None) -> dict[tuple[str, int], UnitResult]:
    """The units of an earlier run that need not be written again; those that wait for their store go into it now."""
    gathered = gathering.resume(earlier) if gathering is not None else {}
    usable = dict(gathered)
    for key, result in earlier.written.items():
        if key in earlier.trusted and key not in gathered and _is_whole(work.path, result):
            usable[key] = result
            if gathering is not None:
                gathering.deliver(result)
    return usable


def _is_whole(work: Path, result: UnitResult) -> bool:
    """Whether a unit's files are there with the sizes that the journal states."""
    files = UnitFiles.of(work, result.split, result.number)
    try:
        ledger = files.ledger.stat().st_size == result.ledger_bytes and len(Ledger.load(files.ledger)) == result.records
        content = not result.records or files.content.stat().st_size == result.file_bytes
        return ledger and content and files.outcomes.exists()
    except (OSError, DataDamaged):
        return False


def _check_source(work: WorkFolder, worklists: Mapping[str, Worklist]) -> None:
    for split, new in worklists.items():
        path = worklist_path(work.path, split)
        try:
            old = Worklist.load(path)
        except (OSError, RecordError):
            raise SourceChanged(
                f"{work.path.parent}: the split {split} is not in the unfinished run that lies there; "
                "use --overwrite to start anew"
            ) from None
        if old.content_sum(with_times=True) != new.content_sum(with_times=True):
            what = ", ".join(differences(old, new)) or "the order of its files"
            raise SourceChanged(
                f"the source changed since the unfinished run in {work.path.parent}: {what}; "
                "use --overwrite to start anew"
            )
    gone = [path.stem for path in work.path.glob("*.worklist") if path.stem not in worklists]
    if gone:
        raise SourceChanged(f"the source has no split {', '.join(gone)} any more; use --overwrite to start anew")


#: Settings that the command line calls by another name than its own with dashes.
_OPTION_NAMES = {"validation": "--validate", "labelled": "--labels", "resizer": "the resizer", "tool": "the version"}


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Which options differ, by the names that a user gives them."""
    before, after = _flat(old), _flat(new)
    told = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        if name == "class_names":
            told.append("the classes differ")
            continue
        option = _OPTION_NAMES.get(name) or f"--{name.replace('_', '-')}"
        told.append(f"{option} was {_said(was)} and is {_said(now)}")
    return ", ".join(told)


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in settings.items():
        values |= _flat(value) if isinstance(value, Mapping) else {name: value}
    return values


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "x".join(str(part) for part in value)
    return {"None": "not given", "True": "on", "False": "off"}.get(str(value), str(value))
