"""What a worker does: reads the files of one unit, decides about each, and writes the unit, its ledger and outcomes."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataio.converters.candidates import Candidate
from dataio.converters.format import Finished
from dataio.converters.formats.example import StoredRecord
from dataio.converters.imaging import ImageOptions, Picture, Rejected, decide
from dataio.converters.journal import UnitResult
from dataio.converters.ledger import LedgerBuilder
from dataio.converters.names import as_text, printable
from dataio.converters.picture import MAX_FILE_BYTES
from dataio.converters.registry import get_writable_format
from dataio.converters.worklist import Unit, Worklist
from dataio.errors import SourceChanged, SourceError

#: Seconds between two reports of progress.
REPORT_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """What all units of a conversion have in common."""

    source: str
    """The source folder."""
    work: str
    """The work folder."""
    format: str
    """Name of the format."""
    image: ImageOptions
    """How pictures are stored."""
    class_names: tuple[str, ...]
    """Names of the classes."""
    fail_on_bad: bool = False
    """Whether the first rejected file ends the conversion."""

    @property
    def raw_height_width(self) -> tuple[int, int] | None:
        """(height, width) where pixels are stored, else None."""
        return self.image.size

    def to_json(self) -> str:
        """One line for a worker."""
        return json.dumps(
            {
                "source": os.fsencode(self.source).hex(),
                "work": os.fsencode(self.work).hex(),
                "format": self.format,
                "image": self.image.model_dump(mode="json"),
                "class_names": list(self.class_names),
                "fail_on_bad": self.fail_on_bad,
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Job:
        """The inverse of `to_json`."""
        values: dict[str, Any] = json.loads(text)
        return cls(
            os.fsdecode(bytes.fromhex(values["source"])),
            os.fsdecode(bytes.fromhex(values["work"])),
            values["format"],
            ImageOptions(**values["image"]),
            tuple(values["class_names"]),
            values["fail_on_bad"],
        )


@dataclass(frozen=True, slots=True)
class UnitFiles:
    """Names of a unit's files in the work folder."""

    content: Path
    """The shard, or a batch's values."""
    ledger: Path
    """Its ledger."""
    outcomes: Path
    """Lines of `outcomes.jsonl` for its files."""

    @classmethod
    def of(cls, work: Path, split: str, number: int) -> UnitFiles:
        """The files of unit `number` of a split."""
        stem = f"{split}-{number:05d}"
        return cls(work / f"{stem}.unit", work / f"{stem}.ledger", work / f"{stem}.outcomes")

    def remove(self) -> None:
        """Removes what there is of them."""
        for path in (self.content, self.ledger, self.outcomes):
            path.unlink(missing_ok=True)


#: Called with files and source bytes done since the last call and, before a file is read, its path (or None).
Report = Callable[[int, int, bytes | None], None]


def write_unit(
    job: Job, worklist: Worklist, unit: Unit, report: Report, *, name_each: bool = False
) -> tuple[UnitResult, Finished | None]:
    """Writes one unit; its files appear under their names when they are whole.

    Args:
        job: what all units share.
        worklist: the split's candidates.
        unit: which of them.
        report: told about progress now and then.
        name_each: report every path before its file is read, to learn which one a worker dies of.

    Returns:
        What was written, and the open unit file for syncing; None where every file was rejected.

    Raises:
        SourceChanged: a file is not what it was when the source was scanned.
        SourceError: a file was rejected and the job is to fail then.
        OSError: the unit cannot be written.
    """
    files = UnitFiles.of(Path(job.work), unit.split, unit.number)
    partial = files.content.with_name(f".{files.content.name}.{os.getpid()}.part")
    writer = get_writable_format(job.format).writer(
        partial, class_names=job.class_names, raw_height_width=job.raw_height_width
    )
    ledger = LedgerBuilder()
    outcomes: list[str] = []
    classes: dict[int, list[int]] = {}
    records = rejected = transcoded = 0
    root = os.open(job.source, os.O_RDONLY | os.O_DIRECTORY)
    try:
        files_done = bytes_done = 0
        due = time.monotonic() + REPORT_SECONDS
        for candidate in worklist.candidates(unit.first, unit.end):
            if name_each:
                report(0, 0, candidate.path)
            content = read_source(root, candidate)
            picture = content if isinstance(content, Rejected) else decide(content, job.image)
            count = classes.setdefault(candidate.label, [0, 0, 0, 0])
            if isinstance(picture, Picture):
                record = StoredRecord(
                    picture.image,
                    candidate.label,
                    candidate.path,
                    candidate.index,
                    picture.orientation,
                    picture.height,
                    picture.width,
                )
                placed = writer.add(record)
                ledger.add(record, offset=placed.offset, length=placed.length, crc=placed.crc)
                count[0] += 1
                count[1] += len(picture.image)
                records += 1
                if picture.transcoded is not None:
                    transcoded += 1
                    count[3] += 1
                    outcomes.append(_outcome(candidate.path, "transcoded", picture.transcoded))
            else:
                if job.fail_on_bad:
                    raise SourceError(
                        f"{printable(candidate.path)} cannot be stored: {picture.reason} ({picture.detail}); "
                        "leave out --on-bad fail to skip such files"
                    )
                rejected += 1
                count[2] += 1
                outcomes.append(_outcome(candidate.path, "rejected", picture.reason))
            files_done += 1
            bytes_done += candidate.bytes
            if time.monotonic() >= due:
                report(files_done, bytes_done, None)
                files_done = bytes_done = 0
                due = time.monotonic() + REPORT_SECONDS
        report(files_done, bytes_done, None)
        ledger_crc, ledger_bytes = _save(files.ledger, ledger)
        _save_text(files.outcomes, outcomes)
        finished = None
        if records:
            finished = writer.finish()
            partial.replace(files.content)
        else:
            writer.abandon()
    except BaseException:
        writer.abandon()
        raise
    finally:
        os.close(root)
    result = UnitResult(
        split=unit.split,
        number=unit.number,
        records=records,
        rejected=rejected,
        transcoded=transcoded,
        file_bytes=finished.bytes if finished else 0,
        file_crc=finished.crc if finished else 0,
        ledger_bytes=ledger_bytes,
        ledger_crc=ledger_crc,
        classes={str(label): tuple(count) for label, count in sorted(classes.items())},  # type: ignore[misc]
    )
    return result, finished


