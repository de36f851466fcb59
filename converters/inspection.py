"""What lies at a path, told in a moment: format, splits, classes, sizes of pictures, and problems seen at a glance.

Nothing here imports TensorFlow or reads much: descriptions and ledgers of datasets, and for plain folders as much as a
fraction of a second allows. What was only sampled says so. `verification.verify` is the thorough check.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dataio.converters.folder_sample import sample_folder
from dataio.converters.format import stored_image
from dataio.converters.ledger import Ledger
from dataio.converters.manifest import WORK_FOLDER, Manifest, ShardEntry
from dataio.converters.registry import check_exists, find_format, get_format
from dataio.data import Split
from dataio.errors import DataDamaged
from dataio.jpeg import JpegError, read_header

#: Records of each ledger whose sizes are looked at, and pictures in all whose headers are read.
_MOST_ROWS, _MOST_HEADERS = 100_000, 100

#: Largest ledger whose bytes are compared with their checksum: that of about half a million records. Source: 0.1 s a
#: ledger from a disk of 500 MB/s.
_MOST_LEDGER_BYTES = 48 << 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """Smallest, middle and largest of some quantity."""

    min: int
    median: int
    max: int

    @classmethod
    def of(cls, values: npt.NDArray[Any] | Sequence[int]) -> Sizes | None:
        """Of these values; None when there are none."""
        if not len(values):
            return None
        array = np.asarray(values, np.int64)
        return cls(int(array.min()), int(np.median(array)), int(array.max()))


@dataclass(frozen=True, slots=True)
class Pictures:
    """What the pictures that were looked at are like."""

    looked_at: int
    """Pictures whose size and bytes are known."""
    height: Sizes | None
    """Pixels as stored."""
    width: Sizes | None
    """Pixels as stored."""
    bytes: Sizes | None
    """Bytes of a picture as stored."""
    headers: int
    """Pictures whose header was read for what follows."""
    progressive: float | None
    """Share of progressive JPEGs: these take longer to decode and cannot be cropped while decoding."""
    gray: float | None
    """Share of pictures with one component."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What `dataio inspect` prints."""

    path: str
    format: str
    encoding: str
    splits: dict[str, Split]
    classes: tuple[str, ...]
    pictures: Pictures | None
    """None where no picture can be looked at without reading records (TFDS folders)."""
    sampled: str | None
    """What was not counted but estimated, in words; None where all numbers are exact."""
    problems: tuple[str, ...]
    """What should be looked into, a sentence each."""


def inspect(path: Path) -> Inspection:
    """What lies at `path`.

    Raises:
        DataNotFound: nothing, or nothing that any format knows.
        DataDamaged: a dataset whose description is broken.
        SourceError: a folder without pictures in a layout that is known.
    """
    check_exists(path)
    format_ = find_format(path)
    if format_.name == "folder":
        return _inspect_folder(path)
    if (path / "dataset.json").exists():
        return _inspect_converted(path, Manifest.open(path))
    data = get_format(format_.name).open(path)
    return Inspection(str(path), data.format, data.encoding, dict(data.splits), data.class_names, None, None, ())


def _inspect_converted(path: Path, manifest: Manifest) -> Inspection:
    problems = []
    if (path / WORK_FOLDER).exists():
        problems.append("an unfinished run that is to replace or repair this dataset lies in it")
    splits: dict[str, Split] = {}
    shards: list[ShardEntry] = []
    for name, split in manifest.splits.items():
        splits[name] = Split(split.records, len(split.shards), sum(shard.file.bytes for shard in split.shards))
        shards += split.shards
        if split.rejected:
            problems.append(
                f"split {name}: {split.rejected} of {split.seen} files were rejected when it was converted; "
                "outcomes.jsonl names them"
            )
        empty = sum(not entry.records for entry in split.classes)
        if empty:
            problems.append(f"split {name}: {empty} of {len(split.classes)} classes have no pictures")
    for entry in manifest.all_files():
        try:
            status = (path / entry.name).stat()
        except OSError as problem:
            problems.append(f"{entry.name}: {problem.strerror}")
            continue
        size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            problems.append(f"{entry.name}: is not a file")
        elif size != entry.bytes:
            problems.append(f"{entry.name}: {size} bytes where {entry.bytes} were written")
    pictures, sampled = _pictures_of(path, shards, problems)
    return Inspection(
        str(path),
        manifest.format,
        manifest.encoding,
        splits,
        manifest.class_names,
        pictures,
        sampled,
        tuple(problems),
    )


