"""What a format is: a name, how it is recognised and opened, and, if dataio writes it, how a shard is written.

Adding a format is adding one file under `formats/` and its line in `registry.py`; the conformance suite takes it from
there.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dataio.converters.checksums import crc32c
from dataio.converters.ledger import Ledger
from dataio.converters.names import printable
from dataio.converters.worklist import SHARD_BYTES
from dataio.data import Data
from dataio.errors import DataDamaged

if TYPE_CHECKING:
    from dataio.converters.formats.example import StoredRecord
    from dataio.converters.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a record was put."""

    offset: int
    """As in the ledger."""
    length: int
    """Bytes stored, without framing."""
    crc: int
    """CRC-32C of those bytes."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A shard that was written to its end."""

    descriptor: int
    """Open file; whoever gets it syncs it to the disk and closes it."""
    bytes: int
    """Size of the file."""
    crc: int
    """CRC-32C of the file; 0 where it goes into a store, which is summed as a whole."""


@dataclass(frozen=True, slots=True)
class FinishedStore:
    """A store that was read back."""

    bytes: int
    """Size of its file."""
    crc: int
    """CRC-32C of its file."""
    offsets: npt.NDArray[np.int64]
    """int64[records]: where each record's bytes begin in the file."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One place where a stored file is not what was written."""

    file: str
    """Path below the dataset's folder."""
    offset: int | None
    """Bytes from the start of the file, as near as is known."""
    what: str
    """What is wrong, in a few words."""
    record: int | None = None
    """Position of the record in its shard, where one is hit."""
    source: bytes | None = None
    """Source path of that record."""


class ShardWriter(ABC):
    """Writes one shard, a record at a time, to a file that is nobody else's."""

    @abstractmethod
    def add(self, record: StoredRecord) -> Placed:
        """Stores a record after those before it."""

    @abstractmethod
    def finish(self) -> Finished:
        """Writes what is left; the file is then whole, though not yet synced."""

    @abstractmethod
    def abandon(self) -> None:
        """Removes what was written."""


class Store(ABC):
    """A single file that takes units one after the other, for formats that are not cut into shards."""

    @abstractmethod
    def append(self, unit: Path, ledger: Ledger) -> None:
        """Adds a unit after those before it; done twice it is as done once."""

    @abstractmethod
    def sync(self) -> None:
        """Waits until the disk has what was added, while more may be added from another thread."""

    @abstractmethod
    def adopt(self, ledger: Ledger, unit_bytes: int) -> None:
        """Counts a unit that an earlier run had added.

        Raises:
            DataDamaged: it is not there.
        """

    @abstractmethod
    def finish(self) -> FinishedStore:
        """Writes what only the end can tell, and reads the store back.

        Raises:
            DataDamaged: it does not hold what was added.
        """

    @abstractmethod
    def close(self) -> None:
        """Waits until the disk has all of it, and gives up the file."""

    @abstractmethod
    def abandon(self) -> None:
        """Gives up the file as it is, for a later run to go on with."""


class Format(ABC):
    """A format that `dataio.open` reads."""

    name: str
    """As in `Data.format`."""

    @abstractmethod
    def recognises(self, path: Path) -> bool:
        """Whether `path` looks like this format, from names and a few bytes."""

    @abstractmethod
    def open(self, path: Path) -> Data:
        """The dataset at `path`.

        Raises:
            DataNotFound: nothing of this format is there.
            DataDamaged: its files are broken.
        """


class WritableFormat(Format):
    """A format that `dataio convert` writes."""

    unit_bytes: int = SHARD_BYTES
    """Source bytes that one unit of work holds by default."""
    record_overhead_bytes: int = 0
    """Bytes a record takes beyond its Example and its ledger row, on average."""
    gathers: bool = False
    """Whether the units of a split end up in one file, see `store`."""

    @abstractmethod
    def writer(
        self, path: Path, *, class_names: Sequence[str], raw_height_width: tuple[int, int] | None
    ) -> ShardWriter:
        """A writer of one unit into a new file at `path`."""

    @abstractmethod
    def shard_name(self, split: str, number: int, count: int) -> str:
        """Final name of a shard below the dataset's folder."""

    def store(self, path: Path) -> Store | None:
        """For formats that gather all units of a split in one file: that file, new or as an earlier run left it."""
        return None

    def companions(self, manifest: Manifest) -> Mapping[str, bytes]:
        """Files that other tools want beside the shards, by name."""
        return {}

    @abstractmethod
    def stored_crc(self, record: StoredRecord) -> int:
        """What the ledger says of this record's bytes: their CRC-32C."""

    def damages(self, path: Path, name: str, ledger: Ledger) -> Iterator[Damage]:
        """The records and places at which a shard that is known to be damaged differs from what was written."""
        found = False
        for damage in damaged_records(path, name, ledger):
            found = True
            yield damage
        if not found:
            yield Damage(name, None, f"{self.name}'s own structure around the records differs")


def damaged_records(path: Path, name: str, ledger: Ledger) -> Iterator[Damage]:
    """The records of the shard `path` whose bytes, read where the ledger says, do not sum to what was written."""
    size = path.stat().st_size
    with open(path, "rb", buffering=0) as file:
        for position, row in enumerate(ledger.rows):
            offset, length = int(row["offset"]), int(row["length"])
            content = os.pread(file.fileno(), length, offset) if offset < size else b""
            if len(content) < length:
                what, offset = f"the file ends at {size} bytes", min(offset, size)
            elif crc32c(content) != int(row["crc32c"]):
                what = f"its {length} bytes do not sum to what was written"
            else:
                continue
            yield Damage(name, offset, what, position, ledger.path(position))


def stored_image(descriptor: int, path: Path, ledger: Ledger, position: int) -> bytes:
    """The `image` of one record of the shard that is open as `descriptor`.

    Raises:
        DataDamaged: the record's bytes are not those that were written.
    """
    row = ledger.rows[position]
    offset, length = int(row["offset"]), int(row["length"])
    # A hostile ledger must not make us ask for more memory than the file could fill.
    fits = offset + length <= os.fstat(descriptor).st_size
    content = os.pread(descriptor, length, offset) if fits else b""
    if len(content) != length or crc32c(content) != int(row["crc32c"]):
        raise DataDamaged(
            f"{path}: record {position}, made from {printable(ledger.path(position))}, is damaged at byte {offset}; "
            "run `dataio verify`, then `dataio repair`"
        )
    return content[length - int(row["image_bytes"]) :]
