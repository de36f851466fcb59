"""Limits of a bench run that make it exit with 3: a stall, and an earlier run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dataio.errors import LimitExceeded

if TYPE_CHECKING:
    from dataio.bench.results import Results


def parse_share(text: str) -> float:
    """A share of 1 from `5%` or `0.05`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text)
    value = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"{text!r}: takes a share such as 5% or 0.05", param_hint="--max-stall")
    return value


def check_limit(results: Results, limit: float | None) -> None:
    """Raises LimitExceeded when the verdict's stall is above `limit`."""
    verdict = results.verdict
    if limit is None or verdict is None or verdict.stall.value <= limit:
        return
    stall = verdict.stall
    raise LimitExceeded(
        f"the stall is {stall.value:.1%} ({stall.low:.1%} to {stall.high:.1%}), above --max-stall {limit:.1%}"
    )


def load_baseline(path: Path) -> Results:
    """The results of an earlier run.

    Raises:
        RecordError: no such file, or not a results.json of a known schema.
    """
    from dataio.bench.results import Results
    from dataio.errors import RecordError

    if not path.is_file():
        raise RecordError(f"{path}: no such file; --baseline takes the results.json of an earlier `bench --out`")
    return Results.load(path)


def check_against(results: Results, before: Results, origin: str, *, quiet: bool) -> None:
    """Raises LimitExceeded when this run is worse than an earlier one by more than noise; otherwise says how it is."""
    from dataio.bench.gate import check_baseline

    comparison = check_baseline(results, before, origin=origin)
    if not quiet:
        supply = comparison.supply
        typer.echo(
            f"Against {origin}: {supply.value:.2f} times its supply ({supply.low:.2f} to {supply.high:.2f}); nothing "
            "is worse by more than noise."
        )
        for note in comparison.notes:
            typer.echo(f"Note: {note}.")
