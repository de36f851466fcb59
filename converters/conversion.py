"""A folder of pictures in, a dataset out: whole, the same bytes every time, or an error that names what is missing."""

from __future__ import annotations

import json
import shutil
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from dataio import __version__
from dataio.converters.assembly import assemble
from dataio.converters.destination import check_destination, destination_errors
from dataio.converters.events import Progressed, Synced, Written
from dataio.converters.format import WritableFormat
from dataio.converters.gathering import Gathering, unit_key
from dataio.converters.imaging import ImageOptions
from dataio.converters.journal import UnitResult
from dataio.converters.manifest import Manifest
from dataio.converters.planning import Planned, plan_units
from dataio.converters.publishing import is_prepared, prepare, publish
from dataio.converters.registry import get_writable_format
from dataio.converters.scan import Scan
from dataio.converters.source import scan_source
from dataio.converters.workers import QUIET_SECONDS, WorkerPool
from dataio.converters.workfolder import WorkFolder, resume, usable_units
from dataio.converters.writing import Job, UnitFiles
from dataio.errors import DestinationError, LimitExceeded, SourceError
from dataio.machine import usable_cores
from dataio.records import Record


class ConversionOptions(Record):
    """Whatever decides the bytes of a converted dataset, beside its source."""

    to: Literal["tfrecord", "hdf5", "lmdb"]
    """The format."""
    image: ImageOptions = ImageOptions()
    """How pictures are stored, and which are not."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of the stored order."""
    shuffle: bool = True
    """Store records in a random order, the same for the same seed; False stores them in path order."""
    shards: Annotated[int, Field(ge=1, le=99_999)] | None = None
    """Shards a split; None makes shards of about `unit_bytes`. LMDB has one file a split and takes none."""
    unit_bytes: Annotated[int, Field(ge=1)] | None = None
    """Bytes of pictures that one shard holds, about; for LMDB one batch. None takes the format's: 128 and 32 MiB."""
    split: str | None = None
    """Shares of splits to make, such as `train=0.9,val=0.1`; None keeps those that the folders make."""
    labelled: bool = False
    """Whether labels came from a CSV file and not from folders; set by `convert`."""
    split_like: Literal["keras"] | None = None
    """`keras`: divide exactly as Keras's `validation_split` does."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a conversion is."""

    files: int
    """Source files done, those of an earlier run included."""
    bytes: int
    """Their bytes."""
    total_files: int
    """All candidates."""
    total_bytes: int
    """Their bytes."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A finished conversion."""

    manifest: Manifest
    """What the destination holds."""
    seconds: float
    """Wall time of this run."""
    resumed_units: int
    """Units that an earlier run had written."""
    warnings: tuple[str, ...]
    """What a user should know about the source."""


