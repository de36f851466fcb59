"""What stays the same during a bench run, and how the run tells where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataio.data import Data
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe

if TYPE_CHECKING:
    import tensorflow as tf


@dataclass(frozen=True, slots=True)
class BenchProgress:
    """How far a bench run is."""

    phase: str
    """What is being done, in words."""
    detail: str
    """The plan in work."""
    done: int
    """Pieces of this phase that are finished."""
    total: int
    """Pieces in this phase."""


OnProgress = Callable[[BenchProgress], None]


@dataclass(frozen=True)
class Setting:
    """What stays the same during a run."""

    recipe: Recipe
    """What a batch is."""
    split: str
    """The split that is read."""
    demand: float | None
    """images/s that the step takes; None where it is not known before the loop has run."""
    cores: int
    """Cores that the process may use."""
    report: OnProgress
    """Told where the run is."""
    clock: Callable[[], float]
    """Seconds, monotonic."""

    def builder(self, data: Data, plan: Plan) -> Callable[[], tf.data.Dataset]:
        """What makes the pipeline of a plan."""
        return lambda: build(data, self.recipe, plan, split=self.split)
