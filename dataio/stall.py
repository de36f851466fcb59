"""Stall: the share of wall time in which the step waits for input, its interval, and what to call it.

Pure figures: seconds in, shares out. Nothing here measures, and nothing imports TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from dataio.records import Record

Outcome = Literal["fed", "limited", "starved", "inconclusive"]

#: From this stall on a step is `limited`, from the next `starved`.
#: Source: TensorFlow's profiler (OpenXLA xprof, op_stats_to_input_pipeline_analysis.cc): input time below 5 % of the
#: step time is "not input-bound", below 20 % "moderately", from there on "highly input-bound".
LIMITED_FROM = 0.05
STARVED_FROM = 0.20

#: An interval across a threshold is narrow enough when it is at most this wide: its middle then decides.
#: One point to either side is half of the error that a verdict may have (two points).
DECIDED_WIDTH = 0.02

#: Steps in a block of the bootstrap, at least; and blocks, at least and about at most.
#: Source: own simulation, `python -m tests.benchmarks.coverage`: shorter blocks miss how a buffer ties one wait to
#: the next, fewer than five say little about their own spread, and more than forty miss slow drifts.
BLOCK_STEPS = 20
FEWEST_BLOCKS = 5
MOST_BLOCKS = 40

Seconds = Sequence[float] | npt.NDArray[np.float64]


class Interval(Record):
    """A figure with its uncertainty; the unit is that of the field that holds it."""

    value: float
    """The best estimate."""
    low: float
    """Lower end of the 95 % interval. Far from `value`: the figure is noisy or the window was short."""
    high: float
    """Upper end of the 95 % interval."""

    @model_validator(mode="after")
    def _in_order(self) -> Interval:
        if not self.low <= self.value <= self.high:
            raise ValueError("takes low <= value <= high")
        return self

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low


class Stall(Interval):
    """A stall and its interval, each a share of wall time."""

    value: Annotated[float, Field(ge=0, le=1)]
    """The best estimate. 0: batches are always ready; 0.5: the device idles half of the time."""
    low: Annotated[float, Field(ge=0, le=1)]
    """Lower end of the 95 % interval."""
    high: Annotated[float, Field(ge=0, le=1)]
    """Upper end of the 95 % interval."""


def classify(stall: Interval) -> Outcome:
    """What a stall is called; `inconclusive` when its interval allows two names and is wider than `DECIDED_WIDTH`."""
    if _name(stall.low) == _name(stall.high) or stall.width <= DECIDED_WIDTH:
        return _name(stall.value)
    return "inconclusive"


def stall_share(wait_seconds: Seconds, step_seconds: Seconds) -> float:
    """sum(waits) / (sum(waits) + sum(steps)), in [0, 1]; 0 when there are no steps."""
    waited, worked = float(np.sum(wait_seconds)), float(np.sum(step_seconds))
    return waited / (waited + worked) if waited + worked > 0 else 0.0


def estimate_stall(
    wait_seconds: Seconds,
    step_seconds: Seconds,
    *,
    drained_batches: Seconds | None = None,
    buffer_batches: float = 2.0,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 1000,
) -> Stall:
    """The stall of a run of steps, with an interval that holds the long-run stall in `confidence` of the cases.

    A window that begins with a full buffer hides stall: it uses batches that were not made in it. Where it is known
    how many ready batches the buffer lost during each step, each of them counts as a wait of one step (and one that it
    gained as the reverse), which makes the estimate unbiased and neighbouring steps nearly independent:

        stall = (sum(waits) + sum(steps * drained)) / (sum(waits) + sum(steps))

    Where it is not known, the interval is widened by what the buffer may have hidden. The interval is a block
    bootstrap, stretched by Student's t for the number of blocks.

    Args:
        wait_seconds: float[steps], how long each step waited for its batch; 0 where the batch was ready.
        step_seconds: float[steps], how long each step then took.
        drained_batches: float[steps], batches that were ready when the step asked less those ready when the next one
            asked; None when the pipeline does not tell.
        buffer_batches: batches that the pipeline can hold ready; used only where `drained_batches` is None.
        confidence: share of intervals that shall hold the truth, in (0, 1).
        seed: of the bootstrap: same numbers, same interval.
        resamples: of the bootstrap.

    Returns:
        The stall; [0, 1] without any steps.
    """
    waits, steps = np.asarray(wait_seconds, np.float64), np.asarray(step_seconds, np.float64)
    count = len(waits)
    walls = waits + steps
    total = float(walls.sum())
    if count == 0 or total <= 0:
        return Stall(value=0.0, low=0.0, high=1.0)
    lost = waits
    if drained_batches is not None:
        lost = waits + steps * np.asarray(drained_batches, np.float64)
    value = float(lost.sum()) / total

    below = above = 0.5 / count  # a window of n steps cannot tell half a batch from none
    blocks = min(max(count // BLOCK_STEPS, FEWEST_BLOCKS), MOST_BLOCKS, count)
    if blocks > 1:
        starts = np.linspace(0, count, blocks, endpoint=False).astype(np.int64)
        block_lost, block_walls = np.add.reduceat(lost, starts), np.add.reduceat(walls, starts)
        picks = np.random.default_rng(seed).integers(0, blocks, (resamples, blocks))
        shares = block_lost[picks].sum(axis=1) / block_walls[picks].sum(axis=1)
        tail = (1 - confidence) / 2
        low, high = np.quantile(shares, [tail, 1 - tail])
        stretch = student_quantile(1 - tail, blocks - 1) / NormalDist().inv_cdf(1 - tail)
        stretch *= (blocks / (blocks - 1)) ** 0.5  # resampling n blocks understates their variance by (n - 1) / n
        below, above = max(below, stretch * (value - low)), max(above, stretch * (high - value))
    else:
        below = above = 1.0
    if drained_batches is None:
        hidden = buffer_batches / count * float(np.mean(waits == 0))
        below, above = float(np.hypot(below, hidden)), float(np.hypot(above, hidden))

    inside = min(max(value, 0.0), 1.0)
    return Stall(value=inside, low=min(max(value - below, 0.0), inside), high=max(min(value + above, 1.0), inside))


def _name(stall: float) -> Literal["fed", "limited", "starved"]:
    if stall < LIMITED_FROM:
        return "fed"
    return "limited" if stall < STARVED_FROM else "starved"


def student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t.

    Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5: an expansion around the normal
    quantile; at 97.5 % within 0.1 % from 4 degrees of freedom on.
    """
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))
