"""LMDB: one environment a split, keys `%08d` in stored order, values the same Example as in TFRecords.

The main database holds samples and nothing else: Caffe, DALI and others count every key.

Workers write the pages of whole batches, values included, as files; the store joins them, gives pages their final
numbers, and writes the tree over them at the end (see `lmdb_pages`). LMDB's own library then opens the file and its
count of entries is compared.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dataio.converters.appending import AppendingFile
from dataio.converters.checksums import crc32c, extend_crc32c
from dataio.converters.file_sums import sum_files
from dataio.converters.format import Finished, FinishedStore, Placed, ShardWriter, Store, WritableFormat
from dataio.converters.formats.example import StoredRecord, example_crc32c, example_prefix
from dataio.converters.ledger import Ledger
from dataio.converters.lmdb_pages import (
    HEAD_PAGES,
    MOST_ENTRIES,
    PAGE_BYTES,
    PAGE_HEAD,
    value_head,
    value_pages,
    write_tree,
)
from dataio.converters.manifest import Manifest
from dataio.converters.stored import LedgerData
from dataio.errors import DataDamaged, DestinationError
from dataio.machine import usable_cores

#: Source bytes of one batch: what a killed run does again at most, and what waits in the work folder to be joined.
BATCH_BYTES = 32 << 20

#: Bytes copied at a time where the kernel cannot do it by itself.
_COPY_BYTES = 1 << 20


class StagedPages(ShardWriter):
    """Writes the pages of one batch's values; page numbers count from the first of them."""

    def __init__(self, path: Path) -> None:
        self._file = AppendingFile(path, sums=False)

    def add(self, record: StoredRecord) -> Placed:
        """Appends the pages of the record's Example."""
        prefix = example_prefix(record)
        start, length = self._file.offset, len(prefix) + len(record.image)
        padding = bytes(value_pages(length) * PAGE_BYTES - PAGE_HEAD.size - length)
        self._file.append(value_head(start // PAGE_BYTES, length) + prefix, record.image, padding)
        return Placed(start + PAGE_HEAD.size, length, extend_crc32c(crc32c(prefix), record.image))

    def finish(self) -> Finished:
        """Flushes the file."""
        return Finished(self._file.close(), self._file.offset, self._file.crc)

    def abandon(self) -> None:
        """Removes the file."""
        self._file.abandon()


class LMDBStore(Store):
    """The environment of one split while it is being written."""

    def __init__(self, path: Path) -> None:
        """Takes the file in the folder `path`, as an earlier run left it, or makes one."""
        path.mkdir(parents=True, exist_ok=True)
        self._path = path / "data.mdb"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._next_page = HEAD_PAGES
        self._pages = array("Q")
        self._lengths = array("Q")

    def adopt(self, ledger: Ledger, unit_bytes: int) -> None:
        """Counts a unit that an earlier run had added."""
        if os.fstat(self._descriptor).st_size < self._next_page * PAGE_BYTES + unit_bytes:
            raise DataDamaged(f"{self._path}: is shorter than what was written to it")
        first = (ledger.rows["offset"] - PAGE_HEAD.size) // PAGE_BYTES + self._next_page
        self._pages.extend(first.tolist())
        self._lengths.extend(ledger.rows["length"].tolist())
        if len(self._pages) > MOST_ENTRIES:
            raise DestinationError(f"{self._path}: keys have eight digits, for {MOST_ENTRIES} records at most")
        self._next_page += unit_bytes // PAGE_BYTES

    def append(self, unit: Path, ledger: Ledger) -> None:
        """Copies the unit's pages to the end of the file and gives them their numbers."""
        base = self._next_page
        with open(unit, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            _copy(file.fileno(), self._descriptor, base * PAGE_BYTES, size)
        for offset in ledger.rows["offset"].tolist():
            page = base + (offset - PAGE_HEAD.size) // PAGE_BYTES
            os.pwrite(self._descriptor, page.to_bytes(8, "little"), page * PAGE_BYTES)
        self.adopt(ledger, size)

    def sync(self) -> None:
        """Waits until the disk has the pages."""
        os.fdatasync(self._descriptor)

    def finish(self) -> FinishedStore:
        """Writes tree and head, has LMDB open the file and count, and sums it."""
        import lmdb

        write_tree(self._descriptor, self._pages, self._lengths, self._next_page)
        with lmdb.open(os.fspath(self._path.parent), readonly=True, lock=False, map_size=0, max_dbs=0) as environment:
            entries = int(environment.stat()["entries"])
        if entries != len(self._pages):
            raise DataDamaged(f"{self._path}: holds {entries} entries where {len(self._pages)} were put in")
        (summed,) = sum_files([self._path], threads=usable_cores())
        if isinstance(summed, OSError):
            raise summed
        crc, size = summed
        offsets = np.frombuffer(self._pages, np.uint64).astype(np.int64) * PAGE_BYTES + PAGE_HEAD.size
        return FinishedStore(size, crc, offsets)

    def close(self) -> None:
        """Waits for the disk and closes the file."""
        os.fsync(self._descriptor)
        os.close(self._descriptor)

    def abandon(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)


def _copy(source: int, target: int, offset: int, size: int) -> None:
    """Copies the first `size` bytes of a file to a place in another, inside the kernel where it can."""
    done = 0
    try:
        while done < size:
            copied = os.copy_file_range(source, target, size - done, done, offset + done)
            if not copied:
                raise DataDamaged(f"a batch ended at {done} of {size} bytes")
            done += copied
        return
    except OSError as problem:
        if problem.errno not in (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP):
            raise
    while done < size:
        content = memoryview(os.pread(source, _COPY_BYTES, done))
        while content:
            written = os.pwrite(target, content, offset + done)
            content, done = content[written:], done + written


class LMDBData(LedgerData):
    """A converted LMDB dataset.

    Values are read at their places in the file, which the ledger knows: no transaction, no reader table, nothing that
    a fork or a second opening could break, and a damaged file cannot crash the interpreter.
    """


class LMDBFormat(WritableFormat):
    """LMDB environments."""

    name = "lmdb"
    unit_bytes = BATCH_BYTES
    record_overhead_bytes = PAGE_BYTES // 2 + 42  # what is left of a value's last page, on average, and its node
    gathers = True

    def recognises(self, path: Path) -> bool:
        """Whether a manifest in the folder says so; the registry reads it."""
        return (path / "dataset.json").is_file() and any(path.glob("*.lmdb/data.mdb"))

    def open(self, path: Path) -> LMDBData:
        """The dataset in the folder `path`."""
        return LMDBData(path, Manifest.open(path))

    def writer(
        self, path: Path, *, class_names: Sequence[str], raw_height_width: tuple[int, int] | None
    ) -> StagedPages:
        """A writer of one batch's pages."""
        return StagedPages(path)

    def shard_name(self, split: str, number: int, count: int) -> str:
        """`train.lmdb/data.mdb`: one environment a split."""
        return f"{split}.lmdb/data.mdb"

    def store(self, path: Path) -> LMDBStore:
        """The split's environment in the folder `path`."""
        return LMDBStore(path)

    def companions(self, manifest: Manifest) -> Mapping[str, bytes]:
        """None: the class names stand in the manifest, since every key of the environment is a sample."""
        return {}

    def stored_crc(self, record: StoredRecord) -> int:
        """CRC-32C of the record's Example."""
        return example_crc32c(record)
