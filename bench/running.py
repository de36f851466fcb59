"""A whole bench run: measure plans, choose one, run the step on it, judge, and put everything into one record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dataio.bench.bounds import find_bounds
from dataio.bench.choosing import choose
from dataio.bench.cold import measure_cold
from dataio.bench.costs import measure_costs
from dataio.bench.grid import Sweep
from dataio.bench.looping import MOST_ADVICE, advice, remedies_for, run_loop
from dataio.bench.machine import describe_machine, versions
from dataio.bench.recording import (
    Measured,
    cost_records,
    dataset_records,
    merge,
    refused_records,
    run_records,
    skipped_records,
)
from dataio.bench.results import Loop, Remedy, Results
from dataio.bench.search import SearchProgress, search
from dataio.bench.setting import BenchProgress, OnProgress, Setting
from dataio.bench.stats import noise_floor
from dataio.bench.step import Step
from dataio.bench.sweeping import run_sweep, sweep_seconds
from dataio.data import Data
from dataio.machine import usable_cores
from dataio.recipe import Recipe

__all__ = ["BenchProgress", "Sample", "bench_seconds", "run_bench", "short_names"]

#: Share of the budget that the loops with the step get, and the least and most seconds of one: the shortest that can
#: decide anything, and what is enough for nearly all.
STALL_SHARE = 0.4
LOOP_SECONDS = (6.0, 20.0)

#: Seconds beside plans and loops: looking at the machine, reading cold.
OTHER_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A part of a dataset, stored in another way."""

    data: Data
    """The part."""
    whole: float
    """How many times as large the whole dataset is."""


def bench_seconds(datasets: Sequence[Data], sweep: Sweep, recipe: Recipe, *, split: str, step: bool) -> float:
    """About how long a run with a sweep will take, so that it can be said beforehand."""
    return sweep_seconds(datasets, sweep, recipe, split=split) + 2 * LOOP_SECONDS[1] * step + OTHER_SECONDS


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
    setting = Setting(recipe, split, demand, usable_cores(), on_progress or (lambda progress: None), clock)
    for data in datasets:
        data.split(split)
    setting.report(BenchProgress("looking at the machine", "", 0, 1))
    machine = describe_machine([data.path for data in datasets])
    loop_seconds = min(max(STALL_SHARE * budget_seconds / 2, LOOP_SECONDS[0]), LOOP_SECONDS[1])
    loops_seconds = 0.0 if step is None else 2 * loop_seconds
    measured = [Measured(name, data) for name, data in zip(short_names(datasets), datasets, strict=True)]
    own = len(measured)
    measured += [Measured(name, sample.data, whole=sample.whole) for name, sample in (samples or {}).items()]
    search_seconds = max(0.0, budget_seconds - OTHER_SECONDS - loops_seconds) / len(measured)
    for one in measured:
        if sweep:
            run_sweep(setting, one, sweep)
        else:
            _search(setting, one, search_seconds)
    best = [one.best for one in measured[:own]]
    chosen = measured[choose(best, demand_images_per_second=demand, cores=setting.cores)]
    if chosen.costs is None:  # the search had no time left for it
        plan = chosen.best.plan.replace(cache="none")
        setting.report(BenchProgress(f"what the stages cost on {chosen.name}", chosen.chosen, 0, 1))
        chosen.costs = measure_costs(lambda serial: setting.builder(chosen.data, serial)(), plan, clock=clock)
    loops: list[Loop] = []
    verdict = before = description = None
    if step is not None:
        before, description = run_loop(setting, chosen, "autotune", step, loop_seconds, loops)
        verdict = before
        if chosen.chosen != "autotune":
            verdict, description = run_loop(setting, chosen, chosen.chosen, step, loop_seconds, loops)
    remedies: tuple[Remedy, ...] = ()
    if verdict is not None and verdict.outcome != "fed":
        remedies = remedies_for(setting, chosen, verdict)
        verdict = verdict.replace(advice=(*verdict.advice, *map(advice, remedies[:MOST_ADVICE])))
    setting.report(BenchProgress(f"what hardware allows on {chosen.name}", "", 0, 1))
    at = str(chosen.data.path.resolve())
    bounds = find_bounds(
        chosen.data,
        recipe,
        split=split,
        cores=setting.cores,
        storage=next((storage for storage in machine.storage if storage.path == at), None),
    )
    for one in measured:
        setting.report(BenchProgress(f"reading {one.name} cold", one.chosen, 0, 1))
        one.cold_images_per_second = measure_cold(one.data.path, setting.builder(one.data, one.best.plan), clock=clock)
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


def _search(setting: Setting, one: Measured, seconds: float) -> None:
    """Lets the search find the plan within the time."""

    def on_progress(progress: SearchProgress) -> None:
        words = f"{progress.phase} on {one.name}"
        setting.report(BenchProgress(words, progress.plan, progress.done, progress.total))

    found = search(
        one.data,
        setting.recipe,
        split=setting.split,
        demand=setting.demand,
        budget_seconds=seconds,
        cores=setting.cores,
        whole=one.whole,
        clock=setting.clock,
        on_progress=on_progress,
    )
    merge(one, found.candidates)
    one.baselines = set(found.baselines)
    one.chosen = found.chosen
    one.predicted, one.skipped, one.refused = dict(found.predicted), dict(found.skipped), dict(found.refused)
    one.costs, one.predictor = found.costs, found.predictor
