"""The plans of a search: alive while they may win, measured in turn, and what they taught."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dataio.bench.choosing import Candidate, complexity
from dataio.bench.footprint import Footprint, predict_footprint, refusal
from dataio.bench.predicting import Predictor
from dataio.bench.stats import pooled_spread
from dataio.bench.supply import SupplySamples
from dataio.bench.words import plan_words
from dataio.data import Data
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stall import Interval

if TYPE_CHECKING:
    import tensorflow as tf

#: Seconds that building a pipeline and warming it up take, until the first ones have told.
#: Source: own measurement, 2 cores.
START_SECONDS = 2.2
#: A round lasts this much longer than what it counts, until the first ones have told: the other pipelines fill their
#: buffers first, then what piled up in its own is used up. Source: own measurement, batches of 64.
ROUND_OVERHEAD = 2.2
#: Shortest and longest round, seconds: below, a round holds too few batches; above, time is better spent on rounds.
ROUND_SECONDS = (0.3, 0.7)
#: The budget for which rounds have that many seconds each; they grow in proportion.
ROUND_BUDGET_SHARE = 1 / 150
#: Records from which the size of decoded pictures is told.
SIZED_RECORDS = 512
#: Share of the budget that filling one cache may take; of a larger dataset a part is measured.
CACHE_FILL_SHARE = 0.06


class Supply(Protocol):
    """`LiveSupply`, or what stands in for it in a test."""

    def add(self, name: str, build: Callable[[], tf.data.Dataset], *, whole_first_epoch: bool = False) -> None:
        """Builds a pipeline and warms it up."""

    def run_round(self, name: str, seconds: float) -> None:
        """Measures one pipeline for a round."""

    def samples(self, name: str, *, latest: int | None = None) -> SupplySamples:
        """What it supplied."""

    def drop(self, name: str) -> None:
        """Ends a pipeline."""


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How far a search is."""

    phase: str
    """What is being done, in words."""
    plan: str
    """Name of the plan in work."""
    done: int
    """Pieces of this phase that are finished."""
    total: int
    """Pieces in this phase."""


