"""Verdicts: what a measured stall means, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from dataio.records import Record
from dataio.stall import LIMITED_FROM, STARVED_FROM, Interval, Outcome, Stall, classify


class Verdict(Record):
    """Whether a step will starve on a pipeline, how sure that is, and why."""

    schema_version: Literal[1] = 1
    """Form of this record in JSON."""
    outcome: Outcome
    """`fed`: the step waits less than 5 % of the time; `limited`: 5 to 20 %; `starved`: 20 % or more; `inconclusive`:
    the interval allows two of these and the budget ended."""
    stall: Stall
    """Share of wall time that the step waits for input, in [0, 1]."""
    supply_images_per_second: Annotated[float, Field(ge=0)]
    """Pictures that the pipeline delivers in a second when nothing holds it up."""
    demand_images_per_second: Annotated[float, Field(gt=0)]
    """Pictures that the step can take in a second when batches are always ready."""
    reason: str
    """Why, in a sentence, with figures."""
    advice: tuple[str, ...] = ()
    """What to change, the most useful first; empty when nothing has to."""


def judge(
    stall: Stall,
    *,
    supply: Interval | float,
    demand_images_per_second: float,
    step_name: str,
    limit: str | None = None,
    advice: Sequence[str] = (),
    budget_seconds: float | None = None,
) -> Verdict:
    """The verdict on a measured stall.

    Args:
        stall: as measured in the loop.
        supply: images/s of the pipeline alone.
        demand_images_per_second: what the step can take.
        step_name: what to call the step in the reason.
        limit: what limits the pipeline ("decoding on 2 cores"), where known.
        advice: what to change, ranked.
        budget_seconds: time that measuring was allowed, named when it did not suffice.
    """
    rate = supply.value if isinstance(supply, Interval) else supply
    outcome = classify(stall)
    return Verdict(
        outcome=outcome,
        stall=stall,
        supply_images_per_second=rate,
        demand_images_per_second=demand_images_per_second,
        reason=_reason(outcome, stall, rate, demand_images_per_second, step_name, limit, budget_seconds),
        advice=tuple(advice) or _advice(outcome, rate, demand_images_per_second),
    )


def _reason(
    outcome: Outcome,
    stall: Stall,
    supply: float,
    demand: float,
    step_name: str,
    limit: str | None,
    budget_seconds: float | None,
) -> str:
    rates = f"the pipeline delivers {supply:,.0f} images/s and {step_name} takes {demand:,.0f}"
    because = f", limited by {limit}" if limit and outcome != "fed" else ""
    if outcome == "inconclusive":
        line = LIMITED_FROM if stall.low < LIMITED_FROM else STARVED_FROM
        within = f" within {budget_seconds:g} s" if budget_seconds is not None else ""
        return (
            f"the step waits {_span(stall)} of the time, which lies on both sides of the {100 * line:.0f} % line; "
            f"measuring could not narrow it down{within} ({rates}{because})"
        )
    if outcome == "fed":
        # In the loop the buffer fills while the step works; rounds of supply are shorter and swing more.
        enough = (
            f"{supply / demand:.2g} times as many as needed"
            if supply >= demand
            else "so that measured alone it was a little slower than in the loop, which kept up"
        )
        return f"the step waits {_span(stall)} of the time: {rates}, {enough}"
    if supply >= demand:
        # Enough on average and still waiting: the two get in each other's way, or the rate swings.
        because = (
            "; alone it is fast enough, so its batches come unevenly, or the step takes processor time away from it"
        )
    return f"the step waits {_span(stall)} of the time: {rates}{because}"


def _span(stall: Stall) -> str:
    if stall.high < 0.01:
        return "less than 1 %"
    return f"{stall.value:.1%} ({stall.low:.1%} to {stall.high:.1%})".replace("%", " %")


def _advice(outcome: Outcome, supply: float, demand: float) -> tuple[str, ...]:
    if outcome == "fed":
        return ()
    if outcome == "inconclusive":
        return ("measure longer (a larger --budget), or with less else running on the machine",)
    if supply >= demand:
        return ("give the step's own computing a device or cores of its own, and hold more batches ready (prefetch)",)
    return (f"the pipeline must become {demand / supply:.1f} times as fast to feed this step",) if supply > 0 else ()
