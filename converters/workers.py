"""The pool of worker processes: hands out units, listens, and notices when a worker dies or hangs."""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import IO, Any, Self

from dataio import errors
from dataio.converters.events import Event, Progressed, Synced, Written
from dataio.converters.groups import Group, start_group
from dataio.converters.journal import UnitResult
from dataio.converters.names import printable
from dataio.converters.worker import CANNOT_FORK
from dataio.converters.worklist import Unit
from dataio.converters.writing import Job
from dataio.errors import DataioError, DestinationError, SourceError

#: Seconds without a word from a worker with work after which it counts as hung. It speaks several times a second; what
#: can keep it silent is one file: the largest picture allowed takes a slow core some 20 s.
QUIET_SECONDS = 120.0

#: Seconds that loading its libraries may take a worker on a busy machine with a slow disk.
_START_SECONDS = 60.0

#: Seconds for a group to say how one of its workers ended.
_CODE_SECONDS = 5.0


@dataclass(slots=True)
class _Worker:
    group: Group
    """The process that the worker is a child of."""
    stdin: IO[bytes]
    stdout: IO[bytes]
    pid: int | None = None
    """Told by its group as the first word on its pipe."""
    units: deque[Unit] = field(default_factory=deque)
    heard: float = 0.0
    files_done: int = 0
    """Files and bytes reported of the unit at hand; taken back when the worker dies."""
    bytes_done: int = 0
    at: bytes | None = None
    partial: bytes = b""


