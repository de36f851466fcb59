"""Finds the plan to use: prediction says what is not worth running, measurement decides.

The search narrows in rungs, each measuring fewer plans for longer (successive halving; Jamieson and Talwalkar 2016,
"Non-stochastic best arm identification and hyperparameter optimization"), all plans of a rung in turn:

1. the baselines, and one plan for every way of making pictures that no baseline uses;
2. variants of the best ways, as far as prediction does not rule them out;
3. the finalists, the best baseline always among them.

What is chosen is chosen within the last rung, where every plan met the same minutes of the machine. Hence it is never
slower than the best baseline, but for noise, and a tie goes to the simplest plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dataio.bench.baselines import baseline_plans
from dataio.bench.candidates import PREFETCH, decoded_once, kernel_plans, thrifty, variants
from dataio.bench.choosing import HEADROOM, Candidate, choose, complexity
from dataio.bench.costs import Costs, measure_costs
from dataio.bench.footprint import predict_footprint, refusal
from dataio.bench.measuring import Progress, SupplySamples, measure_supply
from dataio.bench.predicting import Predictor, family
from dataio.bench.words import plan_words
from dataio.data import Data
from dataio.machine import usable_cores, usable_memory_bytes
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stall import Interval

if TYPE_CHECKING:
    import tensorflow as tf

#: Seconds that building a pipeline and warming it up take, beside its rounds. Source: own measurement.
START_SECONDS = 2.5
#: Seconds after which warming up is given up; see `measure_supply`.
WARM_UP_SECONDS = 1.6
#: A round lasts this much longer than what it counts, until it is known better from the first rung: the other pipelines
#: fill their buffers first, then what piled up in its own is used up. Source: own measurement, batches of 64.
ROUND_OVERHEAD = 2.5
#: Shortest and longest round, seconds: below, a round holds too few batches; above, time is better spent on rounds.
ROUND_SECONDS = (0.3, 0.7)
#: The budget for which rounds have that many seconds each; they grow in proportion.
ROUND_BUDGET_SHARE = 1 / 150
#: Share of the budget for the first two rungs together; the rest is the final's.
EARLY_SHARE = 0.82
#: A predicted gain for which the final waits.
MUCH_FASTER = 1.2
#: Rounds of a plan in the first two rungs, and at least and at most in the last.
#: Five are enough for the bootstrap of a median; see `stats.BOOTSTRAP_ROUNDS`.
ROUNDS = (3, 3)
FINAL_ROUNDS = (3, 7)
#: Budget below which the baseline `stage_based` is left out: it was never the fastest by more than noise in any run of
#: tests/benchmarks/tuning.py, and its time is better spent on a plan that prediction favours.
STAGE_BASED_SECONDS = 30.0
#: Plans in the final, the best baseline included.
FINALISTS = 4
#: Seconds of the serial run that tells what reading and making a picture cost.
CALIBRATION_SECONDS = 0.8
#: Records from which the size of decoded pictures is told.
SIZED_RECORDS = 512
#: Share of the budget that filling one cache may take; of a larger dataset a part is measured.
CACHE_FILL_SHARE = 0.06


class MeasureSupply(Protocol):
    """`measure_supply`, or what stands in for it in a test."""

    def __call__(
        self,
        builders: Mapping[str, Callable[[], tf.data.Dataset]],
        *,
        batch_size: int,
        rounds: int,
        round_seconds: float,
        warm_up_seconds: float,
        whole_first_epoch: set[str],
        clock: Callable[[], float],
        on_progress: Callable[[Progress], None] | None,
    ) -> dict[str, SupplySamples]: ...


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


@dataclass(frozen=True)
class SearchResult:
    """What a search found on one dataset."""

    candidates: Mapping[str, Candidate]
    """Every plan that was measured, baselines first, with its latest samples."""
    finalists: tuple[str, ...]
    """Names of those among which the choice was made, measured in turn."""
    chosen: str
    """Name of the plan to use."""
    baselines: frozenset[str]
    """Names of the baselines."""
    predicted: Mapping[str, Interval]
    """images/s that had been predicted for plans before they were measured."""
    skipped: Mapping[str, Interval]
    """Plans that were not measured because their prediction ruled them out, with it."""
    refused: Mapping[str, str]
    """Plans that were not tried because they do not fit into memory, with the reason."""
    costs: Costs | None
    """What the stages of the chosen way of making pictures cost, serially; None where the budget was too short."""
    predictor: Predictor
    """What was learned; predicts other plans on these data."""

    @property
    def plan(self) -> Plan:
        """The plan to use."""
        return self.candidates[self.chosen].plan


@dataclass
class _State:
    """A search in progress."""

    data: Data
    recipe: Recipe
    split: str
    demand: float | None
    budget_seconds: float
    deadline: float
    cores: int
    free_bytes: int
    measure: MeasureSupply
    calibrate: Callable[[Plan], Costs]
    clock: Callable[[], float]
    report: Callable[[SearchProgress], None]
    predictor: Predictor
    candidates: dict[str, Candidate] = field(default_factory=dict)
    predicted: dict[str, Interval] = field(default_factory=dict)
    skipped: dict[str, Interval] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    seconds_a_round: float | None = None
    """What a round of one plan took in the first rung, settling included; None before it."""
    mean_picture_bytes: float | None = None
    """What a decoded picture takes; None until somebody asks."""

    def left(self, share: float = 1.0) -> float:
        """Seconds until `share` of the budget is used up."""
        return self.deadline - (1 - share) * self.budget_seconds - self.clock()

    @property
    def round_seconds(self) -> float:
        shortest, longest = ROUND_SECONDS
        return min(max(self.budget_seconds * ROUND_BUDGET_SHARE, shortest), longest)

    def picture_bytes(self) -> float:
        """Mean bytes of a decoded picture, from the sizes of some records."""
        if self.mean_picture_bytes is None:
            sizes = [
                3 * int(record["height"]) * int(record["width"])
                for record in self.data.records(self.split).take(SIZED_RECORDS).as_numpy_iterator()
            ]
            self.mean_picture_bytes = sum(sizes) / len(sizes)
        return self.mean_picture_bytes

    def plan_seconds(self, rounds: int) -> float:
        """What measuring one plan in that many rounds will take."""
        a_round = self.seconds_a_round or ROUND_OVERHEAD * self.round_seconds
        return START_SECONDS + rounds * a_round

    def affordable(self, rounds: int, share: float) -> int:
        """How many plans can be measured in that many rounds before `share` of the budget is used up."""
        return int(self.left(share) / self.plan_seconds(rounds))

    def known(self, plan: Plan) -> bool:
        return any(candidate.plan == plan for candidate in self.candidates.values())


def search(
    data: Data,
    recipe: Recipe,
    *,
    split: str = "train",
    demand: float | None = None,
    budget_seconds: float = 60.0,
    cores: int | None = None,
    free_bytes: int | None = None,
    measure: MeasureSupply = measure_supply,
    calibrate: Callable[[Plan], Costs] | None = None,
    clock: Callable[[], float] = time.perf_counter,
    on_progress: Callable[[SearchProgress], None] | None = None,
) -> SearchResult:
    """The plan to use for `data` and `recipe` on this machine.

    Without a demand: the fastest found, the simplest of those tied with it. With a demand: the cheapest whose lower
    bound passes the demand by a tenth, else the fastest.

    Args:
        data: the dataset.
        recipe: what a batch is; its `fidelity` decides which kernels may be tried.
        split: the split to read.
        demand: images/s that the step takes; None when unknown.
        budget_seconds: time for everything. The baselines are measured whatever it says, `stage_based` from 30 s on.
        cores: cores that the process may use; found out when None.
        free_bytes: memory that may still be taken; found out when None.
        measure: measures several plans in turn.
        calibrate: costs of a plan run serially.
        clock: seconds, monotonic.
        on_progress: called as the search goes on.

    Raises:
        DataNotFound: no such split.
        RecipeError: the split does not fill a single batch.
    """
    cores = usable_cores() if cores is None else cores
    start = clock()
    state = _State(
        data=data,
        recipe=recipe,
        split=split,
        demand=demand,
        budget_seconds=budget_seconds,
        deadline=start + budget_seconds,
        cores=cores,
        free_bytes=usable_memory_bytes() if free_bytes is None else free_bytes,
        measure=measure,
        calibrate=calibrate or (lambda plan: _calibrate(data, recipe, plan, split, clock)),
        clock=clock,
        report=on_progress or (lambda progress: None),
        predictor=Predictor(cores),
    )
    baselines = baseline_plans(data, recipe, cores=cores)
    if budget_seconds < STAGE_BASED_SECONDS:
        baselines.pop("stage_based")
    covered = {(plan.kernel, plan.fused_decode_and_crop) for plan in baselines.values()}
    kernels = {
        _name(plan): plan
        for plan in kernel_plans(data, recipe, cores)
        if (plan.kernel, plan.fused_decode_and_crop) not in covered
    }
    state.report(SearchProgress("what reading and decoding cost", "", 0, 1))
    state.predictor.calibrate(Plan(), state.calibrate(Plan()))
    began = clock()
    first = baselines | kernels
    _measure(state, first, ROUNDS[0], "baselines and kernels")
    state.seconds_a_round = max(0.0, (clock() - began) / len(first) - START_SECONDS) / ROUNDS[0] or None
    _second_rung(state)
    finalists = _final(state, set(baselines))
    position = choose([state.candidates[name] for name in finalists], demand_images_per_second=demand, cores=cores)
    chosen = finalists[position]
    return SearchResult(
        candidates=state.candidates,
        finalists=tuple(finalists),
        chosen=chosen,
        baselines=frozenset(baselines),
        predicted=state.predicted,
        skipped=state.skipped,
        refused=state.refused,
        costs=_costs_of(state, state.candidates[chosen].plan),
        predictor=state.predictor,
    )


def _second_rung(state: _State) -> None:
    """Measures the most promising variants that prediction does not rule out, as many as the budget allows."""
    best = _by_rate(state)
    ways = list(dict.fromkeys((state.candidates[name].plan.kernel, _fused(state, name)) for name in best))[:2]
    leaders = [next(name for name in best if _way(state, name) == way) for way in ways]
    wanted = decoded_once(state.data, state.recipe, state.cores)
    for leader in leaders:
        base = state.candidates[leader].plan.replace(num_parallel_calls=state.cores + 1, prefetch=PREFETCH)
        if state.demand is not None:
            wanted += thrifty(base, state.cores)
        wanted += variants(base, state.cores)
    promising = _promising(state, list(dict.fromkeys(plan for plan in wanted if not state.known(plan))))
    count = max(0, state.affordable(ROUNDS[1], EARLY_SHARE))
    if promising and _much_faster(state, promising[0]):
        count = max(
            count, 1
        )  # also when the budget is used up: what is predicted to gain so much is worth one plan's time
    for plan in promising[count:]:
        state.skipped[_name(plan)] = state.predictor.predict(plan)
    _measure(state, {_name(plan): plan for plan in promising[:count]}, ROUNDS[1], "variants")


def _promising(state: _State, plans: list[Plan]) -> list[Plan]:
    """Those that may win, the likeliest first; the others are noted as skipped or refused."""
    fastest = max(_rates(state).values())
    likely: list[tuple[float, int, Plan]] = []
    for position, plan in enumerate(plans):
        footprint = predict_footprint(
            state.data,
            state.recipe,
            plan,
            split=state.split,
            cores=state.cores,
            picture_bytes=state.picture_bytes() if plan.cache == "decoded" else None,
        )
        reason = refusal(footprint, free_bytes=state.free_bytes)
        if reason is not None:
            state.refused[_name(plan)] = reason
            continue
        predicted = state.predictor.predict(plan)
        enough = state.demand is not None and predicted.high >= HEADROOM * state.demand
        if not enough and predicted.high < fastest:
            state.skipped[_name(plan)] = predicted
            continue
        # What suffices and uses few cores comes first; then the fastest. Predictions that differ by less than they can
        # tell keep the order in which they were proposed.
        if enough and plan.num_parallel_calls != "auto" and plan.num_parallel_calls < state.cores:
            likely.append((-float("inf"), plan.num_parallel_calls, plan))
        else:
            likely.append((-round(predicted.value / fastest / 0.04), position, plan))
    return [plan for _, _, plan in sorted(likely, key=lambda item: item[:2])]


def _much_faster(state: _State, plan: Plan) -> bool:
    """Whether a plan is predicted to gain so much that it is worth more than a longer final."""
    return state.predictor.predict(plan).value >= MUCH_FASTER * max(_rates(state).values())


def _final(state: _State, baselines: set[str]) -> list[str]:
    """Measures the finalists in turn and gives their names; without time for it, all that were measured."""
    ranked = _by_rate(state)
    baseline = next(name for name in ranked if name in baselines)
    names = [name for name in ranked if name != baseline]
    if state.demand is not None:
        # The plan to take may be a slower one that suffices at less cost.
        position = choose(
            [state.candidates[name] for name in ranked], demand_images_per_second=state.demand, cores=state.cores
        )
        names = [ranked[position], *(name for name in names if name != ranked[position])]
    fewest, most = FINAL_ROUNDS
    count = min(FINALISTS, state.affordable(fewest, 1.0))
    if count < 2:
        return ranked
    # More rounds for fewer plans: with a wide interval the final would decide nothing.
    while count > 2 and state.affordable(most, 1.0) < count:
        count -= 1
    rounds = most
    while rounds > fewest and state.affordable(rounds, 1.0) < count:
        rounds -= 1
    finalists = list(dict.fromkeys([*names[: count - 1], baseline]))
    _measure(state, {name: state.candidates[name].plan for name in finalists}, rounds, "finalists")
    return finalists


def _measure(state: _State, plans: Mapping[str, Plan], rounds: int, phase: str) -> None:
    if not plans:
        return
    for name, plan in plans.items():
        if name not in state.candidates:
            state.predicted[name] = state.predictor.predict(plan)

    def on_progress(progress: Progress) -> None:
        state.report(SearchProgress(phase, progress.name, progress.done, progress.total))

    state.report(SearchProgress(phase, next(iter(plans)), 0, len(plans) * (rounds + 1)))
    samples = state.measure(
        {name: _builder(state, plan) for name, plan in plans.items()},
        batch_size=state.recipe.batch_size,
        rounds=rounds,
        round_seconds=state.round_seconds,
        warm_up_seconds=WARM_UP_SECONDS,
        whole_first_epoch={name for name, plan in plans.items() if plan.cache != "none"},
        clock=state.clock,
        on_progress=on_progress,
    )
    for name, plan in plans.items():
        state.candidates[name] = Candidate(plan, samples[name])
        state.predictor.learn(plan, samples[name].images_per_second.value)


def _builder(state: _State, plan: Plan) -> Callable[[], tf.data.Dataset]:
    """Makes the pipeline of a plan; one that caches reads only a part of a large split, so that it fills in time.

    Whether the whole fits into memory was decided from the whole, not from this part.
    """
    parts = 1
    if plan.cache != "none":
        records = state.data.split(state.split).records
        seconds = records / state.predictor.predict(plan.replace(cache="none")).value
        parts = max(
            1, min(int(seconds / (CACHE_FILL_SHARE * state.budget_seconds)), records // state.recipe.batch_size)
        )
    return lambda: build(state.data, state.recipe, plan, split=state.split, num_shards=parts)


def _costs_of(state: _State, plan: Plan) -> Costs | None:
    """Costs of the way in which the chosen plan makes pictures, measured if the budget still allows it."""
    uncached = plan.replace(cache="none")
    known = state.predictor.calibrations.get(family(uncached))
    if known is not None or state.left() < START_SECONDS:
        return known
    state.report(SearchProgress("what the stages cost", _name(plan), 0, 1))
    state.predictor.calibrate(uncached, state.calibrate(uncached))
    return state.predictor.calibrations[family(uncached)]


def _calibrate(data: Data, recipe: Recipe, plan: Plan, split: str, clock: Callable[[], float]) -> Costs:
    return measure_costs(
        lambda serial: build(data, recipe, serial, split=split), plan, seconds=CALIBRATION_SECONDS, clock=clock
    )


def _rates(state: _State) -> dict[str, float]:
    return {name: candidate.samples.images_per_second.value for name, candidate in state.candidates.items()}


def _by_rate(state: _State) -> list[str]:
    """Names of what was measured, the fastest first; of equal ones the simplest."""
    rates = _rates(state)
    return sorted(rates, key=lambda name: (-rates[name], complexity(state.candidates[name].plan)))


def _way(state: _State, name: str) -> tuple[str, bool]:
    return state.candidates[name].plan.kernel, _fused(state, name)


def _fused(state: _State, name: str) -> bool:
    return state.candidates[name].plan.fused_decode_and_crop


def _name(plan: Plan) -> str:
    return plan_words(plan)
