"""The entry point: from a started interpreter to an exit code, whatever happens on the way.

It imports nothing of weight, so that an interrupt while the command line is being imported ends in one line too.
"""

from __future__ import annotations

import errno
import os
import signal
import sys


def main() -> None:
    """Runs the command line; `dataio` and `python -m dataio` call it."""
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        # Class names and paths may hold letters that the terminal's encoding lacks; they must not end a run.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        sys.exit(_run())
    except KeyboardInterrupt:
        _say("interrupted")
        sys.exit(128 + signal.SIGINT)


def _run() -> int:
    from dataio.errors import DataioError, LimitExceeded

    try:
        from dataio.cli.app import make_app

        make_app()()
        sys.stdout.flush()
    except LimitExceeded as problem:
        _say(problem)
        return 3
    except DataioError as problem:
        _say(problem)
        return 1
    except OSError as problem:
        if problem.errno == errno.EPIPE:
            # The reader of our output (`| head`) went away, which is its right.
            _drop_output()
            return 128 + signal.SIGPIPE
        if problem.errno == errno.ENOSPC and problem.filename is None:
            _drop_output()
            _say("cannot write the output: no space left on the device it goes to")
            return 1
        raise
    return 0


def _open_missing_streams() -> None:
    """Opens /dev/null for standard streams that the caller closed: files opened later would take their numbers, and
    what is printed would end up in them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor == 0 else os.O_WRONLY)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def _drop_output() -> None:
    """Sends what is still to be printed nowhere: Python flushes at exit and would complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(problem: object) -> None:
    from dataio.converters.names import one_line

    print(f"dataio: {one_line(str(problem))}", file=sys.stderr)
