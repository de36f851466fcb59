"""A sample of a folder of pictures, as a folder of links: the same layout, nothing copied."""

from __future__ import annotations

import os
from pathlib import Path

from dataio.errors import DestinationError


def link_sample(source: Path, destination: Path, *, most: int) -> tuple[int, int]:
    """Fills `destination` with links to at most `most` pictures of `source`, evenly spread over splits and classes.

    Args:
        source: a folder that `dataio convert` takes.
        destination: a folder that does not exist yet.
        most: pictures to take at most; every class keeps at least one.

    Returns:
        (pictures linked, pictures there are).

    Raises:
        SourceError: no layout, or no pictures, that could be converted.
        DestinationError: the links cannot be made.
    """
    from dataio.converters.scan import scan_folder

    scanned = scan_folder(source)
    total = sum(len(candidates) for candidates in scanned.splits.values())
    taken = 0
    try:
        for candidates in scanned.splits.values():
            # Paths are sorted by class, so every n-th picture is an even share of each class.
            last_label = None
            for position in range(len(candidates)):
                candidate = candidates[position]
                due = (position + 1) * most // total > position * most // total
                if total <= most or due or candidate.label != last_label:
                    _link(source, destination, candidate.path)
                    taken += 1
                last_label = candidate.label
    except OSError as problem:
        raise DestinationError(f"{destination}: cannot link the pictures of {source}: {problem.strerror}") from None
    return taken, total


def _link(source: Path, destination: Path, path: bytes) -> None:
    name = os.fsdecode(path)  # names need not be text; fsdecode keeps every byte
    target = destination / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source.resolve() / name)
