"""LMDB: one environment a split, keys `%08d` in stored order, values the same Example as in TFRecords.

The main database holds samples and nothing else: Caffe, DALI and others count every key.

Workers make whole batches of values as plain files; a single writer puts them in with MDB_APPEND, a transaction a
batch. A batch is the same records whatever the run, and the environment is opened anew for each, so that which pages
a transaction takes, and what was left in memory from the one before, cannot differ between a run that was killed and
one that was not: the file is the same bytes.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataio.converters.appending import AppendingFile
from dataio.converters.checksums import crc32c, extend_crc32c, file_crc32c
from dataio.converters.format import Finished, FinishedStore, Placed, ShardWriter, Store, WritableFormat
from dataio.converters.formats.example import StoredRecord, example_crc32c, example_prefix
from dataio.converters.ledger import Ledger
from dataio.converters.lmdb_tree import fit_map_size, read_tree
from dataio.converters.manifest import Manifest
from dataio.converters.stored import LedgerData
from dataio.errors import DataDamaged

#: Source bytes of one batch: one transaction, one fsync, and what a killed run does again at most. Its pages are held
#: in memory until the commit.
BATCH_BYTES = 32 << 20

#: Bytes of a page where values lie; LMDB takes the machine's.
_PAGE_BYTES = mmap.PAGESIZE

#: Room in the map beyond what the batch at hand can take: tree pages, and pages that copy-on-write frees later.
_SPARE_BYTES = 4 << 20


class StagedValues(ShardWriter):
    """Writes the values of one batch one after the other, for the store to take in."""

    def __init__(self, path: Path) -> None:
        self._file = AppendingFile(path)

    def add(self, record: StoredRecord) -> Placed:
        """Appends the record's Example."""
        prefix = example_prefix(record)
        offset = self._file.offset
        self._file.append(prefix, record.image)
        return Placed(offset, self._file.offset - offset, extend_crc32c(crc32c(prefix), record.image))

    def finish(self) -> Finished:
        """Flushes the file."""
        return Finished(self._file.close(), self._file.offset, self._file.crc)

    def abandon(self) -> None:
        """Removes the file."""
        self._file.abandon()


class LMDBStore(Store):
    """The environment of one split while it is being written."""

    def __init__(self, path: Path, *, first_map_bytes: int) -> None:
        """Takes the environment in the folder `path`, as an earlier run left it, or makes one.

        Args:
            first_map_bytes: size of the map to begin with, from the scan. It grows when it is too small.
        """
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._map_bytes = _whole_pages(max(first_map_bytes, _SPARE_BYTES))
        self.records = 0
        if (path / "data.mdb").exists():
            with self._open() as environment:
                self.records = int(environment.stat()["entries"])
                self._map_bytes = max(self._map_bytes, int(environment.info()["map_size"]))

    def _open(self) -> Any:
        import lmdb

        # One process writes, under the conversion's own lock: LMDB's lock file would only be left behind.
        # metasync=False: a crash of the machine may undo the last batch, never damage those before it.
        return lmdb.open(
            os.fspath(self._path), map_size=self._map_bytes, lock=False, metasync=False, readahead=False, max_dbs=0
        )

    def append(self, unit: Path, ledger: Ledger) -> None:
        """Adds the values in the file `unit` in one transaction; grows the map and begins again when it is full."""
        import lmdb

        while True:
            with self._open() as environment:
                try:
                    with environment.begin(write=True) as transaction, open(unit, "rb") as file:
                        self._put(transaction, file.fileno(), ledger)
                    break
                except lmdb.Error as problem:
                    if not isinstance(problem, lmdb.MapFullError):
                        # A full disk is an EIO to LMDB, because only a part of a write was done.
                        raise OSError(f"LMDB cannot write: {problem}") from None
                    # Doubling would leave the size of the map to chance no more than this does, and a fixed rule
                    # gives the same bytes in the header every time.
                    self._map_bytes = _whole_pages(self._map_bytes * 3 // 2 + unit.stat().st_size)
        self.records += len(ledger)

    def _put(self, transaction: Any, descriptor: int, ledger: Ledger) -> None:
        size = os.fstat(descriptor).st_size
        if not size:
            return
        with mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            number = self.records
            for offset, length in zip(ledger.rows["offset"].tolist(), ledger.rows["length"].tolist(), strict=True):
                with view[offset : offset + length] as value:
                    if not transaction.put(b"%08d" % number, value, append=True):
                        raise DataDamaged(f"{self._path}: key {number:08d} is already there")
                number += 1

    def finish(self) -> FinishedStore:
        """Fits the map to what is used, reads the tree back, counts, and sums the file."""
        file = self._path / "data.mdb"
        fit_map_size(file)
        with self._open() as environment:
            entries = int(environment.stat()["entries"])
        offsets = np.fromiter(self._offsets(file), np.int64)
        if not entries == len(offsets) == self.records:
            raise DataDamaged(
                f"{self._path}: holds {entries} entries, {len(offsets)} of them found, where {self.records} were put in"
            )
        (self._path / "lock.mdb").unlink(missing_ok=True)
        crc, size = file_crc32c(file)
        return FinishedStore(size, crc, offsets)

    def _offsets(self, file: Path) -> Iterator[int]:
        for position, value in enumerate(read_tree(file)):
            if value.key != b"%08d" % position:
                raise DataDamaged(f"{file}: key {value.key!r} where {position:08d} belongs")
            yield value.offset


def _whole_pages(size: int) -> int:
    return (size + _PAGE_BYTES - 1) // _PAGE_BYTES * _PAGE_BYTES


class LMDBData(LedgerData):
    """A converted LMDB dataset.

    Values are read at their places in the file, which the ledger knows: no transaction, no reader table, nothing that
    a fork or a second opening could break, and a damaged file cannot crash the interpreter.
    """


class LMDBFormat(WritableFormat):
    """LMDB environments."""

    name = "lmdb"
    unit_bytes = BATCH_BYTES
    record_overhead_bytes = 2200  # half a page is left free behind each value, and the tree
    gathers = True

    def recognises(self, path: Path) -> bool:
        """Whether a manifest in the folder says so; the registry reads it."""
        return (path / "dataset.json").is_file() and any(path.glob("*.lmdb/data.mdb"))

    def open(self, path: Path) -> LMDBData:
        """The dataset in the folder `path`."""
        return LMDBData(path, Manifest.open(path))

    def writer(
        self, path: Path, *, class_names: Sequence[str], raw_height_width: tuple[int, int] | None
    ) -> StagedValues:
        """A writer of one batch's values."""
        return StagedValues(path)

    def shard_name(self, split: str, number: int, count: int) -> str:
        """`train.lmdb/data.mdb`: one environment a split."""
        return f"{split}.lmdb/data.mdb"

    def store(self, path: Path, *, expected_bytes: int) -> LMDBStore:
        """The split's environment in the folder `path`."""
        return LMDBStore(path, first_map_bytes=expected_bytes)

    def companions(self, manifest: Manifest) -> Mapping[str, bytes]:
        """None: the class names stand in the manifest, since every key of the environment is a sample."""
        return {}

    def stored_crc(self, record: StoredRecord) -> int:
        """CRC-32C of the record's Example."""
        return example_crc32c(record)
