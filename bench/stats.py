"""Medians with intervals by bootstrap over blocks, and whether two measurements really differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dataio.records import Record
from dataio.stall import Interval, student_quantile

Floats = Sequence[float] | npt.NDArray[np.float64]

#: Rounds from which on the bootstrap of a median can be trusted; with fewer Student's t on the mean's error is used,
#: with the scatter that all plans of the run have in common where that is known.
#: Source: from five equally likely rounds the interval [smallest, largest] holds the median in 1 - 2 / 2^5 = 94 % of
#: the cases, and resampling five gives just that interval; from four it would be 88 %.
BOOTSTRAP_ROUNDS = 5


class Spread(Record):
    """How much the rounds of one plan scatter, learned from many plans of the same run."""

    relative: Annotated[float, Field(ge=0)]
    """Standard deviation of a round as a share of the plan's rate."""
    freedom: Annotated[int, Field(ge=1)]
    """Degrees of freedom: rounds in all less plans."""


def pooled_spread(plans: Iterable[Floats]) -> Spread | None:
    """The scatter that the rounds of all plans have in common; None without a plan of two rounds.

    Two or three rounds say next to nothing about their own scatter, but it is the machine's more than the plan's.

    Args:
        plans: float[rounds] of each plan, above 0.
    """
    squares, freedom = 0.0, 0
    for rounds in plans:
        values = np.asarray(rounds, np.float64)
        if len(values) >= 2 and float(np.mean(values)) > 0:
            squares += float(np.sum((values / np.mean(values) - 1) ** 2))
            freedom += len(values) - 1
    return Spread(relative=math.sqrt(squares / freedom), freedom=freedom) if freedom else None


def median_interval(
    rounds: Floats,
    *,
    spread: Spread | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 2000,
) -> Interval:
    """The median of a figure that was measured once a round, with its interval; each round is one block.

    Args:
        rounds: float[rounds >= 2], the figure of each round, in any unit, not negative.
        spread: scatter of rounds in this run, used where there are fewer than `BOOTSTRAP_ROUNDS`.
        confidence: share of intervals that shall hold the true median, in (0, 1).
        seed: of the bootstrap: same numbers, same interval.
        resamples: of the bootstrap.

    Raises:
        ValueError: fewer than two rounds, from which no interval follows.
    """
    values = np.asarray(rounds, np.float64)
    count = len(values)
    if count < 2:
        raise ValueError(f"an interval needs at least 2 rounds, found {count}")
    median = float(np.median(values))
    tail = (1 - confidence) / 2
    if count >= BOOTSTRAP_ROUNDS:
        picks = np.random.default_rng(seed).integers(0, count, (resamples, count))
        low, high = np.quantile(np.median(values[picks], axis=1), [tail, 1 - tail])
        return Interval(value=median, low=min(float(low), median), high=max(float(high), median))
    if spread is not None and spread.freedom >= count - 1:
        deviation, freedom = spread.relative * median, spread.freedom
    else:
        deviation, freedom = float(np.std(values, ddof=1)), count - 1
    half = student_quantile(1 - tail, freedom) * deviation / math.sqrt(count)
    return Interval(value=median, low=max(median - half, 0.0), high=median + half)


def ratio_interval(
    rounds: Floats,
    reference: Floats,
    *,
    in_turn: bool = True,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 2000,
) -> Interval:
    """How many times `reference` the first figure is, with its interval.

    Args:
        rounds: float[rounds], the figure of each round, above 0.
        reference: float[rounds], what it is compared with.
        in_turn: both were measured in turn (A B A B ...) in one run: the ratio is then formed within each round, so
            that what slowed the machine for both cancels. Otherwise, or with unequal numbers of rounds, each side is
            resampled on its own.
        confidence: share of intervals that shall hold the true ratio, in (0, 1).
        seed: of the bootstrap: same numbers, same interval.
        resamples: of the bootstrap.
    """
    ours, theirs = np.asarray(rounds, np.float64), np.asarray(reference, np.float64)
    if in_turn and len(ours) == len(theirs):
        return median_interval(ours / theirs, confidence=confidence, seed=seed, resamples=resamples)
    if min(len(ours), len(theirs)) < 2:
        raise ValueError(f"an interval needs at least 2 rounds on each side, found {len(ours)} and {len(theirs)}")
    random = np.random.default_rng(seed)
    tops = np.median(ours[random.integers(0, len(ours), (resamples, len(ours)))], axis=1)
    bottoms = np.median(theirs[random.integers(0, len(theirs), (resamples, len(theirs)))], axis=1)
    value = float(np.median(ours) / np.median(theirs))
    tail = (1 - confidence) / 2
    low, high = np.quantile(tops / bottoms, [tail, 1 - tail])
    return Interval(value=value, low=min(float(low), value), high=max(float(high), value))


def differs(ratio: Interval) -> bool:
    """Whether a ratio's interval leaves 1 out: the two measurements differ by more than their noise."""
    return ratio.low > 1 or ratio.high < 1


def noise_floor(plans: Iterable[Floats], *, confidence: float = 0.95) -> float:
    """The relative difference below which two medians of this run cannot be told apart, in [0, 1].

    What two plans of equal speed would show by chance in `confidence` of the cases: the rounds' relative spread, pooled
    over the plans, times the error of a difference of two medians (1.2533 * sqrt(2 / rounds) standard deviations).

    Source: the standard error of a normal sample's median is sqrt(pi / 2) = 1.2533 times that of its mean.

    Args:
        plans: the rounds of each plan, at least two rounds each.
    """
    spreads, counts = [], []
    for rounds in plans:
        values = np.asarray(rounds, np.float64)
        if len(values) < 2 or float(np.median(values)) <= 0:
            continue
        spreads.append(float(np.var(values / np.median(values), ddof=1)))
        counts.append(len(values))
    if not spreads:
        raise ValueError("the noise floor needs a plan with at least 2 rounds")
    error = math.sqrt(math.pi / 2) * math.sqrt(2 / float(np.mean(counts))) * math.sqrt(float(np.mean(spreads)))
    return min(NormalDist().inv_cdf((1 + confidence) / 2) * error, 1.0)


#: A rate has stopped rising when two windows are not faster than the two before by more than this.
#: Source: own measurement: rounds of 0.7 s of one pipeline spread by 8 to 38 %, typically 15 %; a ramp that AUTOTUNE
#: still climbs is steeper than 5 % in two windows.
STEADY_GAIN = 0.05


def is_steady(rates: Sequence[float]) -> bool:
    """Whether the rates of windows that follow one another have stopped rising; False with fewer than four."""
    if len(rates) < 4:
        return False
    return float(np.mean(rates[-2:])) <= float(np.mean(rates[-4:-2])) * (1 + STEADY_GAIN)
