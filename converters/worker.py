"""A worker process: takes units as lines of JSON on one pipe, writes them, and reports as lines of JSON on another.

Never a `multiprocessing` child, and a fork only where nothing but libraries is there (see `groups`): no `__main__`
of the user's run again, and nothing but text between the two. It ends when its pipe does.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from dataio.converters.worklist import Unit, Worklist
from dataio.converters.writing import Job, Report, UnitFiles, write_unit
from dataio.errors import DataioError

#: Exit code of a group that could not fork all its workers. Source: EX_TEMPFAIL of BSD's sysexits.h.
CANNOT_FORK = 75


def main(pipes: Sequence[tuple[int, int]]) -> None:
    """Forks a worker for each pair of pipes (in, out); says on stdout which of them ended, and how.

    Forking here, where nothing but libraries was loaded and no thread runs, loads them once for all workers.
    """
    workers = set()
    for number, (given, told) in enumerate(pipes):
        try:
            pid = os.fork()
        except OSError:
            # Those that are running end when their pipes do.
            sys.exit(CANNOT_FORK)
        if not pid:
            for other in (descriptor for pair in pipes[number + 1 :] for descriptor in pair):
                os.close(other)
            _be_worker(given, told)
        workers.add(pid)
        # Told here and not by the worker: one that hangs from its first moment on can be ended alone.
        with contextlib.suppress(BrokenPipeError):
            os.write(told, json.dumps({"pid": pid}).encode() + b"\n")
        # Only the worker may hold its ends: the parent learns from their closing that it is gone.
        os.close(given)
        os.close(told)
    while workers:
        pid, status = os.wait()
        workers.discard(pid)
        with contextlib.suppress(BrokenPipeError):  # the parent is gone, and nobody asks
            os.write(1, b"%d %d\n" % (pid, os.waitstatus_to_exitcode(status)))


def _be_worker(given: int, told: int) -> NoReturn:
    code = 1
    try:
        # Whatever a library prints must not end up among the lines of the group.
        os.dup2(2, 1)
        with (
            os.fdopen(given, "r", encoding="utf-8") as lines,
            os.fdopen(told, "w", encoding="utf-8", buffering=1) as out,
        ):
            _serve(lines, out)
        code = 0
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the parent went away, or is ending us
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _serve(lines: IO[str], out: IO[str]) -> None:
    lock = threading.Lock()

    def say(**message: Any) -> None:
        with lock:
            out.write(json.dumps(message) + "\n")

    first = lines.readline()
    if not first:
        return
    job = Job.from_json(first)
    worklists: dict[str, Worklist] = {}
    syncing = _Syncing(say)
    for line in lines:
        task = json.loads(line)
        unit = Unit(**task["unit"])
        try:
            if unit.split not in worklists:
                worklists[unit.split] = Worklist.load(worklist_path(Path(job.work), unit.split))
            result, finished = write_unit(job, worklists[unit.split], unit, _reporter(say), name_each=task["name_each"])
        except DataioError as problem:
            say(failed=str(problem), kind=type(problem).__name__)
            continue
        except OSError as problem:
            say(failed=_disk_trouble(job, problem), kind="DestinationError")
            continue
        except Exception:
            say(failed=traceback.format_exc(), kind="bug")
            continue
        say(written=result.to_dict())
        files = UnitFiles.of(Path(job.work), unit.split, unit.number)
        if finished is None:
            syncing.add(unit, None, files)
        elif task["sync"]:
            syncing.add(unit, finished.descriptor, files)
        else:
            # The content is on its way into a store, which is synced; its ledger and outcomes are kept to the end.
            os.close(finished.descriptor)
            syncing.add(unit, None, files)
    syncing.end()


def worklist_path(work: Path, split: str) -> Path:
    """Where the worklist of a split lies in the work folder."""
    return work / f"{split}.worklist"


def _reporter(say: Any) -> Report:
    def report(files: int, size: int, at: bytes | None) -> None:
        if at is None:
            say(files=files, bytes=size)
        else:
            say(at=at.hex())

    return report


def _disk_trouble(job: Job, problem: OSError) -> str:
    return (
        f"writing in {job.work}: {problem.strerror or problem}; what is finished is kept: "
        "make room and run the same command again"
    )


class _Syncing:
    """Waits for the disk in a thread of its own, while the next unit is being written."""

    def __init__(self, say: Any) -> None:
        self._say = say
        self._waiting: queue.SimpleQueue[tuple[Unit, int | None, UnitFiles] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, unit: Unit, descriptor: int | None, files: UnitFiles) -> None:
        """Syncs the unit's files, then says so if its content (`descriptor`) is among them."""
        self._waiting.put((unit, descriptor, files))

    def end(self) -> None:
        """Waits for all of it."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            unit, descriptor, files = item
            try:
                if descriptor is not None:
                    os.fsync(descriptor)
                    os.close(descriptor)
                for path in (files.ledger, files.outcomes):
                    sync_path(path)
                if descriptor is not None:
                    self._say(synced=[unit.split, unit.number])
            except BrokenPipeError:
                return
            except OSError as problem:
                with contextlib.suppress(BrokenPipeError):
                    self._say(failed=f"syncing {files.content}: {problem.strerror}", kind="DestinationError")


def sync_path(path: Path) -> None:
    """Waits until the disk has a file's bytes, or a folder's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
