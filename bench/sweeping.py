"""Measures a whole grid of plans, and the baselines, on one dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dataio.bench.baselines import baseline_plans
from dataio.bench.choosing import Candidate, choose
from dataio.bench.costs import measure_costs
from dataio.bench.footprint import predict_footprint, refusal
from dataio.bench.grid import Sweep, grid_plans
from dataio.bench.measuring import Progress, measure_supply
from dataio.bench.predicting import Predictor
from dataio.bench.recording import Measured, merge
from dataio.bench.setting import BenchProgress, Setting
from dataio.data import Data
from dataio.machine import usable_cores, usable_memory_bytes
from dataio.plan import Plan
from dataio.recipe import Recipe

#: Rounds of every plan of a sweep, and their length. Source: own measurement: five is the fewest from which the
#: bootstrap of a median can be trusted, and shorter rounds are dominated by the scheduler on a busy machine.
ROUNDS = 5
ROUND_SECONDS = 0.7

#: Seconds after which warming up is given up; see `measure_supply`.
WARM_UP_SECONDS = 3.0

#: Plans of a sweep measured in turn. More would hold their buffers, and caches, in memory at the same time.
GROUP = 6

#: Plans of a sweep that are measured again, in turn, before one is chosen.
FINALISTS = 4

#: Seconds that starting and warming up a plan takes, and how much longer than its round a round lasts, because it
#: settles first. Source: own measurement; they only serve to say how long a sweep will take.
START_SECONDS = 3.0
ROUND_OVERHEAD = 1.5

#: Rate at which the time of an epoch that fills a cache is guessed before anything was measured, images/s a core.
#: Source: own measurement: one core decodes, cuts and resizes 500 to 600 photographs of 500x375 in a second.
GUESSED_RATE = 500.0


def sweep_seconds(datasets: Sequence[Data], sweep: Sweep, recipe: Recipe, *, split: str) -> float:
    """About how long measuring a sweep and the baselines will take, so that it can be said beforehand.

    Args:
        datasets: what will be measured.
        sweep: from `parse_sweep`.
        recipe: what a batch is.
        split: the split.
    """
    per_plan = START_SECONDS + ROUNDS * ROUND_SECONDS * ROUND_OVERHEAD
    total = 0.0
    for data in datasets:
        plans = _sweep_plans(data, recipe, sweep)
        epoch = data.split(split).records / (GUESSED_RATE * usable_cores())
        finalists = FINALISTS if len(plans) > GROUP else 0
        total += per_plan * (len(plans) + finalists) + epoch * sum(plan.cache != "none" for plan in plans.values())
    return total


def _sweep_plans(data: Data, recipe: Recipe, sweep: Sweep) -> dict[str, Plan]:
    """Baselines and grid; a plan of the grid that is a baseline's is measured once, under the baseline's name."""
    baselines = baseline_plans(data, recipe)
    return baselines | {name: plan for name, plan in grid_plans(sweep).items() if plan not in baselines.values()}


def run_sweep(setting: Setting, one: Measured, sweep: Sweep) -> None:
    """Measures the whole grid, and chooses."""
    plans = _sweep_plans(one.data, setting.recipe, sweep)
    for plan in plans.values():
        plan.check(setting.recipe)
    one.baselines = set(baseline_plans(one.data, setting.recipe))
    possible = _possible(setting, one, plans)
    names = list(possible)
    phase = f"sweep on {one.name}"
    for first in range(0, len(names), GROUP):
        group = {name: possible[name] for name in names[first : first + GROUP]}
        merge(one, _measure_group(setting, one, group, phase=phase, before=first, total=len(names)))
    ordered = list(one.candidates)
    if len(ordered) > GROUP:
        # Groups met different minutes of the machine: those that may win meet the same ones again.
        ordered = _finalists(setting, one)
        group = {name: possible[name] for name in ordered}
        again = _measure_group(setting, one, group, phase=f"finalists on {one.name}", before=0, total=len(group))
        one.candidates.update(again)
    position = choose(
        [one.candidates[name] for name in ordered], demand_images_per_second=setting.demand, cores=setting.cores
    )
    one.chosen = ordered[position]
    plan = one.best.plan.replace(cache="none")
    setting.report(BenchProgress(f"what the stages cost on {one.name}", one.chosen, 0, 1))
    one.costs = measure_costs(lambda plan: setting.builder(one.data, plan)(), plan, clock=setting.clock)
    one.predictor = Predictor(setting.cores)
    one.predictor.calibrate(plan, one.costs)
    for candidate in one.candidates.values():
        one.predictor.learn(candidate.plan, candidate.samples.images_per_second.value)


def _finalists(setting: Setting, one: Measured) -> list[str]:
    """The plan that would be taken now, the fastest others, and the best baseline."""
    ranked = sorted(one.candidates, key=lambda name: -one.candidates[name].samples.images_per_second.value)
    position = choose(
        [one.candidates[name] for name in ranked], demand_images_per_second=setting.demand, cores=setting.cores
    )
    baseline = next(name for name in ranked if name in one.baselines)
    first = list(dict.fromkeys([ranked[position], baseline]))
    return [*first, *(name for name in ranked if name not in first)][:FINALISTS]


def _possible(setting: Setting, one: Measured, plans: Mapping[str, Plan]) -> dict[str, Plan]:
    """The baselines, and the plans that fit into memory; the others are noted as refused."""
    free = usable_memory_bytes()
    possible = {}
    for name, plan in plans.items():
        footprint = predict_footprint(
            one.data, setting.recipe, plan, split=setting.split, cores=setting.cores, whole=one.whole
        )
        reason = refusal(footprint, free_bytes=free)
        if reason is None or name in one.baselines:
            possible[name] = plan
        else:
            one.refused[name] = reason
    return possible


def _measure_group(
    setting: Setting, one: Measured, group: Mapping[str, Plan], *, phase: str, before: int, total: int
) -> dict[str, Candidate]:
    """Measures some plans in turn."""

    def on_progress(progress: Progress) -> None:
        setting.report(BenchProgress(phase, progress.name, before * (ROUNDS + 1) + progress.done, total * (ROUNDS + 1)))

    setting.report(BenchProgress(phase, next(iter(group)), before * (ROUNDS + 1), total * (ROUNDS + 1)))
    samples = measure_supply(
        {name: setting.builder(one.data, plan) for name, plan in group.items()},
        batch_size=setting.recipe.batch_size,
        rounds=ROUNDS,
        round_seconds=ROUND_SECONDS,
        warm_up_seconds=WARM_UP_SECONDS,
        whole_first_epoch={name for name, plan in group.items() if plan.cache != "none"},
        clock=setting.clock,
        on_progress=on_progress,
    )
    return {name: Candidate(plan, samples[name]) for name, plan in group.items()}