class WorkerPool:
    """Worker processes for one conversion; a context manager that leaves none behind.

    A worker that dies or says nothing for `quiet_seconds` is replaced and its unit done again, announcing each file;
    when that fails too, the file at hand is named.
    """

    def __init__(self, count: int, *, quiet_seconds: float = QUIET_SECONDS, ahead: int = 1, sync: bool = True) -> None:
        """Starts `count` workers; they load their libraries while the source is scanned.

        Args:
            count: workers.
            quiet_seconds: silence after which a worker counts as hung.
            ahead: units a worker has in hand and before it. More than 1 where the parent may be busy for long.
            sync: whether workers wait for the disk and report `Synced`.
        """
        self._quiet_seconds = quiet_seconds
        self._ahead = ahead
        self._sync = sync
        self._job: Job | None = None
        self._waiting: deque[Unit] = deque()
        self._failures: Counter[tuple[str, int]] = Counter()
        self._selector = selectors.DefaultSelector()
        self._groups: list[Group] = []
        self._codes: dict[int, int] = {}
        self._workers: list[_Worker] = []
        try:
            self._workers = self._start(count)
        except BaseException:
            self.close()
            raise

    def begin(self, job: Job) -> None:
        """Tells the workers what the units have in common."""
        self._job = job
        for worker in self._workers:
            self._send(worker, job.to_json())

    def submit(self, unit: Unit) -> None:
        """Adds a unit; it is written as soon as a worker is free."""
        self._waiting.append(unit)

    @property
    def workers(self) -> int:
        """Workers there are."""
        return len(self._workers)

    @property
    def unfinished(self) -> int:
        """Units submitted and not yet written."""
        return len(self._waiting) + sum(len(worker.units) for worker in self._workers)

    def events(self, timeout_seconds: float) -> Iterator[Event]:
        """Hands out units and yields what workers said since; waits at most `timeout_seconds` for a first word.

        Raises:
            DataioError: what a worker raised, or SourceError for a file that workers die of.
        """
        self._hand_out()
        for key, _ in self._selector.select(timeout_seconds):
            worker: _Worker = key.data
            content = os.read(worker.stdout.fileno(), 1 << 16)
            if not content:
                yield from self._replace(worker, "ended", is_dead=True)
                continue
            worker.heard = time.monotonic()
            *lines, worker.partial = (worker.partial + content).split(b"\n")
            for line in lines:
                yield from self._hear(worker, json.loads(line))
        now = time.monotonic()
        for worker in list(self._workers):
            limit = self._quiet_seconds if worker.pid is not None else max(self._quiet_seconds, _START_SECONDS)
            if worker.units and now - worker.heard > limit:
                yield from self._replace(worker, f"was silent for {limit:.0f} s", is_dead=False)
        self._hand_out()

    def drain(self) -> Iterator[Event]:
        """Lets the workers end and yields their last words."""
        for worker in self._workers:
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.close()
        for worker in self._workers:
            content = worker.partial + worker.stdout.read()
            for line in content.splitlines():
                yield from self._hear(worker, json.loads(line))
        for group in self._groups:
            group.wait()

    def close(self) -> None:
        """Ends the workers, whatever they are doing."""
        for worker in self._workers:
            self._forget(worker)
        self._workers.clear()
        for group in self._groups:
            group.close()
        self._selector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, count: int) -> list[_Worker]:
        """Starts workers that share one group: libraries are loaded once, then the group forks.

        Raises:
            DestinationError: the operating system gives no more files or processes.
        """
        pipes: list[tuple[int, int]] = []
        try:
            for _ in range(2 * count):
                pipes.append(os.pipe())  # noqa: PERF401 - those that were made are closed when one fails
            # Pipes to the workers and pipes from them, by turns.
            theirs = [(given, told) for (given, _), (_, told) in zip(pipes[::2], pipes[1::2], strict=True)]
            group = start_group(theirs)
        except OSError as problem:
            for descriptor in (descriptor for pair in pipes for descriptor in pair):
                os.close(descriptor)
            raise _cannot_start(count, str(problem.strerror)) from problem
        self._groups.append(group)
        for descriptor in (descriptor for pair in theirs for descriptor in pair):
            os.close(descriptor)
        workers = []
        for (_, stdin), (stdout, _) in zip(pipes[::2], pipes[1::2], strict=True):
            worker = _Worker(
                group, os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb", buffering=0), heard=time.monotonic()
            )
            self._selector.register(worker.stdout, selectors.EVENT_READ, worker)
            if self._job is not None:
                self._send(worker, self._job.to_json())
            workers.append(worker)
        return workers

    def _forget(self, worker: _Worker) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(worker.stdout)
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.close()
        worker.stdout.close()

    def _end(self, worker: _Worker, *, is_dead: bool) -> int | None:
        """Ends one worker; returns its exit code, negative for a signal, or None where that cannot be learnt."""
        if not is_dead:
            with contextlib.suppress(ProcessLookupError):
                if worker.pid is None:
                    # It never came so far as to say who it is: the whole group is stuck before its forks.
                    worker.group.kill()
                else:
                    os.kill(worker.pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
        self._forget(worker)
        self._workers.remove(worker)
        told = worker.group.told
        while worker.pid not in self._codes:
            if not select.select([told], [], [], _CODE_SECONDS)[0]:
                return None
            lines = os.read(told, 1 << 16)
            if not lines:
                return worker.group.wait()
            for line in lines.splitlines():
                pid, code = line.split()
                self._codes[int(pid)] = int(code)
        return self._codes[worker.pid]

    def _send(self, worker: _Worker, line: str) -> None:
        # A worker that is dead is noticed when its stdout ends.
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.write(line.encode() + b"\n")
            worker.stdin.flush()

    def _hand_out(self) -> None:
        while self._waiting:
            worker = min(self._workers, key=lambda worker: len(worker.units))
            unit = self._waiting[0]
            careful = bool(self._failures[unit.split, unit.number])
            if len(worker.units) >= (1 if careful else self._ahead):
                return
            self._waiting.popleft()
            if not worker.units:
                worker.heard = time.monotonic()
            worker.units.append(unit)
            self._send(worker, json.dumps({"unit": asdict(unit), "name_each": careful, "sync": self._sync}))

    def _hear(self, worker: _Worker, message: dict[str, Any]) -> Iterator[Event]:
        if "pid" in message:
            worker.pid = message["pid"]
        elif "files" in message:
            worker.files_done += message["files"]
            worker.bytes_done += message["bytes"]
            yield Progressed(message["files"], message["bytes"])
        elif "at" in message:
            worker.at = bytes.fromhex(message["at"])
        elif "written" in message:
            worker.units.popleft()
            worker.files_done = worker.bytes_done = 0
            worker.at = None
            yield Written(UnitResult.from_dict(message["written"]))
        elif "synced" in message:
            yield Synced(*message["synced"])
        else:
            raise _as_error(message)

    def _replace(self, worker: _Worker, how: str, *, is_dead: bool) -> Iterator[Event]:
        """Puts a new worker in the place of one that died or hangs, and its units back in the queue."""
        code = self._end(worker, is_dead=is_dead)
        if worker.pid is None and code == CANNOT_FORK:
            raise _cannot_start(self.workers + 1, "the operating system gives no more processes")
        if not worker.units:
            raise RuntimeError(
                f"a worker {how} before it had anything to do (exit code {code}); see what it said above"
            )
        unit = worker.units[0]
        key = (unit.split, unit.number)
        self._failures[key] += 1
        if self._failures[key] > 1:
            where = f"reading {printable(worker.at)}" if worker.at else f"writing unit {unit.number} of {unit.split}"
            raise SourceError(
                f"a worker {how} twice, the second time while {where} (exit code {code}): look at that file, or move "
                "it away and run again with --overwrite"
            )
        yield Progressed(-worker.files_done, -worker.bytes_done)
        self._waiting.extendleft(reversed(worker.units))
        self._workers += self._start(1)


def _cannot_start(count: int, why: str) -> DestinationError:
    return DestinationError(
        f"cannot start {count} workers: {why}; use fewer --workers, or raise the limits of open files and processes "
        "(`ulimit -n`, `ulimit -u`)"
    )


def _as_error(message: dict[str, Any]) -> Exception:
    kind = getattr(errors, message["kind"], None)
    if isinstance(kind, type) and issubclass(kind, DataioError):
        return kind(message["failed"])
    return RuntimeError(f"a worker met a bug:\n{message['failed']}")
