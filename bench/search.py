"""Finds the plan to use: prediction says what is not worth running, measurement decides.

The search narrows in rungs (successive halving; Jamieson and Talwalkar 2016, "Non-stochastic best arm identification
and hyperparameter optimization"). Within a rung all plans are measured in turn, and those that may still win stay alive
into the next, so that no second is spent on starting them again:

1. the baselines, and one plan for every way of making pictures that no baseline uses;
2. variants of the best ways, as far as prediction does not rule them out;
3. the finalists, the best baseline always among them, for as many rounds as there is time.

What is chosen is chosen within the last rung, where every plan met the same minutes of the machine. Hence it is never
slower than the best baseline, but for noise, and a tie goes to the simplest plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from dataio.bench.bare import bare_seconds, decoded, take_sample
from dataio.bench.baselines import baseline_plans
from dataio.bench.candidates import PREFETCH, decoded_once, kernel_plans, thrifty, variants
from dataio.bench.choosing import HEADROOM, Candidate, choose
from dataio.bench.costs import Costs, measure_costs
from dataio.bench.idling import wait_until_idle
from dataio.bench.pool import START_SECONDS, Pool, SearchProgress, Supply
from dataio.bench.predicting import Predictor, family, is_kept
from dataio.bench.supply import LiveSupply
from dataio.bench.words import plan_words
from dataio.data import Data
from dataio.machine import usable_cores, usable_memory_bytes
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stall import Interval

__all__ = ["SearchProgress", "SearchResult", "calibrate_serially", "search"]

#: Seconds after which warming up is given up; see `LiveSupply`.
WARM_UP_SECONDS = 1.6
#: Rounds of a plan in the first two rungs: enough to tell what cannot win.
EARLY_ROUNDS = 2
#: Share of the budget for the first two rungs together; the rest is the final's.
EARLY_SHARE = 0.8
#: Rounds of the final, at least and at most. Five are enough for the bootstrap of a median; see
#: `stats.BOOTSTRAP_ROUNDS`.
FINAL_ROUNDS = (3, 9)
#: Plans in the final, the best baseline included.
FINALISTS = 4
#: A finalist whose median is below this share of the best one's leaves the final, once it had `FINAL_ROUNDS[0]` rounds:
#: rounds of a quiet machine spread by a few percent, of a busy one by 15 (own measurement).
OUT_OF_REACH = 0.88
#: A predicted gain for which the final waits.
MUCH_FASTER = 1.2
#: Budget below which what tells least is left out. The baseline `stage_based`: it was never the fastest by more than
#: noise in any run of tests/benchmarks/tuning.py. A serial run of a cache of decoded pictures: it is measured anyway.
FULL_SECONDS = 30.0
#: Seconds of the serial run that tells what reading and making a picture cost.
CALIBRATION_SECONDS = 0.8
#: Records and batches, at least, of the part of a dataset that a cache holds for that run.
CALIBRATION_RECORDS, CALIBRATION_BATCHES = 512, 8
#: Records and seconds of the bare loop that tells what cutting from decoded pictures costs.
CUT_RECORDS = 64
CUT_SECONDS = 0.2


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


def search(
    data: Data,
    recipe: Recipe,
    *,
    split: str = "train",
    demand: float | None = None,
    budget_seconds: float = 60.0,
    cores: int | None = None,
    free_bytes: int | None = None,
    whole: float = 1.0,
    supply: Callable[[], AbstractContextManager[Supply]] | None = None,
    calibrate: Callable[[Plan], Costs] | None = None,
    cut: Callable[[], float] | None = None,
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
        whole: how many times as large the dataset is of which `data` is a sample; caches that could not hold the whole
            are refused.
        supply: what measures pipelines.
        calibrate: costs of a plan run serially.
        cut: seconds that cutting a picture from decoded ones takes one core in the bare loop.
        clock: seconds, monotonic.
        on_progress: called as the search goes on.

    Raises:
        DataNotFound: no such split.
        RecipeError: the split does not fill a single batch.
    """
    cores = usable_cores() if cores is None else cores
    calibrate = calibrate or (lambda plan: calibrate_serially(data, recipe, plan, split=split, clock=clock))
    cut = cut or (lambda: _cut_seconds(data, recipe, split, clock))
    baselines = baseline_plans(data, recipe, cores=cores)
    if budget_seconds < FULL_SECONDS:
        baselines.pop("stage_based")
    covered = {(plan.kernel, plan.fused_decode_and_crop) for plan in baselines.values()}
    kernels = {
        plan_words(plan): plan
        for plan in kernel_plans(data, recipe, cores)
        if (plan.kernel, plan.fused_decode_and_crop) not in covered
    }
    live = (
        supply() if supply else LiveSupply(batch_size=recipe.batch_size, warm_up_seconds=WARM_UP_SECONDS, clock=clock)
    )
    with live as alive:
        pool = Pool(
            data=data,
            recipe=recipe,
            split=split,
            demand=demand,
            budget_seconds=budget_seconds,
            cores=cores,
            free_bytes=usable_memory_bytes() if free_bytes is None else free_bytes,
            supply=alive,
            predictor=Predictor(cores),
            report=on_progress or (lambda progress: None),
            clock=clock,
            whole=whole,
        )
        first = baselines | kernels
        pool.add(first, "starting baselines and kernels")
        # Not before: a dataset that fits into the page cache is there now, and reading it costs what it will cost.
        pool.report(SearchProgress("what reading and decoding cost", "", 0, 1))
        pool.predictor.calibrate(Plan(), calibrate(Plan()))
        for plan in _decoded(pool):
            if is_kept(plan) and pool.fits(plan):
                pool.predictor.kept_seconds = cut()
            elif budget_seconds >= FULL_SECONDS and pool.fits(plan):
                pool.predictor.calibrate(plan, calibrate(plan))
        pool.predict(first)
        pool.run_rounds(first, EARLY_ROUNDS, "baselines and kernels")
        _second_rung(pool, set(baselines))
        finalists = _final(pool, set(baselines))
    position = choose([pool.candidates[name] for name in finalists], demand_images_per_second=demand, cores=cores)
    chosen = finalists[position]
    return SearchResult(
        candidates=pool.candidates,
        finalists=tuple(finalists),
        chosen=chosen,
        baselines=frozenset(baselines),
        predicted=pool.predicted,
        skipped=pool.skipped,
        refused=pool.refused,
        costs=_costs_of(pool, pool.candidates[chosen].plan, calibrate),
        predictor=pool.predictor,
    )