def read_source(root: int, candidate: Candidate) -> bytes | Rejected:
    """All bytes of a candidate's file, or why they cannot be read.

    Args:
        root: descriptor of the source folder.
        candidate: as scanned.

    Raises:
        SourceChanged: the file is gone, or has another size or time of change than when it was scanned.
    """
    try:
        # Not to hang on a pipe that took the file's place; for files the flag means nothing.
        descriptor = os.open(candidate.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=root)
    except OSError as problem:
        if problem.errno == errno.ENOENT and candidate.mtime_ns:
            raise SourceChanged(_changed(candidate, "is gone")) from None
        return Rejected("unreadable", problem.strerror or str(problem))
    try:
        found = os.fstat(descriptor)
        if found.st_size != candidate.bytes or found.st_mtime_ns != candidate.mtime_ns:
            if not candidate.mtime_ns:
                raise SourceChanged(_changed(candidate, "was a link to nowhere and is a file now"))
            raise SourceChanged(
                _changed(candidate, f"had {candidate.bytes} bytes and has {found.st_size}, or was written to")
            )
        content = read_file(descriptor, found)
        if not isinstance(content, Rejected) and len(content) < found.st_size:
            raise SourceChanged(_changed(candidate, "became shorter while it was read"))
        return content
    except OSError as problem:
        return Rejected("unreadable", problem.strerror or str(problem))
    finally:
        os.close(descriptor)


def read_file(descriptor: int, status: os.stat_result) -> bytes | Rejected:
    """All bytes of an open file, fewer when it became shorter; or why they are not wanted, and then none are read.

    Args:
        descriptor: open for reading, at its beginning.
        status: of the descriptor.

    Raises:
        OSError: it cannot be read.
    """
    if not stat.S_ISREG(status.st_mode):
        return Rejected("unreadable", "not a regular file")
    if status.st_size > MAX_FILE_BYTES:
        return Rejected("unreadable", f"more than {MAX_FILE_BYTES:,} bytes")
    content = os.read(descriptor, status.st_size)
    return content if len(content) == status.st_size else _read_rest(descriptor, content, status.st_size)


def _read_rest(descriptor: int, content: bytes, size: int) -> bytes:
    # Network file systems may give less than was asked for.
    pieces = [content]
    left = size - len(content)
    while left and (piece := os.read(descriptor, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _changed(candidate: Candidate, how: str) -> str:
    return (
        f"{printable(candidate.path)} {how} since the source was scanned; let the source rest and run again "
        "(with --overwrite to start anew)"
    )


def _outcome(path: bytes, outcome: str, reason: str) -> str:
    return json.dumps({"path": as_text(path), "outcome": outcome, "reason": reason}, ensure_ascii=False)


def _save(path: Path, ledger: LedgerBuilder) -> tuple[int, int]:
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    crc, size = ledger.save(partial)
    partial.replace(path)
    return crc, size


def _save_text(path: Path, lines: list[str]) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    partial.replace(path)