def _pictures_of(path: Path, shards: Sequence[ShardEntry], problems: list[str]) -> tuple[Pictures | None, str | None]:
    heights, widths, sizes = [], [], []
    headers = progressive = gray = looked_at = 0
    records = sum(shard.records for shard in shards)
    # A few shards tell as much as all of them, because records are stored in random order.
    chosen = [shards[position] for position in np.unique(np.linspace(0, len(shards) - 1, 8).astype(int)).tolist()]
    for shard in chosen:
        try:
            is_small = shard.ledger.bytes <= _MOST_LEDGER_BYTES
            ledger = Ledger.load(path / shard.ledger.name, shard.ledger if is_small else None)
            rows = ledger.rows[:_MOST_ROWS]
            heights.append(np.array(rows["height"], np.int64))
            widths.append(np.array(rows["width"], np.int64))
            sizes.append(np.array(rows["image_bytes"], np.int64))
            looked_at += len(rows)
            wanted = max(1, _MOST_HEADERS // len(chosen))
            for kind in _headers(path / shard.file.name, ledger, min(wanted, len(ledger))):
                headers += 1
                progressive += kind == "progressive"
                gray += kind == "gray"
        except DataDamaged as problem:
            problems.append(str(problem))
        except OSError:
            continue  # said above, where the sizes of all files are compared
    if not looked_at:
        return None, None
    pictures = Pictures(
        looked_at,
        Sizes.of(np.concatenate(heights)),
        Sizes.of(np.concatenate(widths)),
        Sizes.of(np.concatenate(sizes)),
        headers,
        progressive / headers if headers else None,
        gray / headers if headers else None,
    )
    return (
        pictures,
        None if looked_at == records else f"sizes of pictures are those of {looked_at} of {records} records",
    )


def _headers(path: Path, ledger: Ledger, count: int) -> list[str]:
    kinds = []
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # not to hang on a pipe
    try:
        for position in range(count):
            try:
                header = read_header(stored_image(descriptor, path, ledger, position))
            except JpegError:
                continue  # pixels, not files
            kinds.append("progressive" if header.progressive else "gray" if header.components == 1 else "other")
    finally:
        os.close(descriptor)
    return kinds


def _inspect_folder(path: Path) -> Inspection:
    sample = sample_folder(path)
    problems = [
        f"{count} of {sample.looked_at} files that were looked at would be rejected: {reason}"
        for reason, count in sample.rejected.items()
    ]
    problems += [
        f"{count} of {sample.looked_at} files that were looked at are {kind} and would be transcoded"
        for kind, count in sample.transcoded.items()
    ]
    headers = len(sample.heights)
    pictures = Pictures(
        headers,
        Sizes.of(sample.heights),
        Sizes.of(sample.widths),
        Sizes.of(sample.sizes),
        headers,
        sample.progressive / headers if headers else None,
        sample.gray / headers if headers else None,
    )
    sampled = None
    if not sample.complete:
        sampled = (
            f"counts and bytes are estimated from {sample.classes_listed} of {len(sample.class_names)} class folders; "
            f"pictures from {headers} files"
        )
    elif headers < sum(split.records for split in sample.splits.values()):
        sampled = f"sizes of pictures and problems are those of {sample.looked_at} files; counts are exact"
    return Inspection(
        str(path), "folder", "jpeg", sample.splits, sample.class_names, pictures, sampled, tuple(problems)
    )