@dataclass
class Pool:
    """Plans on one dataset that are being compared."""

    data: Data
    recipe: Recipe
    split: str
    demand: float | None
    """images/s that the step takes; None when unknown."""
    budget_seconds: float
    cores: int
    free_bytes: int
    supply: Supply
    predictor: Predictor
    report: Callable[[SearchProgress], None]
    clock: Callable[[], float] = time.perf_counter
    whole: float = 1.0
    """How many times as large the dataset is of which `data` is a sample: its caches must fit."""
    candidates: dict[str, Candidate] = field(default_factory=dict)
    """Every plan that was measured, with its latest samples."""
    predicted: dict[str, Interval] = field(default_factory=dict)
    """images/s predicted for plans before they were measured."""
    skipped: dict[str, Interval] = field(default_factory=dict)
    """Plans that were not measured, with their prediction."""
    refused: dict[str, str] = field(default_factory=dict)
    """Plans that do not fit, with the reason."""
    _alive: dict[str, Plan] = field(default_factory=dict)
    _start_seconds: list[float] = field(default_factory=list)
    _turn_seconds: list[float] = field(default_factory=list)
    _picture_bytes: float | None = None

    def __post_init__(self) -> None:
        self.began = self.clock()

    def left(self, share: float = 1.0) -> float:
        """Seconds until `share` of the budget is used up."""
        return self.began + share * self.budget_seconds - self.clock()

    @property
    def round_seconds(self) -> float:
        """What a round counts, seconds."""
        shortest, longest = ROUND_SECONDS
        return min(max(self.budget_seconds * ROUND_BUDGET_SHARE, shortest), longest)

    @property
    def turn_seconds(self) -> float:
        """What a round of one plan takes, settling included."""
        return _mean(self._turn_seconds, ROUND_OVERHEAD * self.round_seconds)

    def start_seconds(self, plan: Plan) -> float:
        """What building a plan, filling its cache and warming it up will take."""
        start = _mean(self._start_seconds, START_SECONDS)
        return start + (self._fill_seconds(plan) / self._parts(plan) if plan.cache != "none" else 0.0)

    def known(self, plan: Plan) -> bool:
        """Whether the plan was measured."""
        return any(candidate.plan == plan for candidate in self.candidates.values())

    def refuse(self, plan: Plan) -> bool:
        """Whether the plan does not fit; notes the reason."""
        reason = refusal(self._footprint(plan), free_bytes=self.free_bytes)
        if reason is not None:
            self.refused[plan_words(plan)] = reason
        return reason is not None

    def fits(self, plan: Plan) -> bool:
        """Whether the plan fits into what is free when it is alone."""
        return refusal(self._footprint(plan), free_bytes=self.free_bytes) is None

    def has_room(self, plan: Plan) -> bool:
        """Whether the plan fits into memory beside those that are alive."""
        held = sum(self._footprint(other).total_bytes for other in self._alive.values())
        return refusal(self._footprint(plan), free_bytes=self.free_bytes - held) is None

    def predict(self, plans: Mapping[str, Plan]) -> None:
        """Notes what is predicted for plans that will be measured."""
        for name, plan in plans.items():
            self.predicted[name] = self.predictor.predict(plan)

    def add(self, plans: Mapping[str, Plan], phase: str) -> None:
        """Builds plans and warms them up."""
        for number, (name, plan) in enumerate(plans.items()):
            self.report(SearchProgress(phase, name, number, len(plans)))
            began = self.clock()
            caches = plan.cache != "none"
            self.supply.add(name, self._builder(plan), whole_first_epoch=caches)
            self._alive[name] = plan
            if not caches:
                self._start_seconds.append(self.clock() - began)

    def run_rounds(self, names: Iterable[str], rounds: int, phase: str, *, since: int = 0) -> None:
        """Measures living plans in turn; their samples are these rounds and the `since` before them."""
        names = list(names)
        for done in range(rounds):
            for number, name in enumerate(names):
                self.report(SearchProgress(phase, name, done * len(names) + number, rounds * len(names)))
                began = self.clock()
                self.supply.run_round(name, self.round_seconds)
                self._turn_seconds.append(self.clock() - began)
        for name in names:
            samples = self.supply.samples(name, latest=since + rounds)
            self.candidates[name] = Candidate(self._alive[name], samples)
            self.predictor.learn(self._alive[name], samples.images_per_second.value)
        spread = pooled_spread(candidate.samples.round_images_per_second for candidate in self.candidates.values())
        for name, candidate in self.candidates.items():
            self.candidates[name] = Candidate(candidate.plan, candidate.samples.replace(spread=spread))

    def keep(self, names: Iterable[str]) -> None:
        """Ends all plans but these."""
        kept = set(names)
        for name in [name for name in self._alive if name not in kept]:
            del self._alive[name]
            self.supply.drop(name)

    def rates(self) -> dict[str, float]:
        """images/s of what was measured."""
        return {name: candidate.samples.images_per_second.value for name, candidate in self.candidates.items()}

    def by_rate(self) -> list[str]:
        """Names of what was measured, the fastest first; of equal ones the simplest."""
        rates = self.rates()
        return sorted(rates, key=lambda name: (-rates[name], complexity(self.candidates[name].plan)))

    def _footprint(self, plan: Plan) -> Footprint:
        picture_bytes = self._mean_picture_bytes() if plan.caches_decoded else None
        return predict_footprint(
            self.data,
            self.recipe,
            plan,
            split=self.split,
            cores=self.cores,
            picture_bytes=picture_bytes,
            whole=self.whole,
        )

    def _mean_picture_bytes(self) -> float:
        """Mean bytes of a decoded picture, from the sizes of some records."""
        if self._picture_bytes is None:
            sizes = [
                3 * int(record["height"]) * int(record["width"])
                for record in self.data.records(self.split).take(SIZED_RECORDS).as_numpy_iterator()
            ]
            self._picture_bytes = sum(sizes) / len(sizes)
        return self._picture_bytes

    def _fill_seconds(self, plan: Plan) -> float:
        """How long an epoch of the whole split takes while its cache is filled."""
        return self.data.split(self.split).records / self.predictor.predict(plan.replace(cache="none")).value

    def _parts(self, plan: Plan) -> int:
        """Into how many parts the split is divided so that the cache of one is filled in time.

        Whether the whole fits into memory was decided from the whole, not from this part.
        """
        if plan.cache == "none":
            return 1
        batches = self.data.split(self.split).records // self.recipe.batch_size
        return max(1, min(int(self._fill_seconds(plan) / (CACHE_FILL_SHARE * self.budget_seconds)), batches))

    def _builder(self, plan: Plan) -> Callable[[], tf.data.Dataset]:
        parts = self._parts(plan)
        return lambda: build(self.data, self.recipe, plan, split=self.split, num_shards=parts)


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
