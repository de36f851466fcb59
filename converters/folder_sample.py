"""A look at a plain folder that takes a fraction of a second, however large it is.

Class folders are listed in random order until the time is up; what was not reached is estimated from what was. Then
the headers of a few files are read.
"""

from __future__ import annotations

import os
import random
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dataio.converters.imaging import Rejected, decide, ordinary_header
from dataio.converters.kinds import has_picture_suffix
from dataio.converters.names import as_text
from dataio.converters.picture import MAX_FILE_BYTES
from dataio.converters.scan import ONLY_SPLIT, SPLIT_NAMES, scan_folder
from dataio.converters.writing import read_file
from dataio.data import Split
from dataio.jpeg import JpegError, JpegHeader, read_header

#: Seconds for listing folders and for reading headers: together well below the half second that an answer may take.
_LIST_SECONDS, _READ_SECONDS = 0.15, 0.08

#: Most files whose headers are read, and bytes of each that are read first.
_MOST_FILES, _HEAD_BYTES = 200, 16 << 10

#: Larger files whose beginning does not tell what they are, are not looked at: reading one alone could take longer than
#: the answer may.
_MOST_BYTES = 64 << 20


@dataclass(slots=True)
class FolderSample:
    """What was seen of a folder."""

    class_names: tuple[str, ...]
    """All classes; the first level is always listed whole."""
    splits: dict[str, Split] = field(default_factory=dict)
    """Counted where `complete`, else estimated."""
    complete: bool = True
    """Whether every folder was listed."""
    classes_listed: int = 0
    """Class folders that were listed, splits taken together."""
    looked_at: int = 0
    """Files that were opened."""
    heights: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Pixels and bytes of the files that would be stored as they are."""
    progressive: int = 0
    gray: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Files that would be rejected, by reason."""
    transcoded: Counter[str] = field(default_factory=Counter)
    """Files that would be transcoded, by what they are."""


def sample_folder(path: Path, *, clock: Callable[[], float] = time.monotonic) -> FolderSample:
    """What a quick look at the folder `path` shows.

    Raises:
        SourceError: it holds no pictures in a layout that is known.
    """
    root = os.fsencode(path)
    top = sorted(_folders(root))
    has_splits = bool(top) and {name.lower() for name in top} <= SPLIT_NAMES
    groups = {name.lower().decode(): name + b"/" for name in top} if has_splits else {ONLY_SPLIT: b""}
    folders = {split: sorted(_folders(root + b"/" + prefix)) for split, prefix in groups.items()}
    names = sorted({name for some in folders.values() for name in some})
    sample = FolderSample(tuple(as_text(name) for name in names))
    chance = random.Random(0)
    until = clock() + _LIST_SECONDS
    kept: list[tuple[bytes, int]] = []
    total = 0
    for split, some in folders.items():
        order = chance.sample(some, len(some))
        # Every split gets its share of the time.
        share = until if split == list(folders)[-1] else clock() + _LIST_SECONDS / len(folders)
        files = size = listed = 0
        for name in order:
            for file, bytes_ in _pictures(root + b"/" + groups[split] + name):
                files += 1
                size += bytes_
                total += 1
                if len(kept) < _MOST_FILES:
                    kept.append((file, bytes_))
                elif (slot := chance.randrange(total)) < _MOST_FILES:
                    kept[slot] = (file, bytes_)
                if files % 256 == 0 and clock() > share:
                    break
            listed += 1
            if clock() > share and listed < len(order):
                sample.complete = False
                break
        scale = len(order) / listed if listed else 0
        sample.classes_listed += listed
        sample.splits[split] = Split(round(files * scale), round(files * scale), round(size * scale))
    if not total and sample.complete:
        scan_folder(path)  # says what is wrong with the layout, or finds pictures that only their content shows
    _look(kept, sample, clock)
    return sample


def _look(files: list[tuple[bytes, int]], sample: FolderSample, clock: Callable[[], float]) -> None:
    until = clock() + _READ_SECONDS
    for path, size in files:
        if clock() > until:
            return
        try:
            # Not to hang on a pipe that took the file's place.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                header = _header(descriptor, sample)
            finally:
                os.close(descriptor)
        except (OSError, JpegError):
            sample.rejected["unreadable"] += 1
            sample.looked_at += 1
            continue
        if header is None:
            continue
        sample.heights.append(header.height)
        sample.widths.append(header.width)
        sample.sizes.append(size)
        sample.progressive += header.progressive
        sample.gray += header.components == 1


def _header(descriptor: int, sample: FolderSample) -> JpegHeader | None:
    """The header of a file that would be stored as it is; None for others, which are counted."""
    status = os.fstat(descriptor)
    size = status.st_size
    if stat.S_ISREG(status.st_mode):
        head = os.pread(descriptor, _HEAD_BYTES, 0)
        tail = head[-2:] if len(head) == size else os.pread(descriptor, 2, max(0, size - 2))
        header = ordinary_header(head, tail, size)
        if header is not None:
            sample.looked_at += 1
            return header
        if _MOST_BYTES < size <= MAX_FILE_BYTES:
            return None
    sample.looked_at += 1
    content = read_file(descriptor, status)
    decided = content if isinstance(content, Rejected) else decide(content)
    if isinstance(decided, Rejected):
        sample.rejected[decided.reason] += 1
        return None
    if decided.transcoded:
        sample.transcoded[decided.transcoded] += 1
        return None
    return read_header(decided.image)


def _folders(path: bytes) -> list[bytes]:
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if not entry.name.startswith(b".") and entry.is_dir()]


def _pictures(path: bytes) -> Iterator[tuple[bytes, int]]:
    """(path, bytes) of the files below a folder that have a picture's name."""
    stack, seen = [path], set()
    while stack:
        folder = stack.pop()
        try:
            found = os.stat(folder)  # noqa: PTH116 - the name is bytes
            if (found.st_dev, found.st_ino) in seen:
                continue  # a loop of links
            seen.add((found.st_dev, found.st_ino))
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(b"."):
                        continue
                    if entry.is_dir():
                        stack.append(entry.path)
                    elif has_picture_suffix(entry.name) and (size := _candidate_bytes(entry)) is not None:
                        yield entry.path, size
        except OSError:
            continue  # gone, or not ours to read; conversion would name it


def _candidate_bytes(entry: os.DirEntry[bytes]) -> int | None:
    """Size of a file, 0 for a link to nowhere, None for pipes, sockets and devices: they are no candidates."""
    try:
        found = entry.stat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else None
