"""Whether a destination may be written, and what the operating system refuses there, said in one sentence each."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from dataio.converters.manifest import MANIFEST, WORK_FOLDER, Manifest
from dataio.errors import DataDamaged, DataioError, DataNotFound, DestinationError

#: Too many open files, in this process and in all of the machine.
_TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)


@contextlib.contextmanager
def destination_errors(destination: Path) -> Iterator[None]:
    """Turns every OSError from within into a DestinationError that names the file, the cause and what to do.

    Raises:
        DestinationError: in place of an OSError that is not one of ours already.
    """
    try:
        yield
    except OSError as problem:
        if isinstance(problem, DataioError):
            raise
        where = destination if problem.filename is None else os.fsdecode(problem.filename)
        remedy = "what is finished is kept: remove the cause and run the same command again"
        if problem.errno in _TOO_MANY_FILES:
            remedy = "use fewer --workers, or raise the limit of open files (`ulimit -n`)"
        elif problem.errno == errno.ENAMETOOLONG:
            remedy = "choose a shorter name"
        raise DestinationError(f"{where}: {problem.strerror or problem}; {remedy}") from problem


def check_destination(source: Path, destination: Path, overwrite: bool) -> list[str]:
    """Refuses a destination that is something else; returns the files of the dataset that is to be replaced."""
    if destination.exists() and not destination.is_dir():
        raise DestinationError(f"{destination}: is not a folder")
    # Not Path.resolve, which takes a loop of links for a bug.
    inside, outside = Path(os.path.realpath(destination)), Path(os.path.realpath(source))
    if inside == outside or outside in inside.parents:
        raise DestinationError(f"{destination}: lies inside the source {source}; choose a folder outside it")
    if not destination.exists():
        return []
    if (destination / MANIFEST).exists():
        if not overwrite:
            raise DestinationError(f"{destination}: holds a finished dataset; use --overwrite to replace it")
        try:
            return [entry.name for entry in Manifest.open(destination).all_files()]
        except (DataDamaged, DataNotFound):
            return []
    if not (destination / WORK_FOLDER).exists() and any(destination.iterdir()):
        raise DestinationError(f"{destination}: is not empty and holds no dataset of dataio; choose another folder")
    return []
