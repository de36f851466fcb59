"""Writes anew what is broken in a dataset, and nothing else, from the source that it was made from.

A broken shard is its unit of the stored order written again; since the same unit is always the same bytes, the result
is compared with the manifest before it takes the broken file's place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dataio.converters.assembly import assemble, source_entry
from dataio.converters.conversion import ConversionOptions, Progress, Run, plan, scan_for, write_all
from dataio.converters.destination import destination_errors
from dataio.converters.format import Damage
from dataio.converters.gathering import Gathering
from dataio.converters.manifest import OUTCOMES, FileEntry, Manifest
from dataio.converters.planning import Planned
from dataio.converters.registry import get_writable_format
from dataio.converters.scan import Scan
from dataio.converters.verification import file_damage, verify
from dataio.converters.worker import sync_path
from dataio.converters.workers import WorkerPool
from dataio.converters.workfolder import WorkFolder, resume, usable_units
from dataio.converters.worklist import Unit
from dataio.converters.writing import Job, UnitFiles
from dataio.errors import DataDamaged, DestinationError, SourceChanged
from dataio.machine import usable_cores


@dataclass(frozen=True, slots=True)
class Repaired:
    """What `repair` did."""

    damages: tuple[Damage, ...]
    """What was broken."""
    files: tuple[str, ...]
    """Names of the files that were written anew; nothing else was touched."""
    seconds: float
    """Wall time, the search for damage included."""


def repair(
    path: Path,
    source: Path,
    *,
    labels: Path | None = None,
    workers: int | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
    report_verifying: Callable[[int, int], None] = lambda done, total: None,
) -> Repaired:
    """Verifies the dataset in `path` and writes its broken files anew from `source`, byte for byte as they were.

    Args:
        path: the dataset's folder.
        source: the folder that it was made from; it must hold the same files.
        labels: the labels file, where it was converted with one.
        workers: processes; None takes the cores that this process may use.
        report: told about progress of writing.
        report_verifying: told about progress of reading, in bytes.

    Raises:
        DataNotFound: no dataset there.
        DataDamaged: the manifest itself is damaged, or what was written anew is not what was there.
        SourceChanged: the source is not the one that the dataset was made from.
        DestinationError: another run is writing there, or it cannot be written.
    """
    began = time.monotonic()
    manifest = Manifest.open(path)
    damages = verify(path, report=report_verifying).damages
    broken = {damage.file for damage in damages}
    if not broken:
        return Repaired((), (), time.monotonic() - began)
    options = ConversionOptions(**manifest.options)
    format_ = get_writable_format(manifest.format)
    count = workers or usable_cores()
    with (
        destination_errors(path),
        WorkFolder(path) as work,
        WorkerPool(count, ahead=3 if format_.gathers else 1, sync=not format_.gathers) as pool,
    ):
        scanned = scan_for(source, options, labels)
        planned = plan(scanned, options, format_)
        if source_entry(planned).sha256 != manifest.source.sha256:
            raise SourceChanged(
                f"{source}: is not the source of {path}: {planned.candidates} files of {planned.source_bytes} bytes "
                f"where {manifest.source.files} of {manifest.source.bytes} were converted, or other names or classes"
            )
        units = _units_to_write(planned, manifest, broken)
        todo = Planned(planned.worklists, units, planned.source_bytes, planned.store_bytes)
        earlier = resume(work, planned.worklists, {"repair": manifest.checksum})
        gathering = work.gathering(format_, todo)
        run = Run(todo, usable_units(work, earlier, gathering), report)
        pool.begin(
            Job(str(source.resolve()), str(work.path.resolve()), manifest.format, options.image, scanned.class_names)
        )
        write_all(work, pool, run, gathering)
        made = _made(work.path, manifest, run, todo, scanned, gathering, broken)
        for name, (content, entry) in made.items():
            _check(work.path, content, entry, name)
        for name, (content, _) in made.items():
            _put(work.path / content, path / name)
        work.remove()
    return Repaired(damages, tuple(made), time.monotonic() - began)


def _units_to_write(planned: Planned, manifest: Manifest, broken: set[str]) -> tuple[Unit, ...]:
    """The units of broken shards; all where the list of outcomes is broken: every file has its say in it."""
    wanted: set[tuple[str, int | None]] = set()
    for name, split in manifest.splits.items():
        for shard in split.shards:
            if shard.file.name in broken or shard.ledger.name in broken:
                wanted.add((name, shard.unit))
    return tuple(
        unit
        for unit in planned.units
        if OUTCOMES in broken or (unit.split, unit.number) in wanted or (unit.split, None) in wanted
    )


def _made(
    work: Path,
    manifest: Manifest,
    run: Run,
    planned: Planned,
    scanned: Scan,
    gathering: Gathering | None,
    broken: set[str],
) -> dict[str, tuple[str, FileEntry]]:
    """Broken file to (name of its new content in the work folder, what it must be)."""
    entries = {entry.name: entry for entry in manifest.all_files()}
    made: dict[str, tuple[str, FileEntry]] = {}
    format_ = get_writable_format(manifest.format)
    if OUTCOMES in broken or gathering is not None:
        whole = {unit.split for unit in planned.units}
        part = Planned(
            {split: worklist for split, worklist in planned.worklists.items() if split in whole},
            planned.units,
            planned.source_bytes,
            planned.store_bytes,
        )
        _, moves = assemble(
            work,
            format_,
            part,
            run.done,
            scanned,
            options=manifest.options,
            raw_height_width=manifest.raw_height_width,
            gathering=gathering,
        )
        made |= {final: (name, entries[final]) for name, final in moves if final in broken and final in entries}
    else:
        for split in manifest.splits.values():
            for shard in split.shards:
                if shard.file.name in broken or shard.ledger.name in broken:
                    files = UnitFiles.of(Path(), _split_of(manifest, shard.file.name), shard.unit or 0)
                    for name, file in ((shard.file.name, files.content), (shard.ledger.name, files.ledger)):
                        if name in broken:
                            made[name] = (file.name, entries[name])
    for name, content in format_.companions(manifest.replace(files=(), checksum="")).items():
        if name in broken:
            (work / f"{name}.final").write_bytes(content)
            made[name] = (f"{name}.final", entries[name])
    return made


def _split_of(manifest: Manifest, name: str) -> str:
    return next(
        split for split, entry in manifest.splits.items() if any(shard.file.name == name for shard in entry.shards)
    )


def _put(content: Path, target: Path) -> None:
    """Moves a file to its final name, in the place of whatever is broken there."""
    try:
        if target.is_dir() and not target.is_symlink():
            target.rmdir()  # only an empty folder may be taken for damage
        target.parent.mkdir(parents=True, exist_ok=True)
        content.replace(target)
        sync_path(target.parent)
    except OSError as problem:
        raise DestinationError(
            f"{target}: cannot be written anew: {problem.strerror}; move away what is there and repeat the repair"
        ) from None


def _check(work: Path, content: str, entry: FileEntry, name: str) -> None:
    found = file_damage(work, entry.replace(name=content))
    if found is not None:
        raise DataDamaged(
            f"{name}: written anew it is not what it was ({found.what}); the source was edited, or another "
            "version of a picture library makes other pictures. Nothing was replaced; convert again with --overwrite"
        )
