"""Finished units put together: final names, joined ledgers, outcomes, companions, and the manifest over all of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataio import __version__
from dataio.converters.checksums import crc32c
from dataio.converters.format import WritableFormat
from dataio.converters.gathering import Gathering, unit_key
from dataio.converters.journal import UnitResult
from dataio.converters.ledger import join_ledgers
from dataio.converters.manifest import (
    LEDGERS,
    OUTCOMES,
    ClassEntry,
    FileEntry,
    Manifest,
    ShardEntry,
    SourceEntry,
    SplitEntry,
)
from dataio.converters.planning import Planned
from dataio.converters.scan import Scan
from dataio.converters.writing import UnitFiles
from dataio.errors import SourceError

#: (name in the work folder, final name below the destination)
Move = tuple[str, str]


def assemble(
    work: Path,
    format_: WritableFormat,
    planned: Planned,
    done: Mapping[tuple[str, int], UnitResult],
    scanned: Scan,
    *,
    options: Mapping[str, Any],
    raw_height_width: tuple[int, int] | None,
    gathering: Gathering | None,
) -> tuple[Manifest, list[Move]]:
    """The sealed manifest of a conversion whose units are all written, and where its files go.

    Raises:
        SourceError: a split without a single record.
    """
    moves: list[Move] = []
    splits: dict[str, SplitEntry] = {}
    for split in planned.worklists:
        results = [done[unit_key(unit)] for unit in planned.units if unit.split == split]
        if not any(result.records for result in results):
            raise SourceError(
                f"{scanned.root}: all {len(planned.worklists[split])} files of split {split} were rejected; "
                f"{_first_outcome(work, results)}"
            )
        if gathering is None:
            shards = _shards(format_, split, results, moves)
        else:
            shards = [_stored_shard(work, format_, split, results, moves, gathering)]
        splits[split] = _split_entry(results, shards, len(scanned.class_names))
    bare = Manifest(
        tool=f"dataio {__version__}",
        format=format_.name,
        encoding="jpeg" if raw_height_width is None else "raw",
        raw_height_width=raw_height_width,
        class_names=scanned.class_names,
        splits=splits,
        options=dict(options),
        source=source_entry(planned, scanned.skipped),
        files=(),
    )
    contents = {OUTCOMES: _outcomes(work, done.values()), **format_.companions(bare)}
    entries = []
    for name, content in contents.items():
        _write_synced(work / f"{name}.final", content)
        moves.append((f"{name}.final", name))
        entries.append(FileEntry(name=name, bytes=len(content), crc32c=f"{crc32c(content):08x}"))
    return bare.replace(files=tuple(entries)).sealed(), moves


def source_entry(planned: Planned, skipped: Mapping[str, int] | None = None) -> SourceEntry:
    """What the manifest says about the source."""
    total = hashlib.sha256()
    for split in sorted(planned.worklists):
        total.update(planned.worklists[split].content_sum(with_times=False).encode())
    return SourceEntry(
        files=planned.candidates,
        bytes=planned.source_bytes,
        sha256=total.hexdigest(),
        skipped=dict(skipped or {}),
    )


def ledger_name(split: str, number: int, count: int) -> str:
    """Final name of a ledger."""
    return f"{LEDGERS}/{split}-{number:05d}-of-{count:05d}.ledger"


def _shards(format_: WritableFormat, split: str, results: Sequence[UnitResult], moves: list[Move]) -> list[ShardEntry]:
    # Units whose every file was rejected vanish, so the number of shards is known only now.
    filled = [result for result in results if result.records]
    shards = []
    for number, result in enumerate(filled):
        files = UnitFiles.of(Path(), split, result.number)
        name = format_.shard_name(split, number, len(filled))
        ledger = ledger_name(split, number, len(filled))
        moves += [(files.content.name, name), (files.ledger.name, ledger)]
        shards.append(
            ShardEntry(
                file=FileEntry(name=name, bytes=result.file_bytes, crc32c=f"{result.file_crc:08x}"),
                ledger=FileEntry(name=ledger, bytes=result.ledger_bytes, crc32c=f"{result.ledger_crc:08x}"),
                records=result.records,
                unit=result.number,
            )
        )
    return shards


def _stored_shard(
    work: Path,
    format_: WritableFormat,
    split: str,
    results: Sequence[UnitResult],
    moves: list[Move],
    gathering: Gathering,
) -> ShardEntry:
    finished = gathering.finish(split)
    parts = [UnitFiles.of(work, split, result.number).ledger for result in results]
    joined = work / f"{split}.joined"
    ledger_crc, ledger_bytes = join_ledgers(parts, joined, offsets=finished.offsets)
    name, ledger = format_.shard_name(split, 0, 1), ledger_name(split, 0, 1)
    content = gathering.folder(split) / Path(name).name
    moves += [(str(content.relative_to(work)), name), (joined.name, ledger)]
    return ShardEntry(
        file=FileEntry(name=name, bytes=finished.bytes, crc32c=f"{finished.crc:08x}"),
        ledger=FileEntry(name=ledger, bytes=ledger_bytes, crc32c=f"{ledger_crc:08x}"),
        records=len(finished.offsets),
        unit=None,
    )


def _split_entry(results: Sequence[UnitResult], shards: Sequence[ShardEntry], classes: int) -> SplitEntry:
    counts = np.zeros((classes, 4), np.int64)
    for result in results:
        for label, count in result.classes.items():
            counts[int(label)] += count
    return SplitEntry(
        seen=sum(result.seen for result in results),
        records=sum(result.records for result in results),
        rejected=sum(result.rejected for result in results),
        transcoded=sum(result.transcoded for result in results),
        bytes=int(counts[:, 1].sum()),
        classes=tuple(
            ClassEntry(records=records, bytes=size, rejected=rejected, transcoded=transcoded)
            for records, size, rejected, transcoded in counts.tolist()
        ),
        shards=tuple(shards),
    )


def _outcomes(work: Path, results: Any) -> bytes:
    lines: list[bytes] = []
    for result in results:
        if result.rejected or result.transcoded:
            lines += UnitFiles.of(work, result.split, result.number).outcomes.read_bytes().splitlines(keepends=True)
    # A line begins with its path: sorted by path, whatever the order of the units.
    return b"".join(sorted(lines))


def _first_outcome(work: Path, results: Sequence[UnitResult]) -> str:
    for result in results:
        text = UnitFiles.of(work, result.split, result.number).outcomes.read_text(encoding="utf-8")
        if text:
            return "the first: " + text.splitlines()[0]
    return "none was named"


def _write_synced(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
