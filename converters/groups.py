"""The process whose children the workers are: forked from this one where that is safe, else an interpreter of its own.

A fork starts in milliseconds and finds all libraries loaded; an interpreter takes a fifth of a second of one core.
But a fork carries only the thread that forks: locks that other threads hold, TensorFlow's for one, stay locked in it
for ever. So whether others run is counted, by the kernel and right after the fork, when the handlers that libraries
have for it (OpenBLAS ends its threads) have run. The child touches nothing until it is told what was counted.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from dataio.converters import worker

#: What an interpreter of its own runs. Its argv carries no names, so that paths of any bytes reach it as they are, as
#: text.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from dataio.converters.worker import main; main({pipes!r})"

#: Pipes to one worker: (what it reads, what it writes).
Pipes = tuple[int, int]


class Group:
    """A process group of workers and their parent, which says on `told` which of them ended, and how."""

    def __init__(self, pid: int, told: int, process: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        """Of the parent, and of the process group."""
        self.told = told
        """Descriptor that gives a line `pid code` for each worker that ended."""
        self._process = process
        self._code: int | None = None

    def wait(self) -> int:
        """Waits until the parent ended; returns its exit code, negative for a signal."""
        if self._code is None:
            if self._process is not None:
                self._code = self._process.wait()
            else:
                self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def kill(self) -> None:
        """Ends what is still there of it: its processes, and nobody else's."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends it and forgets it."""
        self.kill()
        self.wait()
        os.close(self.told)


def start_group(pipes: Sequence[Pipes]) -> Group:
    """Starts a worker for each pair of pipes; the caller closes its copies of them.

    Raises:
        OSError: the operating system gives no more files or processes.
    """
    return _forked(pipes) or _spawned(pipes)


def _spawned(pipes: Sequence[Pipes]) -> Group:
    read, write = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(path=[p for p in sys.path if isinstance(p, str)], pipes=pipes)],
            stdin=subprocess.DEVNULL,
            stdout=write,
            pass_fds=[descriptor for pair in pipes for descriptor in pair],
            # No worker needs linear algebra, and its threads do not survive a fork.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            process_group=0,
        )
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    return Group(process.pid, read, process)


def _forked(pipes: Sequence[Pipes]) -> Group | None:
    """A fork of this process, or None where threads run that it would lack, or nobody can count them."""
    if not _count_threads():
        return None
    ends: list[int] = []
    try:
        for _ in range(2):
            ends += os.pipe()
        pid = os.fork()
    except OSError:
        for descriptor in ends:
            os.close(descriptor)
        raise
    read, write, wait, go = ends
    if not pid:
        _be_group(pipes, write, wait, go)
    os.close(write)
    os.close(wait)
    is_alone = _count_threads() == 1
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)  # here and there: whoever comes first, it is done before either goes on
    with contextlib.suppress(BrokenPipeError):
        os.write(go, b"1" if is_alone else b"0")
    os.close(go)
    group = Group(pid, read)
    if not is_alone:
        group.wait()
        os.close(read)
        return None
    return group


def _count_threads() -> int:
    """Threads of this process that the kernel knows, Python's and all others; 0 where it does not say."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return 0


def _be_group(pipes: Sequence[Pipes], told: int, wait: int, go: int) -> NoReturn:
    code = 1
    try:
        os.close(go)
        if os.read(wait, 1) != b"1":
            os._exit(0)
        # What is garbage in the parent must not be collected here: it may close numbers that are others' by then.
        gc.freeze()
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(told, 1)
        _close_all_but({0, 1, 2, *(descriptor for pair in pipes for descriptor in pair)})
        # The parent's may be anything, and hold what the parent is still to print.
        sys.stdout = sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        worker.main(pipes)
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _close_all_but(kept: set[int]) -> None:
    """Closes whatever else the parent has open, its lock and the pipes of other workers among it."""
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor not in kept:
            with contextlib.suppress(OSError):  # the one that listed them is gone already
                os.close(descriptor)
