"""The ledger: a table beside each shard that says where every record lies, what it sums to and where it came from.

A damaged shard cannot be asked whose picture was destroyed; the ledger can. It also makes `verify` name a record
without parsing the shard, gives sizes of pictures without opening it, and is how formats with random access find a
record with one read. 64 bytes and a path for each record.

Form: the magic, uint64 records, uint64 bytes of paths, then a row a record (`ROW`), then all paths. Little-endian.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dataio.converters.checksums import crc32c, extend_crc32c, file_crc32c, open_regular
from dataio.converters.manifest import FileEntry
from dataio.converters.mapping import map_file
from dataio.errors import DataDamaged

if TYPE_CHECKING:
    from dataio.converters.formats.example import StoredRecord

_MAGIC = b"DIOLEDG1"
_HEAD_BYTES = len(_MAGIC) + 16

#: One record. offset: where its bytes begin in the shard (behind TFRecord's length and its checksum); length: how many
#: they are: an Example, or for HDF5 the picture; image_bytes: how many of them, at the end, are the picture; path_end:
#: where its path ends in the paths; crc32c: of the `length` bytes; the rest as in the record. 64 bytes with padding.
ROW = np.dtype(
    [
        ("offset", "<u8"),
        ("length", "<u8"),
        ("image_bytes", "<u8"),
        ("index", "<u8"),
        ("path_end", "<u8"),
        ("crc32c", "<u4"),
        ("label", "<u4"),
        ("height", "<u4"),
        ("width", "<u4"),
        ("orientation", "<u4"),
        ("reserved", "<u4"),
    ]
)

#: The same, for writing one.
_PACKED_ROW = struct.Struct("<5Q6I")


class Ledger:
    """The rows of one shard; mapped from a file or held in memory."""

    def __init__(self, rows: npt.NDArray[np.void], paths: npt.NDArray[np.uint8]) -> None:
        self.rows = rows
        self._paths = paths

    def __len__(self) -> int:
        return len(self.rows)

    def path(self, position: int) -> bytes:
        """Source path of the record at this position of the shard."""
        ends = self.rows["path_end"]
        return self._paths[int(ends[position - 1]) if position else 0 : int(ends[position])].tobytes()

    @classmethod
    def load(cls, path: Path, entry: FileEntry | None = None) -> Ledger:
        """The ledger in a file, mapped.

        Args:
            path: the file.
            entry: what the manifest says of it; given, all its bytes are read once and compared. Labels and indices
                are read from the ledger, so nothing else would notice a wrong one.

        Raises:
            DataDamaged: the file is no ledger, or cut, or its rows point outside it, or not what `entry` says.
        """
        if entry is not None:
            crc, length = file_crc32c(path)
            if (length, f"{crc:08x}") != (entry.bytes, entry.crc32c):
                raise DataDamaged(
                    f"{path}: the ledger is damaged: {length} bytes that sum to {crc:08x} where {entry.bytes} that sum "
                    f"to {entry.crc32c} were written; run `dataio repair`"
                )
        descriptor = open_regular(path)
        try:
            content = map_file(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
        head = content[:_HEAD_BYTES].tobytes()
        records, path_bytes = (int.from_bytes(head[start : start + 8], "little") for start in (8, 16))
        end = _HEAD_BYTES + records * ROW.itemsize
        if head[:8] != _MAGIC or len(content) != end + path_bytes:
            raise DataDamaged(f"{path}: not a whole ledger ({len(content)} bytes); run `dataio verify` on its dataset")
        return cls(content[_HEAD_BYTES:end].view(ROW), content[end:])


class LedgerBuilder:
    """Collects the rows of a shard while it is written."""

    def __init__(self) -> None:
        self._rows = bytearray()
        self._paths = bytearray()

    def add(self, record: StoredRecord, *, offset: int, length: int, crc: int) -> None:
        """Appends one record."""
        self._paths += record.path
        self._rows += _PACKED_ROW.pack(
            offset,
            length,
            len(record.image),
            record.index,
            len(self._paths),
            crc,
            record.label,
            record.height,
            record.width,
            record.orientation,
            0,
        )

    def save(self, path: Path) -> tuple[int, int]:
        """Writes the ledger; returns (CRC-32C, bytes) of the file. It is not synced to the disk here."""
        content = b"".join(
            (
                _MAGIC,
                (len(self._rows) // ROW.itemsize).to_bytes(8, "little"),
                len(self._paths).to_bytes(8, "little"),
                self._rows,
                self._paths,
            )
        )
        path.write_bytes(content)
        return crc32c(content), len(content)


def join_ledgers(parts: Sequence[Path], target: Path, *, offsets: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Writes one ledger with the rows of several, a part at a time; returns (CRC-32C, bytes) of the file.

    Args:
        parts: ledgers in order.
        offsets: int64[records of all parts], where the records lie in the joined file.
    """
    crc = total = 0
    with open(target, "wb") as file:
        for piece in _joined(parts, offsets):
            file.write(piece)
            crc = extend_crc32c(crc, piece)
            total += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return crc, total


def _joined(parts: Sequence[Path], offsets: npt.NDArray[np.int64]) -> Iterator[bytes]:
    # Each part is loaded three times, because thousands of them are too many to hold.
    path_bytes = sum(len(Ledger.load(part)._paths) for part in parts)
    yield _MAGIC + len(offsets).to_bytes(8, "little") + path_bytes.to_bytes(8, "little")
    paths_before = first = 0
    for ledger in map(Ledger.load, parts):
        rows = np.array(ledger.rows)
        rows["offset"] = offsets[first : first + len(rows)]
        rows["path_end"] += np.uint64(paths_before)
        paths_before += len(ledger._paths)
        first += len(rows)
        yield rows.tobytes()
    for ledger in map(Ledger.load, parts):
        yield ledger._paths.tobytes()
