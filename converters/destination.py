"""What the operating system refuses while a destination is made or written, said in one sentence and not as a bug."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from dataio.errors import DataioError, DestinationError

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
