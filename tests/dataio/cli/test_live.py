"""Progress: a line a phase where there is no terminal, nothing when quiet."""

from __future__ import annotations

import io

from rich.console import Console

from dataio.bench.setting import BenchProgress
from dataio.cli.live import LiveProgress


def shown(*, quiet: bool, terminal: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=80)
    with LiveProgress(quiet=quiet, console=console) as live:
        live.say("A sweep of 4 plans: about 30 s.")
        for done in range(3):
            live.show(BenchProgress("sweep on photos", "num_parallel_calls=2, prefetch=2", done, 3))
        live.show(BenchProgress("training loop on photos", "autotune", 0, 2))
    return stream.getvalue()


def test_without_a_terminal_every_phase_is_one_line() -> None:
    assert shown(quiet=False).splitlines() == [
        "A sweep of 4 plans: about 30 s.",
        "sweep on photos …",
        "training loop on photos …",
    ]


def test_quiet_is_quiet() -> None:
    assert shown(quiet=True) == ""
    assert shown(quiet=True, terminal=True) == ""


def test_a_terminal_sees_the_plan_in_work() -> None:
    assert "training loop on photos: autotune" in shown(quiet=False, terminal=True)
