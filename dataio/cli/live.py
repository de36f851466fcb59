"""Progress while something is measured: a live line on a terminal, plain lines elsewhere, nothing when quiet.

Everything goes to stderr, so that stdout holds results alone.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from dataio.bench.setting import BenchProgress


class LiveProgress:
    """Shows `BenchProgress` events; a context manager that leaves the terminal clean."""

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        """
        Args:
            quiet: show nothing.
            console: where to; stderr by default.
        """
        self._console = console or Console(file=sys.stderr, highlight=False)
        self._quiet = quiet
        self._phase = ""
        self._live: Progress | None = None
        if not quiet and self._console.is_terminal:
            self._live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=18),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._live.add_task("starting", total=None)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        """One line that stays."""
        if not self._quiet:
            self._console.print(line)

    def name(self, words: str) -> None:
        """What is being converted now."""
        if self._live is not None:
            self._live.update(self._task, description=f"converting a sample: {words}", completed=0, total=None)

    def show(self, progress: BenchProgress) -> None:
        """Where the run is now."""
        if self._live is not None:
            from dataio.bench.words import short_name

            words = f"{progress.phase}: {short_name(progress.detail)}" if progress.detail else progress.phase
            room = max(20, self._console.width - 34)
            self._live.update(
                self._task,
                description=words if len(words) <= room else words[: room - 1] + "…",
                completed=progress.done,
                total=progress.total,
            )
        elif not self._quiet and progress.phase != self._phase:
            self._console.print(f"{progress.phase} …")
        self._phase = progress.phase