@dataclass(slots=True)
class Run:
    """State of one conversion while it runs."""

    planned: Planned
    done: dict[tuple[str, int], UnitResult]
    report: Callable[[Progress], None]
    progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        files = sum(result.seen for result in self.done.values())
        total, total_bytes = self.planned.candidates, self.planned.source_bytes
        # Bytes of finished units are known by share only; progress needs no more.
        self.progress = Progress(files, total_bytes * files // total, total, total_bytes)
        self.report(self.progress)

    def add(self, files: int, size: int) -> None:
        was = self.progress
        self.progress = Progress(was.files + files, was.bytes + size, was.total_files, was.total_bytes)
        self.report(self.progress)


def convert(
    source: Path,
    destination: Path,
    options: ConversionOptions,
    *,
    labels: Path | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    fail_on_bad: bool = False,
    max_bad: float | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
    quiet_seconds: float = QUIET_SECONDS,
) -> Converted:
    """Converts the pictures below `source` into a dataset in the folder `destination`.

    A run that was stopped, however, is taken up by the next with the same options: only units that were not whole are
    written again.

    Args:
        source: the folder of pictures.
        destination: a new or empty folder, or an unfinished one.
        options: format and contents.
        labels: a CSV file of `path,label`; None takes class folders.
        workers: processes; None takes the cores that this process may use.
        overwrite: replace a finished dataset there, or start an unfinished one anew. The old one stays until the new
            one is whole.
        fail_on_bad: stop at the first file that cannot be stored.
        max_bad: largest share of rejected files, in [0, 1]; above it nothing is published.
        report: told about progress several times a second.
        quiet_seconds: silence after which a worker counts as hung.

    Raises:
        SourceError: nothing there to convert, or a file that cannot be stored with `fail_on_bad`.
        SourceChanged: the source differs from what an unfinished run saw, or changes while it is read.
        DestinationError: the destination exists, is in use, is full, or cannot be written.
        LimitExceeded: more than `max_bad` of the files were rejected.
    """
    began = time.monotonic()
    options = options.replace(labelled=labels is not None)
    format_ = get_writable_format(options.to)
    gathers = format_.gathers
    count = workers or usable_cores()
    with destination_errors(destination):
        replaced = check_destination(source, destination, overwrite)
    with destination_errors(destination), WorkFolder(destination) as work:
        if overwrite:
            work.forget()
        with WorkerPool(count, quiet_seconds=quiet_seconds, ahead=3 if gathers else 1, sync=not gathers) as pool:
            scanned = scan_for(source, options, labels)
            planned = plan(scanned, options, format_)
            settings = _settings(options, scanned)
            if not is_prepared(work.path):
                _check_space(work, planned, format_)
            earlier = resume(work, planned.worklists, settings)
            if not is_prepared(work.path):
                gathering = work.gathering(format_, planned)
                run = Run(planned, usable_units(work, earlier, gathering), report)
                resumed = len(run.done)
                if fail_on_bad:
                    _refuse_bad(work.path, run)
                job = Job(
                    str(source.resolve()),
                    str(work.path.resolve()),
                    options.to,
                    options.image,
                    scanned.class_names,
                    fail_on_bad,
                )
                pool.begin(job)
                write_all(work, pool, run, gathering, max_bad)
                _check_bad(run, max_bad)
                manifest, moves = assemble(
                    work.path,
                    format_,
                    planned,
                    run.done,
                    scanned,
                    options=settings["options"],
                    raw_height_width=options.image.size,
                    gathering=gathering,
                )
                prepare(work.path, manifest, moves, replaced)
            else:
                resumed = len(earlier.written)
        manifest = publish(work.path, destination)
        work.remove()
    return Converted(manifest, time.monotonic() - began, resumed, scanned.warnings)


def scan_for(source: Path, options: ConversionOptions, labels: Path | None) -> Scan:
    """The source as these options divide it."""
    if options.labelled and labels is None:
        raise SourceError(f"{source}: the dataset was converted with a labels file; name it with --labels")
    return scan_source(source, labels=labels, split=options.split, split_like=options.split_like, seed=options.seed)


def plan(scanned: Scan, options: ConversionOptions, format_: WritableFormat) -> Planned:
    """The units of a conversion with these options."""
    return plan_units(
        scanned,
        options.image,
        seed=options.seed,
        shuffle=options.shuffle,
        shards=None if format_.gathers else options.shards,
        unit_bytes=options.unit_bytes or format_.unit_bytes,
    )


def write_all(
    work: WorkFolder, pool: WorkerPool, run: Run, gathering: Gathering | None, max_bad: float | None = None
) -> None:
    """Writes the units that are not done yet and notes each in the journal."""
    waiting = deque((number, unit) for number, unit in enumerate(run.planned.units) if unit_key(unit) not in run.done)
    rejected = sum(result.rejected for result in run.done.values())

    def hear(event: Progressed | Written | Synced) -> None:
        nonlocal rejected
        if isinstance(event, Progressed):
            run.add(event.files, event.bytes)
        elif isinstance(event, Synced):
            work.journal.append(synced=[event.split, event.number])
        else:
            # After a crash of the machine a unit counts by its later line alone: this one need not wait for the disk.
            work.journal.note(written=event.result.to_dict())
            run.done[event.result.key] = event.result
            if gathering is not None:
                gathering.deliver(event.result)
            rejected += event.result.rejected
            if max_bad is not None and rejected > max_bad * run.planned.candidates:
                _check_bad(run, max_bad)

    while waiting or pool.unfinished:
        while waiting and (gathering is None or gathering.may_start(waiting[0][0])):
            pool.submit(waiting.popleft()[1])
        for event in pool.events(0.5):
            hear(event)
    for event in pool.drain():
        hear(event)


def _refuse_bad(work: Path, run: Run) -> None:
    """A run that is to fail on bad files fails on those that an earlier run met, too."""
    for result in run.done.values():
        if result.rejected:
            lines = UnitFiles.of(work, result.split, result.number).outcomes.read_text(encoding="utf-8").splitlines()
            first = next(outcome for outcome in map(json.loads, lines) if outcome["outcome"] == "rejected")
            raise SourceError(
                f"{first['path']} cannot be stored: {first['reason']}; leave out --on-bad fail to skip such files"
            )


def _check_bad(run: Run, max_bad: float | None) -> None:
    rejected = sum(result.rejected for result in run.done.values())
    if max_bad is not None and rejected > max_bad * run.planned.candidates:
        raise LimitExceeded(
            f"{rejected} of {run.planned.candidates} files were rejected, more than --max-bad {max_bad:.3%} allows; "
            "nothing was published. Finished work is kept: run again with a higher limit to go on"
        )


def _settings(options: ConversionOptions, scanned: Scan) -> dict[str, Any]:
    return {
        "tool": f"dataio {__version__}",
        "options": options.model_dump(mode="json"),
        "class_names": list(scanned.class_names),
    }


def _check_space(work: WorkFolder, planned: Planned, format_: WritableFormat) -> None:
    there = sum(path.stat().st_size for path in work.path.rglob("*") if path.is_file())
    needed = expected_bytes(planned, format_) - there
    free = shutil.disk_usage(work.path).free
    if needed > free:
        raise DestinationError(
            f"{work.path.parent}: about {needed / 1e9:.2f} GB are needed and {free / 1e9:.2f} GB are free; make room, "
            "or store smaller pictures (--encoding jpeg --short-side 256)"
        )


def expected_bytes(planned: Planned, format_: WritableFormat) -> int:
    """Bytes that a conversion is expected to take."""
    return planned.store_bytes + format_.record_overhead_bytes * planned.candidates
