"""The manifest: `dataset.json`, what a converted dataset holds and what every file of it sums to.

It is written last, so a folder that has one is whole. It holds nothing that differs between two runs over the same
source: no times, no host, no absolute path.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, Self

from dataio.converters.checksums import crc32c
from dataio.errors import DataDamaged, DataNotFound, RecordError
from dataio.records import Record

#: Name of the manifest in a dataset's folder.
MANIFEST = "dataset.json"

#: Name of the folder inside a dataset's where unfinished work lies.
WORK_FOLDER = ".dataio-partial"

#: Name of the list of files that were rejected, or transcoded because of their content.
OUTCOMES = "outcomes.jsonl"

#: Folder of the ledgers in a dataset's folder.
LEDGERS = "ledger"


class FileEntry(Record):
    """One file of the dataset."""

    name: str
    """Path below the dataset's folder."""
    bytes: int
    """Its size."""
    crc32c: str
    """CRC-32C of all its bytes, 8 hexadecimal digits."""


class ShardEntry(Record):
    """One shard: a file of records, and its ledger."""

    file: FileEntry
    """The shard."""
    ledger: FileEntry
    """Where its records lie, what they sum to and which file each came from."""
    records: int
    """Records in it."""
    unit: int | None
    """Which part of the stored order was written to it, so that it can be written again: `stored_order` cut by the
    options' `shards`. Null where it holds all of them."""


class ClassEntry(Record):
    """What a split holds of one class."""

    records: int
    """Records."""
    bytes: int
    """Bytes of their pictures, as stored."""
    rejected: int
    """Files of the class that were not stored."""
    transcoded: int
    """Records among `records` that hold a new JPEG because of what their file held."""


class SplitEntry(Record):
    """One split."""

    seen: int
    """Candidate files; always records + rejected."""
    records: int
    """Pictures stored."""
    rejected: int
    """Files that were not stored; `outcomes.jsonl` names them."""
    transcoded: int
    """Records among `records` that hold a new JPEG because of what their file held."""
    bytes: int
    """Bytes of the pictures as stored, without framing."""
    classes: tuple[ClassEntry, ...]
    """By label."""
    shards: tuple[ShardEntry, ...]
    """In stored order."""


class SourceEntry(Record):
    """The source folder as it was converted."""

    files: int
    """Candidate files."""
    bytes: int
    """Their size together."""
    sha256: str
    """Over path, size and class of every candidate, whatever their times of change; notices another source."""
    skipped: dict[str, int]
    """Entries that were no candidates, by kind: litter, hidden files, files that are no pictures …"""


class Manifest(Record):
    """The content of `dataset.json`."""

    schema_version: Literal[1] = 1
    """Form of this record in JSON."""
    tool: str
    """Program and version that wrote the dataset."""
    format: Literal["tfrecord", "hdf5", "lmdb"]
    """How the shards are written."""
    encoding: Literal["jpeg", "raw"]
    """What `image` holds: JPEG files, or pixels."""
    raw_height_width: tuple[int, int] | None
    """(height, width) of every picture where the encoding is raw, else null."""
    class_names: tuple[str, ...]
    """A label is a position in it."""
    splits: dict[str, SplitEntry]
    """The splits by name."""
    options: dict[str, Any]
    """What the conversion was asked for; enough to do it again (`dataio repair`)."""
    source: SourceEntry
    """What it was made from."""
    files: tuple[FileEntry, ...]
    """The other files: outcomes, and what the format's own tools want beside the shards."""
    checksum: str = ""
    """CRC-32C of this record as JSON with an empty checksum, 8 hexadecimal digits."""

    def sealed(self) -> Self:
        """This manifest with its checksum."""
        bare = self.replace(checksum="")
        return bare.replace(checksum=f"{crc32c(bare.to_json().encode()):08x}")

    @classmethod
    def open(cls, folder: Path) -> Manifest:
        """The manifest of the dataset in `folder`.

        Raises:
            DataNotFound: the folder has none.
            DataDamaged: it cannot be read, or its bytes are not what was written.
        """
        path = folder / MANIFEST
        try:
            if path.exists() and not path.is_file():
                raise DataDamaged(f"{path}: is not a file; restore it from a copy, or convert again")
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise DataNotFound(
                f"{folder}: no {MANIFEST} in it: not a dataset that dataio converted, or not a finished one"
            ) from None
        except OSError as problem:
            raise DataDamaged(f"{path}: cannot be read: {problem.strerror}") from None
        try:
            manifest = cls.from_json(text, origin=str(path))
        except RecordError as problem:
            if isinstance(newer := _schema_version(text), int) and newer > 1:
                raise DataDamaged(f"{path}: schema {newer} was written by a newer dataio; update this one") from None
            raise DataDamaged(f"{problem}. Convert again, or restore the file from a copy") from None
        if manifest.sealed().to_json().encode() != text:
            raise DataDamaged(
                f"{path}: its checksum does not fit: the file was edited or damaged. "
                "Restore it from a copy or convert again"
            )
        manifest._check_names(path)
        return manifest

    def _check_names(self, path: Path) -> None:
        # A hostile manifest must not make us read, or `repair` write, outside its folder.
        for entry in self.all_files():
            parts = Path(entry.name).parts
            if not parts or Path(entry.name).is_absolute() or ".." in parts or "\0" in entry.name:
                raise DataDamaged(f"{path}: names a file outside the dataset: {entry.name!r}")

    def all_files(self) -> list[FileEntry]:
        """Every file of the dataset but the manifest itself."""
        entries = list(self.files)
        for split in self.splits.values():
            for shard in split.shards:
                entries += [shard.file, shard.ledger]
        return entries


def _schema_version(text: bytes) -> object:
    try:
        content = json.loads(text)
    except ValueError:
        return None
    return content.get("schema_version") if isinstance(content, dict) else None
