"""Progress of reading and writing many bytes: a bar with rate and time left on a terminal, plain lines elsewhere.

Everything goes to stderr, so that stdout holds results alone.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

#: Seconds between two plain lines, where the output is a file or a pipe.
_LINE_SECONDS = 5.0

#: Seconds between two pictures of the bar.
_BAR_SECONDS = 0.1


class TransferProgress:
    """Shows how far a transfer is; a context manager that leaves the terminal clean."""

    def __init__(self, what: str, *, quiet: bool = False, console: Console | None = None) -> None:
        """
        Args:
            what: the verb shown, such as `converting`.
            quiet: show nothing.
            console: where to; stderr by default.
        """
        self._what = what
        self._console = console or Console(file=sys.stderr, highlight=False)
        self._quiet = quiet
        self._began = self._due = time.monotonic()
        self._first_bytes: int | None = None
        self._bar: Progress | None = None
        if not quiet and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[files]}"),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
                # No thread of its own: without one, a conversion forks its workers, which starts them sooner.
                auto_refresh=False,
            )
            self._task = self._bar.add_task(what, total=None, files="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, line: str) -> None:
        """One line that stays."""
        if not self._quiet:
            self._console.print(line, markup=False)

    def show(self, done_bytes: int, total_bytes: int, *, files: str = "") -> None:
        """Where the transfer is now.

        Args:
            done_bytes: bytes done.
            total_bytes: bytes in all.
            files: files done, in words.
        """
        if self._quiet:
            return
        if self._bar is not None:
            now = time.monotonic()
            self._bar.update(self._task, completed=done_bytes, total=total_bytes, files=files, refresh=now >= self._due)
            if now >= self._due:
                self._due = now + _BAR_SECONDS
            return
        now = time.monotonic()
        if self._first_bytes is None:
            # What an earlier run did is not this run's speed.
            self._first_bytes, self._began, self._due = done_bytes, now, now + _LINE_SECONDS
        if now < self._due:
            return
        self._due = now + _LINE_SECONDS
        rate = (done_bytes - self._first_bytes) / (now - self._began)
        left = f", {(total_bytes - done_bytes) / rate:.0f} s left" if rate > 0 else ""
        share = done_bytes / total_bytes if total_bytes else 1.0
        self.say(f"{self._what}: {share:.0%} {files}, {rate / 1e6:.0f} MB/s{left}")
