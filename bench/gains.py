"""How many times as fast one plan is as another, with the interval that follows from those of their rates."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dataio.bench.results import Run


@dataclass(frozen=True, slots=True)
class Gain:
    """A ratio of two rates with its 95 % interval; above 1 the first plan is the faster one."""

    value: float
    """Ratio of the medians."""
    low: float
    """Lower end."""
    high: float
    """Upper end; infinite where the other rate's interval reaches down to 0."""
    noise: float
    """Noise floor of the bench run: a ratio nearer to 1 than this tells nothing, whatever its interval says."""

    @property
    def is_noise(self) -> bool:
        """Whether the two plans may be equally fast."""
        return self.low <= 1 <= self.high or abs(self.value - 1) <= self.noise


def gain(run: Run, baseline: Run | None, *, noise: float) -> Gain | None:
    """How many times as fast `run` is as `baseline`; None without one, or where either supplied nothing.

    The two intervals are combined as those of independent figures, on a logarithmic scale, on which a ratio is a
    difference: its distance to either end is the root of the summed squares.
    Source: Donner and Zou, Closed-form confidence intervals for functions of the normal mean and standard deviation,
    Statistical Methods in Medical Research 21 (2012): intervals of a difference from those of its two sides.

    Args:
        run: the plan.
        baseline: what it is compared with.
        noise: noise floor of the bench run that both were measured in, a share.
    """
    if baseline is None:
        return None
    ours, theirs = run.images_per_second, baseline.images_per_second
    if not ours.median > 0 < theirs.median:
        return None
    value = ours.median / theirs.median
    down = math.hypot(_distance(ours.low, ours.median), _distance(theirs.median, theirs.high))
    up = math.hypot(_distance(ours.median, ours.high), _distance(theirs.low, theirs.median))
    high = value * math.exp(up) if up < math.log(1e6) else math.inf
    return Gain(value, value * math.exp(-down), high, noise)


def _distance(low: float, high: float) -> float:
    return math.log(high / low) if low > 0 else math.inf
