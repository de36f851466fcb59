"""A whole bench run: measure plans, choose one, run the step on it, judge, and put everything into one record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dataio.bench.baselines import baseline_plans
from dataio.bench.bounds import find_bounds
from dataio.bench.choosing import Candidate, choose
from dataio.bench.cold import measure_cold
from dataio.bench.costs import measure_costs
from dataio.bench.footprint import predict_footprint, refusal
from dataio.bench.grid import Sweep, grid_plans
from dataio.bench.judging import Verdict, judge
from dataio.bench.machine import describe_machine, versions
from dataio.bench.measuring import Progress, StallSamples, measure_stall, measure_supply
from dataio.bench.predicting import Predictor
from dataio.bench.recording import (
    Measured,
    cost_records,
    dataset_records,
    loop_record,
    merge,
    refused_records,
    run_records,
    skipped_records,
    step_record,
)
from dataio.bench.remedies import Situation, find_remedies
from dataio.bench.results import Loop, Remedy, Results, StepDescription
from dataio.bench.search import SearchProgress, search
from dataio.bench.stats import noise_floor
from dataio.bench.step import Step
from dataio.bench.words import rate_words
from dataio.data import Data
from dataio.machine import usable_cores, usable_memory_bytes
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe

if TYPE_CHECKING:
    import tensorflow as tf

#: Rounds of every plan of a sweep, and their length. Source: own measurement: five is the fewest from which the
#: bootstrap of a median can be trusted, and shorter rounds are dominated by the scheduler on a busy machine.
ROUNDS = 5
ROUND_SECONDS = 0.7

#: Seconds after which warming up is given up; see `measure_supply`.
WARM_UP_SECONDS = 3.0

#: Plans of a sweep measured in turn. More would hold their buffers, and caches, in memory at the same time.
GROUP = 6

#: Seconds that starting and warming up a plan takes, and how much longer than its round a round lasts, because it
#: settles first. Source: own measurement; they only serve to say how long a sweep will take.
START_SECONDS = 3.0
ROUND_OVERHEAD = 1.5

#: Share of the budget that the loops with the step get, and the least and most seconds of one: the shortest that can
#: decide anything, and what is enough for nearly all.
STALL_SHARE = 0.4
LOOP_SECONDS = (6.0, 20.0)

#: Remedies that the verdict itself names; all of them are in the results.
MOST_ADVICE = 3

#: Seconds beside plans and loops: looking at the machine, reading cold.
OTHER_SECONDS = 4.0

#: Rate at which the time of an epoch that fills a cache is guessed before anything was measured, images/s a core.
#: Source: own measurement: one core decodes, cuts and resizes 500 to 600 photographs of 500x375 in a second.
GUESSED_RATE = 500.0


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


@dataclass(frozen=True, slots=True)
class Sample:
    """A part of a dataset, stored in another way."""

    data: Data
    """The part."""
    whole: float
    """How many times as large the whole dataset is."""


OnProgress = Callable[[BenchProgress], None]


@dataclass(frozen=True)
class _Bench:
    """What stays the same during a run."""

    recipe: Recipe
    split: str
    demand: float | None
    cores: int
    report: OnProgress
    clock: Callable[[], float]

    def builder(self, data: Data, plan: Plan) -> Callable[[], tf.data.Dataset]:
        return lambda: build(data, self.recipe, plan, split=self.split)


def sweep_seconds(datasets: Sequence[Data], sweep: Sweep, recipe: Recipe, *, split: str, step: bool) -> float:
    """About how long a sweep will take, so that it can be said beforehand.

    Args:
        datasets: what will be measured.
        sweep: from `parse_sweep`.
        recipe: what a batch is.
        split: the split.
        step: whether a step runs as well.
    """
    per_plan = START_SECONDS + ROUNDS * ROUND_SECONDS * ROUND_OVERHEAD
    total = 2 * LOOP_SECONDS[1] * step + OTHER_SECONDS
    for data in datasets:
        plans = _sweep_plans(data, recipe, sweep)
        epoch = data.split(split).records / (GUESSED_RATE * usable_cores())
        total += per_plan * len(plans) + epoch * sum(plan.cache != "none" for plan in plans.values())
    return total


def run_bench(
    datasets: Sequence[Data],
    recipe: Recipe,
    *,
    split: str = "train",
    step: Step | None = None,
    sweep: Sweep | None = None,
    samples: Mapping[str, Sample] | None = None,
    budget_seconds: float = 60.0,
    command: str = "",
    on_progress: OnProgress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Results:
    """Measures plans on every dataset, chooses one, and judges the step on it.

    Args:
        datasets: opened datasets, at least one.
        recipe: what a batch is.
        split: the split to read.
        step: what consumes the batches; None measures supply alone.
        sweep: a grid to measure whole, whatever it takes; None searches within the budget.
        samples: samples of other ways of storing, by name: measured for comparison, never chosen.
        budget_seconds: time for everything, divided among the datasets; the baselines are measured whatever it says,
            and a sweep ignores it.
        command: command line, kept in the results.
        on_progress: called as the run goes on.
        clock: seconds, monotonic.

    Raises:
        DataNotFound: a dataset has no such split.
        PlanError: the recipe forbids a plan that the sweep asks for.
        RecipeError: the split does not fill a single batch.
        StepError: the step cannot be run.
    """
    start = clock()
    demand = None if step is None or step.step_seconds is None else recipe.batch_size / step.step_seconds
    bench = _Bench(recipe, split, demand, usable_cores(), on_progress or (lambda progress: None), clock)
    for data in datasets:
        data.split(split)
    bench.report(BenchProgress("looking at the machine", "", 0, 1))
    machine = describe_machine([data.path for data in datasets])
    loop_seconds = min(max(STALL_SHARE * budget_seconds / 2, LOOP_SECONDS[0]), LOOP_SECONDS[1])
    loops_seconds = 0.0 if step is None else 2 * loop_seconds
    measured = [Measured(name, data) for name, data in zip(short_names(datasets), datasets, strict=True)]
    own = len(measured)
    measured += [Measured(name, sample.data, whole=sample.whole) for name, sample in (samples or {}).items()]
    search_seconds = max(0.0, budget_seconds - OTHER_SECONDS - loops_seconds) / len(measured)
    for one in measured:
        if sweep:
            _sweep(bench, one, sweep)
        else:
            _search(bench, one, search_seconds)
        _drop_caches_of_samples(bench, one)
    best = [one.best for one in measured[:own]]
    chosen = measured[choose(best, demand_images_per_second=demand, cores=bench.cores)]
    loops: list[Loop] = []
    verdict = before = description = None
    if step is not None:
        before, description = _judge(bench, chosen, "autotune", step, loop_seconds, loops)
        verdict = before
        if chosen.chosen != "autotune":
            verdict, description = _judge(bench, chosen, chosen.chosen, step, loop_seconds, loops)
    remedies: tuple[Remedy, ...] = ()
    if verdict is not None and verdict.outcome != "fed":
        remedies = _remedies(bench, chosen, verdict)
        verdict = verdict.replace(advice=(*verdict.advice, *map(_advice, remedies[:MOST_ADVICE])))
    bench.report(BenchProgress(f"what hardware allows on {chosen.name}", "", 0, 1))
    at = str(chosen.data.path.resolve())
    bounds = find_bounds(
        chosen.data,
        recipe,
        split=split,
        cores=bench.cores,
        storage=next((storage for storage in machine.storage if storage.path == at), None),
    )
    for one in measured:
        bench.report(BenchProgress(f"reading {one.name} cold", one.chosen, 0, 1))
        one.cold_images_per_second = measure_cold(one.data.path, bench.builder(one.data, one.best.plan), clock=clock)
    return Results(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        recipe=recipe,
        split=split,
        step=description,
        datasets=dataset_records(measured, split),
        runs=tuple(run for one in measured for run in run_records(one, chosen=one is chosen)),
        verdict=verdict,
        verdict_before=before,
        loops=tuple(loops),
        skipped=skipped_records(measured),
        refused=refused_records(measured),
        noise=noise_floor(
            candidate.samples.round_images_per_second for one in measured for candidate in one.candidates.values()
        ),
        bounds=bounds,
        costs=cost_records(chosen.costs),
        remedies=remedies,
        sweep=dict(sweep or {}),
        machine=machine,
        versions=versions(),
        seconds=clock() - start,
    )


def short_names(datasets: Sequence[Data]) -> list[str]:
    """A name for each dataset: the last part of its path, and as many parts more as tell it from the others."""
    paths = [data.path.resolve() for data in datasets]
    for parts in range(1, max((len(path.parts) for path in paths), default=1) + 1):
        names = [str(Path(*path.parts[-parts:])) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path} ({number})" for number, path in enumerate(paths, start=1)]  # the same path twice


def _search(bench: _Bench, one: Measured, seconds: float) -> None:
    """Lets the search find the plan within the time."""

    def on_progress(progress: SearchProgress) -> None:
        words = f"{progress.phase} on {one.name}"
        bench.report(BenchProgress(words, progress.plan, progress.done, progress.total))

    found = search(
        one.data,
        bench.recipe,
        split=bench.split,
        demand=bench.demand,
        budget_seconds=seconds,
        cores=bench.cores,
        clock=bench.clock,
        on_progress=on_progress,
    )
    merge(one, found.candidates)
    one.baselines = set(found.baselines)
    one.chosen = found.chosen
    one.predicted, one.skipped, one.refused = dict(found.predicted), dict(found.skipped), dict(found.refused)
    one.costs, one.predictor = found.costs, found.predictor


def _sweep_plans(data: Data, recipe: Recipe, sweep: Sweep) -> dict[str, Plan]:
    """Baselines and grid; a plan of the grid that is a baseline's is measured once, under the baseline's name."""
    baselines = baseline_plans(data, recipe)
    return baselines | {name: plan for name, plan in grid_plans(sweep).items() if plan not in baselines.values()}


def _sweep(bench: _Bench, one: Measured, sweep: Sweep) -> None:
    """Measures the whole grid, and chooses."""
    plans = _sweep_plans(one.data, bench.recipe, sweep)
    for plan in plans.values():
        plan.check(bench.recipe)
    one.baselines = set(baseline_plans(one.data, bench.recipe))
    possible = _possible(bench, one, plans)
    names = list(possible)
    for first in range(0, len(names), GROUP):
        group = {name: possible[name] for name in names[first : first + GROUP]}
        _measure_group(bench, one, group, before=first, total=len(names))
    ordered = list(one.candidates)
    position = choose(
        [one.candidates[name] for name in ordered], demand_images_per_second=bench.demand, cores=bench.cores
    )
    one.chosen = ordered[position]
    plan = one.best.plan.replace(cache="none")
    bench.report(BenchProgress(f"what the stages cost on {one.name}", one.chosen, 0, 1))
    one.costs = measure_costs(lambda plan: bench.builder(one.data, plan)(), plan, clock=bench.clock)
    one.predictor = Predictor(bench.cores)
    one.predictor.calibrate(plan, one.costs)
    for candidate in one.candidates.values():
        one.predictor.learn(candidate.plan, candidate.samples.images_per_second.value)


def _drop_caches_of_samples(bench: _Bench, one: Measured) -> None:
    """A cache that holds a sample says nothing about one that must hold the whole: where the whole does not fit, plans
    that cache are taken out."""
    if one.whole <= 1:
        return
    free = usable_memory_bytes()
    for name in [name for name, candidate in one.candidates.items() if candidate.plan.cache != "none"]:
        plan = one.candidates[name].plan
        footprint = predict_footprint(one.data, bench.recipe, plan, split=bench.split, cores=bench.cores)
        whole = replace(footprint, cache_bytes=round(footprint.cache_bytes * one.whole))
        reason = refusal(whole, free_bytes=free)
        if reason is not None:
            del one.candidates[name]
            one.refused[name] = f"the sample fits into memory, but the whole does not: {reason}"
    if one.chosen not in one.candidates:
        names = list(one.candidates)
        position = choose(
            [one.candidates[name] for name in names], demand_images_per_second=bench.demand, cores=bench.cores
        )
        one.chosen = names[position]


def _possible(bench: _Bench, one: Measured, plans: Mapping[str, Plan]) -> dict[str, Plan]:
    """The baselines, and the plans that fit into memory; the others are noted as refused."""
    free = usable_memory_bytes()
    possible = {}
    for name, plan in plans.items():
        footprint = predict_footprint(one.data, bench.recipe, plan, split=bench.split, cores=bench.cores)
        reason = refusal(footprint, free_bytes=free)
        if reason is None or name in one.baselines:
            possible[name] = plan
        else:
            one.refused[name] = reason
    return possible


def _measure_group(bench: _Bench, one: Measured, group: Mapping[str, Plan], *, before: int, total: int) -> None:
    phase = f"sweep on {one.name}"

    def on_progress(progress: Progress) -> None:
        bench.report(BenchProgress(phase, progress.name, before * (ROUNDS + 1) + progress.done, total * (ROUNDS + 1)))

    bench.report(BenchProgress(phase, next(iter(group)), before * (ROUNDS + 1), total * (ROUNDS + 1)))
    samples = measure_supply(
        {name: bench.builder(one.data, plan) for name, plan in group.items()},
        batch_size=bench.recipe.batch_size,
        rounds=ROUNDS,
        round_seconds=ROUND_SECONDS,
        warm_up_seconds=WARM_UP_SECONDS,
        whole_first_epoch={name for name, plan in group.items() if plan.cache != "none"},
        clock=bench.clock,
        on_progress=on_progress,
    )
    merge(one, {name: Candidate(plan, samples[name]) for name, plan in group.items()})


def _judge(
    bench: _Bench, one: Measured, name: str, step: Step, seconds: float, loops: list[Loop]
) -> tuple[Verdict, StepDescription]:
    """Runs the step on a plan and judges; the loop is added to `loops`."""
    candidate = one.candidates[name]
    bench.report(BenchProgress(f"training loop on {one.name}", name, len(loops), 2))
    samples: StallSamples = measure_stall(
        bench.builder(one.data, candidate.plan),
        step,
        batch_size=bench.recipe.batch_size,
        budget_seconds=seconds,
        whole_first_epoch=candidate.plan.cache != "none",
        clock=bench.clock,
    )
    loops.append(loop_record(name, one.name, samples))
    verdict = judge(
        samples.stall,
        supply=candidate.samples.images_per_second,
        demand_images_per_second=samples.demand_images_per_second,
        step_name=step.name,
        limit=_limit(one, bench.cores),
        budget_seconds=seconds if samples.budget_ended else None,
    )
    return verdict, step_record(step, samples)


def _remedies(bench: _Bench, one: Measured, verdict: Verdict) -> tuple[Remedy, ...]:
    if one.predictor is None:
        return ()
    bench.report(BenchProgress(f"what would help on {one.name}", one.chosen, 0, 1))
    situation = Situation(
        data=one.data,
        recipe=bench.recipe,
        split=bench.split,
        plan=one.best.plan,
        images_per_second=one.best.samples.images_per_second.value,
        predictor=one.predictor,
        cores=bench.cores,
        free_bytes=usable_memory_bytes(),
        demand_images_per_second=verdict.demand_images_per_second,
    )
    return find_remedies(situation)


def _advice(remedy: Remedy) -> str:
    if remedy.images_per_second is None:
        return remedy.title
    return f"{remedy.title.rstrip('.')}: {rate_words(remedy.images_per_second)} images/s predicted"


def _limit(one: Measured, cores: int) -> str | None:
    """What limits the supply, in words: the stage that takes most processor time."""
    if not one.costs:
        return None
    stages = cost_records(one.costs)
    slowest = max(stages, key=lambda stage: stage.cpu_milliseconds_per_image)
    return f"the stage '{slowest.stage}' ({slowest.share:.0%} of the processor time) on {cores} cores"
