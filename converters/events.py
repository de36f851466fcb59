"""What a pool of workers tells the conversion."""

from __future__ import annotations

from dataclasses import dataclass

from dataio.converters.journal import UnitResult


@dataclass(frozen=True, slots=True)
class Progressed:
    """Some files were done."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Written:
    """A unit is whole; the kernel has it."""

    result: UnitResult


@dataclass(frozen=True, slots=True)
class Synced:
    """A unit is whole; the disk has it."""

    split: str
    number: int


Event = Progressed | Written | Synced
