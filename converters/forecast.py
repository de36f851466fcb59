"""What a conversion would give, without doing it: a part of it is really done, in a folder that is then removed.

Records and bytes follow from the share of files that were accepted and from what they took; time from the rate at
which workers went through them, on the disk where the dataset is to lie.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dataio.converters.conversion import ConversionOptions, plan, scan_for
from dataio.converters.destination import check_destination, destination_errors
from dataio.converters.events import Progressed, Written
from dataio.converters.gathering import Gathering, unit_key
from dataio.converters.planning import Planned
from dataio.converters.registry import get_writable_format
from dataio.converters.workers import WorkerPool
from dataio.converters.workfolder import WorkFolder, resume
from dataio.converters.worklist import Unit, Worklist, cut_evenly, stored_order
from dataio.converters.writing import Job
from dataio.machine import usable_cores

#: Seconds for which files are really converted.
SAMPLE_SECONDS = 2.0

#: Bytes of source files in one unit of the sample, where they are stored as they are and where they are made smaller:
#: small, so that the sample ends about when it should, and large enough that what a unit costs beside its bytes
#: (waiting for the disk, the head of an HDF5 file) weighs as little as in the real ones. Source: with 4 MiB for both,
#: forecasts of 865 MB were 40 to 50 % too long for HDF5 and up to 90 % for LMDB.
_UNIT_BYTES, _SHRUNK_UNIT_BYTES = 16 << 20, 4 << 20


@dataclass(frozen=True, slots=True)
class Forecast:
    """What `dataio convert` is expected to give."""

    files: int
    """Candidate files."""
    records: int
    """Pictures stored."""
    bytes: int
    """Bytes of the dataset."""
    seconds: float
    """Wall time."""
    shards: int
    """Shards of all splits, when none of them is empty."""
    free_bytes: int
    """Room where the dataset is to lie."""
    sampled_files: int
    """Files that this rests on."""
    warnings: tuple[str, ...]
    """What a user should know about the source."""


def forecast(
    source: Path,
    destination: Path,
    options: ConversionOptions,
    *,
    labels: Path | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    sample_seconds: float = SAMPLE_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Forecast:
    """Forecasts a conversion with these arguments; leaves nothing behind.

    Args:
        source: as for `convert`.
        destination: as for `convert`; what is written meanwhile lies beside it and is removed.
        options: as for `convert`.
        labels: as for `convert`.
        workers: as for `convert`.
        overwrite: as for `convert`.
        sample_seconds: for how long files are converted.
        clock: seconds.

    Raises:
        SourceError: as `convert`.
        SourceChanged: as `convert`.
        DestinationError: as `convert`.
    """
    began = clock()
    format_ = get_writable_format(options.to)
    with destination_errors(destination):
        check_destination(source, destination, overwrite)
        whole = Path(os.path.realpath(destination))
        near = next(parent for parent in (whole, *whole.parents) if parent.is_dir())
    count = workers or usable_cores()
    with (
        destination_errors(near),
        tempfile.TemporaryDirectory(prefix=".dataio-forecast-", dir=near) as folder,
        WorkFolder(Path(folder) / "sample") as work,
        WorkerPool(count, ahead=3, sync=not format_.gathers) as pool,
    ):
        scanned = scan_for(source, options, labels)
        planned = plan(scanned, options, format_)
        sample = _sample(planned, _UNIT_BYTES if options.image.encoding == "source" else _SHRUNK_UNIT_BYTES)
        gathering = work.gathering(format_, sample)
        resume(work, sample.worklists, {"forecast": True})
        job = Job(str(source.resolve()), str(work.path.resolve()), options.to, options.image, scanned.class_names)
        pool.begin(job)
        planned_seconds = clock() - began
        seen = _convert_some(pool, sample, gathering, sample_seconds, clock)
        waiting_began = clock()
        work.journal.settle()  # units that are in their store are removed by then, and not counted twice
        finishing_began = clock()
        if gathering is not None:
            for split in sorted(seen.splits):
                gathering.finish(split)
        ended = clock()
        taken = sum(path.stat().st_size for path in work.path.rglob("*") if path.suffix in (".unit", ".ledger", ".mdb"))
        free = shutil.disk_usage(near).free
    share = seen.written_files / planned.candidates
    if options.image.encoding == "source":
        share = seen.written_bytes / planned.source_bytes if planned.source_bytes else 1.0
    records = round(planned.candidates * seen.records / seen.written_files)
    shards = len(planned.units) if not format_.gathers else len(planned.worklists)
    rate = seen.bytes / seen.seconds
    # The disk is waited for once; a store is read back as long as it is.
    end_seconds = finishing_began - waiting_began + (ended - finishing_began) / max(share, 1e-9)
    seconds = planned_seconds + seen.start_seconds + planned.source_bytes / rate + end_seconds
    return Forecast(
        planned.candidates, records, round(taken / share), seconds, shards, free, seen.written_files, scanned.warnings
    )


@dataclass(slots=True)
class _Seen:
    """What the sample showed."""

    start_seconds: float = 0.0
    """Until the first word of a worker."""
    seconds: float = 0.0
    """From then on."""
    bytes: int = 0
    """Source bytes gone through in that time."""
    records: int = 0
    """Stored, of whole units."""
    written_files: int = 0
    """Files of whole units."""
    written_bytes: int = 0
    """Source bytes of whole units."""
    splits: set[str] = field(default_factory=set)
    """Those that records were stored of."""


def _sample(planned: Planned, unit_bytes: int) -> Planned:
    """The same candidates in small units and in random order, those of all splits taking turns."""
    units: list[tuple[float, Unit]] = []
    worklists: dict[str, Worklist] = {}
    for split, worklist in planned.worklists.items():
        mixed = worklist.reordered(stored_order(len(worklist), seed=0, split="forecast"))
        worklists[split] = mixed
        sizes = mixed.sizes_in_order()
        ranges = cut_evenly(sizes, max(1, int(sizes.sum()) // unit_bytes))
        units += [(number / len(ranges), Unit(split, number, *range_)) for number, range_ in enumerate(ranges)]
    units.sort(key=lambda item: item[0])
    return Planned(worklists, tuple(unit for _, unit in units), planned.source_bytes, planned.store_bytes)


def _convert_some(
    pool: WorkerPool,
    sample: Planned,
    gathering: Gathering | None,
    seconds: float,
    clock: Callable[[], float],
) -> _Seen:
    seen = _Seen()
    began = clock()
    first: float | None = None
    waiting = deque(enumerate(sample.units))
    sizes = {split: worklist.sizes_in_order() for split, worklist in sample.worklists.items()}
    by_key = {unit_key(unit): unit for unit in sample.units}
    while waiting or pool.unfinished:
        late = first is not None and clock() - first > seconds
        if late:
            waiting.clear()
        # Only as many as the workers hold: what is submitted is also waited for.
        while waiting and pool.unfinished < 2 * pool.workers:
            if gathering is not None and not gathering.may_start(waiting[0][0]):
                break
            pool.submit(waiting.popleft()[1])
        for event in pool.events(0.2):
            if isinstance(event, Progressed):
                if first is None:
                    first = clock()
                    seen.start_seconds = first - began
                seen.bytes += event.bytes
            elif isinstance(event, Written):
                unit = by_key[event.result.key]
                seen.records += event.result.records
                if event.result.records:
                    seen.splits.add(unit.split)
                seen.written_files += event.result.seen
                seen.written_bytes += int(sizes[unit.split][unit.first : unit.end].sum())
                if gathering is not None:
                    gathering.deliver(event.result)
    seen.seconds = max(clock() - (first or began), 1e-9)
    return seen
