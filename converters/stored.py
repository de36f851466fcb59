"""Converted datasets as `Data`: what all formats share, and reading of single records at the places a ledger gives."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dataio.converters.blocks import read_blocks
from dataio.converters.format import stored_image
from dataio.converters.ledger import Ledger
from dataio.converters.manifest import FileEntry, Manifest, ShardEntry
from dataio.data import RECORD_FIELDS, Data, Order, Read, Shard, Split
from dataio.errors import DataDamaged

if TYPE_CHECKING:
    import tensorflow as tf

#: Shards that stay open in a process at most, and the share of the files it may have open: a quarter, because training
#: and validation are two datasets, and pipes, sockets and libraries need the rest. 256 of the usual 1024.
_MOST_OPEN, _OPEN_SHARE = 256, 4


def most_open() -> int:
    """Shards of a dataset that may stay open, given how many files this process may have open; at least 1."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN if soft == resource.RLIM_INFINITY else max(1, min(_MOST_OPEN, soft // _OPEN_SHARE))


class StoredData(Data):
    """A dataset that dataio converted; formats subclass it and add how records are read."""

    random_access = True

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.format = manifest.format
        self.encoding = manifest.encoding
        self.raw_height_width = manifest.raw_height_width
        self.class_names = manifest.class_names
        self.splits: Mapping[str, Split] = {
            name: Split(entry.records, len(entry.shards), sum(shard.file.bytes for shard in entry.shards))
            for name, entry in manifest.splits.items()
        }
        self.fingerprint = manifest.checksum
        for name, entry in manifest.splits.items():
            for shard in entry.shards:
                self._check_size(name, shard.file)

    def _check_size(self, split: str, entry: FileEntry) -> None:
        # Cheap, and it catches the commonest damage, a copy that was cut off.
        path = self.path / entry.name
        try:
            size = path.stat().st_size
        except OSError as problem:
            raise DataDamaged(
                f"{path}: a shard of split {split} cannot be read: {problem.strerror}; run `dataio verify`"
            ) from None
        if size != entry.bytes:
            raise DataDamaged(
                f"{path}: {size} bytes where {entry.bytes} were written; run `dataio verify`, then `dataio repair`"
            )

    def ledger(self, entry: ShardEntry) -> Ledger:
        """The ledger of a shard, mapped, once its bytes were found to be those that were written.

        Raises:
            DataDamaged: it is missing or damaged, or does not fit the shard.
        """
        path = self.path / entry.ledger.name
        try:
            ledger = Ledger.load(path, entry.ledger)
        except OSError as problem:
            raise DataDamaged(f"{path}: the ledger cannot be read: {problem.strerror}; run `dataio repair`") from None
        rows = ledger.rows
        fits = len(rows) == entry.records and (
            not len(rows)
            or (
                int(rows["label"].max()) < len(self.class_names)
                and bool((rows["image_bytes"] <= rows["length"]).all())
                and bool((rows["length"] <= entry.file.bytes).all())
                and bool((rows["offset"] <= entry.file.bytes - rows["length"]).all())
            )
        )
        if not fits:
            raise DataDamaged(f"{path}: the ledger does not fit its shard; run `dataio verify`, then `dataio repair`")
        return ledger


class LedgerData(StoredData):
    """A converted dataset any record of which is one read at a known place.

    Files are opened when first read, in each process for itself; objects may be forked and pickled.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        super().__init__(path, manifest)
        self._ledgers: dict[str, Ledger] = {}
        self._descriptors: dict[tuple[int, str], int] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ledgers": {}, "_descriptors": {}}

    def __del__(self) -> None:
        for (process, _), descriptor in getattr(self, "_descriptors", {}).items():
            if process == os.getpid():
                os.close(descriptor)

    def records(
        self, split: str, *, read: Read | None = None, order: Order | None = None, shard: Shard | None = None
    ) -> tf.data.Dataset:
        """As `Data.records`; the bytes of every record are compared with their checksum when read.

        Raises:
            DataNotFound: no such split.
            DataDamaged: a ledger of it is damaged.
        """
        count = self.split(split).records
        shards = self.manifest.splits[split].shards
        starts = np.cumsum([0, *(entry.records for entry in shards)])
        raw = self.raw_height_width
        for entry in shards:
            self._kept_ledger(entry)  # here, where a damaged one is an error of ours and not one of TensorFlow's

        def read_block(positions: npt.NDArray[np.int64]) -> Sequence[npt.NDArray[Any]]:
            which = np.searchsorted(starts, positions, side="right") - 1
            numbers = {name: np.empty(len(positions), np.int64) for name in RECORD_FIELDS[1:]}
            images = np.empty(len(positions), object)
            for number in np.unique(which).tolist():
                slots = np.flatnonzero(which == number)
                inside = positions[slots] - starts[number]
                ledger = self._kept_ledger(shards[number])
                for name in RECORD_FIELDS[1:]:
                    numbers[name][slots] = ledger.rows[name][inside]
                self._read_images(shards[number].file, ledger, inside.tolist(), slots.tolist(), images)
            return [
                images if raw is None else _as_pixels(images, raw),
                *(numbers[name] for name in RECORD_FIELDS[1:]),
            ]

        return read_blocks(count, read_block, read=read, order=order, shard=shard, raw_height_width=raw)

    def _read_images(
        self, entry: FileEntry, ledger: Ledger, positions: list[int], slots: list[int], images: npt.NDArray[Any]
    ) -> None:
        path = self.path / entry.name
        descriptor, stays_open = self._descriptor(entry.name)
        try:
            for position, slot in zip(positions, slots, strict=True):
                images[slot] = stored_image(descriptor, path, ledger, position)
        finally:
            if not stays_open:
                os.close(descriptor)

    def _descriptor(self, name: str) -> tuple[int, bool]:
        """(open file, whether it stays open)."""
        key = (os.getpid(), name)
        held = self._descriptors.get(key)
        if held is not None:
            return held, True
        descriptor = os.open(self.path / name, os.O_RDONLY | os.O_CLOEXEC)
        if len(self._descriptors) >= most_open():
            return descriptor, False
        kept = self._descriptors.setdefault(key, descriptor)
        if kept != descriptor:  # another thread was faster
            os.close(descriptor)
        return kept, True

    def _kept_ledger(self, entry: ShardEntry) -> Ledger:
        kept = self._ledgers.get(entry.ledger.name)
        return kept or self._ledgers.setdefault(entry.ledger.name, self.ledger(entry))


def _as_pixels(images: npt.NDArray[Any], height_width: tuple[int, int]) -> npt.NDArray[np.uint8]:
    joined = np.frombuffer(b"".join(images.tolist()), np.uint8)
    return joined.reshape(len(images), *height_width, 3)