def _second_rung(pool: Pool, baselines: set[str]) -> None:
    """Measures the most promising variants that prediction does not rule out, as many as the budget allows."""
    best = pool.by_rate()
    ways = list(dict.fromkeys(_way(pool, name) for name in best))[:2]
    leaders = [next(name for name in best if _way(pool, name) == way) for way in ways]
    wanted = _decoded(pool)
    for leader in leaders:
        base = pool.candidates[leader].plan.replace(num_parallel_calls=pool.cores + 1, prefetch=PREFETCH)
        if pool.demand is not None:
            wanted += thrifty(base, pool.cores)
        wanted += variants(base, pool.cores)
    promising = _promising(pool, list(dict.fromkeys(plan for plan in wanted if not pool.known(plan))))
    pool.keep(_finalists(pool, baselines, FINALISTS))
    left = pool.left(EARLY_SHARE)
    added: list[str] = []
    for plan in promising:
        needed = pool.start_seconds(plan) + EARLY_ROUNDS * pool.turn_seconds
        # What is predicted to gain much is worth one plan's time also when the budget is used up.
        worth_it = needed <= left or (not added and _much_faster(pool, plan))
        if not worth_it or not pool.has_room(plan):
            pool.skipped[plan_words(plan)] = pool.predictor.predict(plan)
            continue
        pool.predict({plan_words(plan): plan})
        pool.add({plan_words(plan): plan}, "starting variants")
        added.append(plan_words(plan))
        left = pool.left(EARLY_SHARE) - len(added) * EARLY_ROUNDS * pool.turn_seconds
    if added:
        pool.run_rounds(added, EARLY_ROUNDS, "variants")


def _promising(pool: Pool, plans: list[Plan]) -> list[Plan]:
    """Those that may win, the likeliest first; the others are noted as skipped or refused."""
    fastest = max(pool.rates().values())
    likely: list[tuple[float, int, Plan]] = []
    for position, plan in enumerate(plans):
        if pool.refuse(plan):
            continue
        predicted = pool.predictor.predict(plan)
        enough = pool.demand is not None and predicted.high >= HEADROOM * pool.demand
        if not enough and predicted.high < fastest:
            pool.skipped[plan_words(plan)] = predicted
            continue
        # What suffices and uses few cores comes first; then the fastest. Predictions that differ by less than they can
        # tell keep the order in which they were proposed.
        if enough and plan.num_parallel_calls != "auto" and plan.num_parallel_calls < pool.cores:
            likely.append((-float("inf"), plan.num_parallel_calls, plan))
        else:
            likely.append((-round(predicted.value / fastest / 0.04), position, plan))
    return [plan for _, _, plan in sorted(likely, key=lambda item: item[:2])]


