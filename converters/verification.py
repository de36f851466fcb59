"""Is a dataset still what was written? Every file summed at the speed of the disk; what differs is named.

A file is read once, in sequence, and compared with the manifest. Only where a sum differs are its records looked at
one by one, to say which picture is hit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dataio.converters.assembly import source_entry
from dataio.converters.conversion import ConversionOptions, plan, scan_for
from dataio.converters.file_sums import sum_files
from dataio.converters.format import Damage, WritableFormat
from dataio.converters.formats.example import StoredRecord
from dataio.converters.imaging import ImageOptions, Rejected, decide
from dataio.converters.ledger import Ledger
from dataio.converters.manifest import FileEntry, Manifest, ShardEntry, SplitEntry
from dataio.converters.names import one_line, printable
from dataio.converters.registry import get_writable_format
from dataio.converters.writing import read_file
from dataio.errors import SourceError
from dataio.machine import usable_cores


@dataclass(frozen=True, slots=True)
class Verified:
    """What `verify` found."""

    files: int
    """Files read."""
    bytes: int
    """Bytes read."""
    records: int
    """Records of the dataset."""
    seconds: float
    """Wall time."""
    damages: tuple[Damage, ...]
    """What differs; empty when the dataset is what was written."""
    source_differences: int = 0
    """How many of them, at the end, are about the source: the dataset may be whole. Near `records`: another source."""


#: Called with bytes done so far and bytes in all.
Report = Callable[[int, int], None]


def verify(path: Path, *, source: Path | None = None, report: Report = lambda done, total: None) -> Verified:
    """Reads every byte of the dataset in `path` and compares it with what was written.

    Args:
        path: the dataset's folder.
        source: also compare every record with the file that it was made from.
        report: told about progress.

    Raises:
        DataNotFound: no dataset there.
        DataDamaged: the manifest itself is damaged.
        SourceError: `source` is no folder.
    """
    began = time.monotonic()
    if source is not None and not source.is_dir():
        raise SourceError(f"{source}: is no folder; name the one that the dataset was made from")
    manifest = Manifest.open(path)
    format_ = get_writable_format(manifest.format)
    entries = tuple(manifest.all_files())
    total = sum(entry.bytes for entry in entries)
    done = 0

    def read(count: int) -> None:
        nonlocal done
        done += count
        report(done, total)

    sums = sum_files((path / entry.name for entry in entries), threads=_threads(), report=read)
    # The sum says that something differs; then, once all is read, the records say what.
    differing = {entry.name: _difference(entry, summed) for entry, summed in zip(entries, sums, strict=True)}
    report(total, total)
    damages: list[Damage] = []
    for split in manifest.splits.values():
        for shard in split.shards:
            damages += _shard_damages(path, format_, shard, differing[shard.ledger.name], differing[shard.file.name])
    damages += [damage for entry in manifest.files if (damage := differing[entry.name])]
    of_source: list[Damage] = []
    if source is not None:
        broken = {damage.file for damage in damages}
        of_source = [
            damage
            for split in manifest.splits.values()
            for damage in _compare_with_source(path, format_, manifest, split, source, broken)
        ]
        of_source = of_source or _other_files(manifest, source)
    return Verified(
        files=len(entries),
        bytes=total,
        records=sum(split.records for split in manifest.splits.values()),
        seconds=time.monotonic() - began,
        damages=(*damages, *of_source),
        source_differences=len(of_source),
    )


def file_damage(folder: Path, entry: FileEntry) -> Damage | None:
    """How a file differs from its entry, in one line; None when it does not."""
    (summed,) = sum_files([folder / entry.name], threads=_threads())
    return _difference(entry, summed)


def _threads() -> int:
    # Two take bytes about as fast as one core reads them from the page cache; more would only contend for a disk.
    return min(2, usable_cores())


def _difference(entry: FileEntry, summed: tuple[int, int] | OSError) -> Damage | None:
    if isinstance(summed, FileNotFoundError):
        return Damage(entry.name, None, "is missing")
    if isinstance(summed, OSError):
        return Damage(entry.name, None, str(summed.strerror))
    crc, size = summed
    if size != entry.bytes:
        return Damage(entry.name, min(size, entry.bytes), f"has {size} bytes where {entry.bytes} were written")
    if f"{crc:08x}" != entry.crc32c:
        return Damage(entry.name, None, f"sums to {crc:08x} where {entry.crc32c} was written")
    return None


def _shard_damages(
    folder: Path, format_: WritableFormat, shard: ShardEntry, of_ledger: Damage | None, of_file: Damage | None
) -> Iterator[Damage]:
    if of_ledger is not None:
        yield of_ledger
    if of_file is None:
        return
    path = folder / shard.file.name
    if of_ledger is not None or not path.is_file():
        yield of_file
        return
    closer = list(format_.damages(path, shard.file.name, Ledger.load(folder / shard.ledger.name)))
    # A cut or lengthened file is said beside its records.
    if path.stat().st_size != shard.file.bytes or not closer:
        yield of_file
    yield from closer


def _compare_with_source(
    folder: Path, format_: WritableFormat, manifest: Manifest, split: SplitEntry, source: Path, broken: set[str]
) -> Iterator[Damage]:
    """Records whose source file, decided about anew, gives other bytes than were stored."""
    options = ImageOptions(**manifest.options["image"])
    root = os.fsencode(source.resolve())
    for shard in split.shards:
        if shard.ledger.name in broken:
            continue
        ledger = Ledger.load(folder / shard.ledger.name)
        for position, row in enumerate(ledger.rows):
            path = ledger.path(position)
            what = _source_difference(format_, root + b"/" + path, row, path, options)
            if what:
                yield Damage(shard.file.name, int(row["offset"]), what, position, path)


def _other_files(manifest: Manifest, source: Path) -> list[Damage]:
    """Files that came to the source, or went without having been stored, once all stored ones are as they were."""
    if manifest.options["labelled"]:
        return []  # which files are candidates is in the labels file
    options = ConversionOptions(**manifest.options)
    planned = plan(scan_for(source, options, None), options.replace(shards=1), get_writable_format(manifest.format))
    if source_entry(planned).sha256 == manifest.source.sha256:
        return []
    was = manifest.source
    what = (
        f"holds {planned.candidates} files of {planned.source_bytes} bytes "
        f"where {was.files} of {was.bytes} were converted"
    )
    return [Damage(str(source), None, what)]


def _source_difference(
    format_: WritableFormat, file: bytes, row: np.void, path: bytes, options: ImageOptions
) -> str | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            content = read_file(descriptor, os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except OSError as problem:
        return f"its source file cannot be read: {problem.strerror}"
    picture = content if isinstance(content, Rejected) else decide(content, options)
    if isinstance(picture, Rejected):
        return f"its source file is rejected now: {picture.reason}"
    record = StoredRecord(
        picture.image,
        int(row["label"]),
        path,
        int(row["index"]),
        picture.orientation,
        picture.height,
        picture.width,
    )
    if format_.stored_crc(record) != int(row["crc32c"]):
        return "its source file holds something else now"
    return None


def describe(damage: Damage) -> str:
    """One line about a damage: file, record, offset, what, and the source file."""
    where = one_line(damage.file)
    if damage.record is not None:
        where += f", record {damage.record}"
    if damage.offset is not None:
        where += f", byte {damage.offset}"
    origin = f" (made from {printable(damage.source)})" if damage.source is not None else ""
    return f"{where}: {one_line(damage.what)}{origin}"