def _much_faster(pool: Pool, plan: Plan) -> bool:
    """Whether a plan is predicted to gain so much that it is worth more than a longer final."""
    return pool.predictor.predict(plan).value >= MUCH_FASTER * max(pool.rates().values())


def _final(pool: Pool, baselines: set[str]) -> list[str]:
    """Measures the finalists in turn and gives their names; without time for it, all that were measured."""
    fewest, most = FINAL_ROUNDS
    count = min(FINALISTS, int(pool.left() / (fewest * pool.turn_seconds)))
    if count < 2:
        return pool.by_rate()
    finalists = _finalists(pool, baselines, count)
    pool.keep(finalists)
    pool.run_rounds(finalists, fewest, "finalists")
    rounds = fewest
    if pool.demand is None:
        best = max(pool.rates()[name] for name in finalists)
        finalists = [name for name in finalists if pool.rates()[name] >= OUT_OF_REACH * best]
    while len(finalists) > 1 and rounds < most and pool.left() >= len(finalists) * pool.turn_seconds:
        pool.run_rounds(finalists, 1, "finalists", since=rounds)
        rounds += 1
    return finalists


def _finalists(pool: Pool, baselines: set[str], count: int) -> list[str]:
    """The plan that would be taken now, the fastest others, and the best baseline; at most `count`, at least 2."""
    ranked = pool.by_rate()
    baseline = next(name for name in ranked if name in baselines)
    first = list(ranked)
    if pool.demand is not None:  # the plan to take may be a slower one that suffices at less cost
        candidates = [pool.candidates[name] for name in ranked]
        taken = ranked[choose(candidates, demand_images_per_second=pool.demand, cores=pool.cores)]
        first = [taken, *(name for name in ranked if name != taken)]
    others = [name for name in first if name != baseline]
    return [*others[: count - 1], baseline]


def _costs_of(pool: Pool, plan: Plan, calibrate: Callable[[Plan], Costs]) -> Costs | None:
    """Costs of the way in which the chosen plan makes pictures, measured if the budget still allows it."""
    uncached = plan.replace(cache="none")
    known = pool.predictor.calibrations.get(family(uncached))
    if known is not None or pool.left() < START_SECONDS:
        return known
    pool.report(SearchProgress("what the stages cost", plan_words(plan), 0, 1))
    pool.predictor.calibrate(uncached, calibrate(uncached))
    return pool.predictor.calibrations[family(uncached)]


def calibrate_serially(
    data: Data, recipe: Recipe, plan: Plan, *, split: str, clock: Callable[[], float] = time.perf_counter
) -> Costs:
    """What the stages of `plan` cost serially: what `Predictor.calibrate` takes. A cache is filled first, by a part of
    the split.

    Args:
        data: the dataset.
        recipe: what a batch is.
        plan: its kernel, decoding and cache are kept.
        split: the split to read.
        clock: seconds, monotonic.
    """
    caches = plan.cache != "none"
    records = max(CALIBRATION_RECORDS, CALIBRATION_BATCHES * recipe.batch_size)
    parts = max(1, data.split(split).records // records) if caches else 1
    wait_until_idle()
    return measure_costs(
        lambda serial: build(data, recipe, serial, split=split, num_shards=parts),
        plan,
        seconds=CALIBRATION_SECONDS,
        whole_first_epoch=caches,
        clock=clock,
    )


def _cut_seconds(data: Data, recipe: Recipe, split: str, clock: Callable[[], float]) -> float:
    pictures = decoded(take_sample(data, split=split, records=CUT_RECORDS))
    return bare_seconds(pictures, recipe, fused=False, seconds=CUT_SECONDS, clock=clock)


def _decoded(pool: Pool) -> list[Plan]:
    return decoded_once(pool.data, pool.recipe, pool.cores, split=pool.split, free_bytes=pool.free_bytes)


def _way(pool: Pool, name: str) -> tuple[str, bool]:
    plan = pool.candidates[name].plan
    return plan.kernel, plan.fused_decode_and_crop
