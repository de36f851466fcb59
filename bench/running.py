"""A whole bench run: measure the plans, choose one, run the step on it, judge, and put everything into one record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from dataio.bench.baselines import baseline_plans

from dataio.bench.choosing import Candidate, choose
from dataio.bench.cold import measure_cold
from dataio.bench.grid import Sweep, grid_plans
from dataio.bench.judging import Verdict, judge
from dataio.bench.machine import describe_machine, versions
from dataio.bench.measuring import Progress, SupplySamples, measure_stall, measure_supply
from dataio.bench.results import Dataset, Loop, Rate, Refused, Results, Run, StepDescription
from dataio.bench.stats import noise_floor
from dataio.bench.step import ACCELERATORS, Step
from dataio.data import Data
from dataio.machine import usable_cores, usable_memory_bytes
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe

#: Rounds of every plan and their length. Source: own measurement: five is the fewest from which the bootstrap of a
#: median can be trusted, and rounds shorter than 0.7 s are dominated by the scheduler on a busy machine.
ROUNDS = 5
ROUND_SECONDS = 0.7

#: Plans measured in turn. More of them would hold their buffers, and caches, in memory at the same time.
GROUP = 6

#: Seconds that warming up takes at the median and at most. Source: own measurement; see `measuring.STEADY_GAIN`.
WARM_UP_SECONDS = 2.0
WARM_UP_LIMIT_SECONDS = 3.0

#: Share of the memory that is free which a cache may take. The rest is for the model, its batches and the page cache.
CACHE_SHARE = 0.8

#: Share of the budget that the loop with the step gets, before and after together.
STALL_SHARE = 0.4
#: Least and most seconds of one loop: the shortest that can decide anything, and what is enough for nearly all.
LOOP_SECONDS = (6.0, 20.0)

#: Rate at which the time of an epoch that fills a cache is guessed before anything was measured, images/s a core.
#: Source: own measurement: one core decodes, cuts and resizes 500 to 600 photographs of 500x375 in a second.
GUESSED_RATE = 500.0


@dataclass(frozen=True, slots=True)
class BenchProgress:
    """How far a bench run is."""

    phase: str
    """What is being done, in words: `baselines of photos`, `loop with autotune` …"""
    detail: str
    """The plan in work."""
    done: int
    """Pieces of this phase that are finished."""
    total: int
    """Pieces in this phase."""


OnProgress = Callable[[BenchProgress], None]


@dataclass(frozen=True)
class _Bench:
    """What stays the same during a run."""

    recipe: Recipe
    split: str
    report: OnProgress
    clock: Callable[[], float]

    def builder(self, data: Data, plan: Plan) -> Callable[[], object]:
        return lambda: build(data, self.recipe, plan, split=self.split)


@dataclass
class _Measured:
    """What was measured on one dataset."""

    name: str
    data: Data
    candidates: dict[str, Candidate] = field(default_factory=dict)
    baselines: set[str] = field(default_factory=set)
    refused: list[Refused] = field(default_factory=list)


def sweep_seconds(datasets: Sequence[Data], sweep: Sweep, recipe: Recipe, *, split: str, step: bool) -> float:
    """About how long a sweep will take, so that it can be said beforehand.

    Args:
        datasets: what will be measured.
        sweep: from `parse_sweep`.
        recipe: what a batch is.
        split: the split.
        step: whether a step runs as well.
    """
    per_plan = WARM_UP_SECONDS + ROUNDS * ROUND_SECONDS * 1.15
    total = 2 * LOOP_SECONDS[1] * step
    for data in datasets:
        baselines = baseline_plans(data, recipe)
        plans = list(grid_plans(sweep).values())
        new = [plan for plan in plans if plan not in baselines.values()]
        epoch = data.split(split).records / (GUESSED_RATE * usable_cores())
        total += per_plan * (len(baselines) + len(new)) + epoch * sum(plan.cache != "none" for plan in new) + 3
    return total


def run_bench(
    datasets: Sequence[Data],
    recipe: Recipe,
    *,
    split: str = "train",
    step: Step | None = None,
    sweep: Sweep | None = None,
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
        budget_seconds: time for everything, divided among the datasets; a sweep ignores it.
        command: command line, kept in the results.
        on_progress: called as the run goes on.
        clock: seconds, monotonic.

    Raises:
        DataNotFound: a dataset has no such split.
        PlanError: no plan can be run, or the recipe forbids one that the sweep asks for.
        RecipeError: the split does not fill a single batch.
        StepError: the step cannot be run.
    """
    start = clock()
    bench = _Bench(recipe, split, on_progress or (lambda progress: None), clock)
    names = short_names(datasets)
    bench.report(BenchProgress("looking at the machine", "", 0, 1))
    machine = describe_machine([data.path for data in datasets])
    supply_seconds = budget_seconds * ((1 - STALL_SHARE) if step is not None else 1.0) / len(datasets)
    measured = []
    for name, data in zip(names, datasets, strict=True):
        data.split(split)
        one = _Measured(name, data)
        _measure_dataset(bench, one, sweep, supply_seconds)
        measured.append(one)
    demand = None if step is None or step.step_seconds is None else recipe.batch_size / step.step_seconds
    chosen_data, chosen_name = _choose(measured, demand)
    loops: list[Loop] = []
    verdict = before = description = None
    if step is not None:
        seconds = min(max(STALL_SHARE * budget_seconds / 2, LOOP_SECONDS[0]), LOOP_SECONDS[1])
        before, description = _judge(bench, chosen_data, "autotune", step, seconds, loops)
        verdict = before
        if chosen_name != "autotune":
            verdict, description = _judge(bench, chosen_data, chosen_name, step, seconds, loops)
    cold = {one.name: _cold(bench, one, demand) for one in measured}
    return Results(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        recipe=recipe,
        split=split,
        step=description,
        datasets=_datasets(measured, split),
        runs=tuple(run for one in measured for run in _runs(one, (chosen_data, chosen_name), cold)),
        verdict=verdict,
        verdict_before=before,
        loops=tuple(loops),
        refused=tuple(refusal for one in measured for refusal in one.refused),
        noise=noise_floor(
            candidate.samples.round_images_per_second for one in measured for candidate in one.candidates.values()
        ),
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


def _measure_dataset(bench: _Bench, one: _Measured, sweep: Sweep | None, seconds: float) -> None:
    baselines = baseline_plans(one.data, bench.recipe)
    one.baselines.update(baselines)
    _measure_plans(bench, one, baselines, phase=f"baselines on {one.name}")
    if sweep:
        known = {candidate.plan for candidate in one.candidates.values()}
        plans = {name: plan for name, plan in grid_plans(sweep).items() if plan not in known}
        _measure_plans(bench, one, plans, phase=f"sweep on {one.name}")


def _measure_plans(bench: _Bench, one: _Measured, plans: Mapping[str, Plan], *, phase: str) -> None:
    """Measures plans in groups; those that cannot work here are refused, with the reason."""
    possible = {}
    for name, plan in plans.items():
        plan.check(bench.recipe)
        reason = refusal(one.data, plan, bench.split)
        if reason is None:
            possible[name] = plan
        else:
            one.refused.append(Refused(name=name, data=one.name, reason=reason))
    names = list(possible)
    total, finished = len(names) * (ROUNDS + 1), 0

    def on_progress(progress: Progress) -> None:
        bench.report(BenchProgress(phase, progress.name, finished + progress.done, total))

    for first in range(0, len(names), GROUP):
        group = {name: possible[name] for name in names[first : first + GROUP]}
        bench.report(BenchProgress(phase, next(iter(group)), finished, total))
        samples = measure_supply(
            {name: bench.builder(one.data, plan) for name, plan in group.items()},
            batch_size=bench.recipe.batch_size,
            rounds=ROUNDS,
            round_seconds=ROUND_SECONDS,
            warm_up_seconds=WARM_UP_LIMIT_SECONDS,
            whole_first_epoch={name for name, plan in group.items() if plan.cache != "none"},
            clock=bench.clock,
            on_progress=on_progress,
        )
        finished += len(group) * (ROUNDS + 1)
        for name, plan in group.items():
            one.candidates[name] = Candidate(plan, samples[name])


def refusal(data: Data, plan: Plan, split: str) -> str | None:
    """Why a plan is not tried on this machine, or None: what does not fit into memory would be killed, not slow."""
    if plan.cache != "memory":
        return None
    needed, free = data.split(split).bytes, usable_memory_bytes()
    if needed <= CACHE_SHARE * free:
        return None
    return (
        f"keeping the split in memory needs {needed / 1e9:.1f} GB, and {CACHE_SHARE:.0%} of the {free / 1e9:.1f} GB "
        "that are free is the limit"
    )


def _choose(measured: Sequence[_Measured], demand: float | None) -> tuple[_Measured, str]:
    """The dataset and the plan to take: the choice of each dataset first, then the choice among those."""
    finalists = []
    for one in measured:
        names = list(one.candidates)
        position = choose(list(one.candidates.values()), demand_images_per_second=demand)
        finalists.append((one, names[position]))
    position = choose([one.candidates[name] for one, name in finalists], demand_images_per_second=demand)
    return finalists[position]


def _judge(
    bench: _Bench, one: _Measured, name: str, step: Step, seconds: float, loops: list[Loop]
) -> tuple[Verdict, StepDescription]:
    candidate = one.candidates[name]
    bench.report(BenchProgress(f"training loop on {one.name}", name, len(loops), 2))
    samples = measure_stall(
        bench.builder(one.data, candidate.plan),
        step,
        batch_size=bench.recipe.batch_size,
        budget_seconds=seconds,
        whole_first_epoch=candidate.plan.cache != "none",
        clock=bench.clock,
    )
    loops.append(
        Loop(
            run=name,
            data=one.name,
            wait_seconds=samples.wait_seconds,
            ready=samples.ready,
            step_seconds=samples.step_seconds,
        )
    )
    verdict = judge(
        samples.stall,
        supply=candidate.samples.images_per_second,
        demand_images_per_second=samples.demand_images_per_second,
        step_name=step.name,
        budget_seconds=seconds if samples.budget_ended else None,
    )
    step_seconds = bench.recipe.batch_size / samples.demand_images_per_second
    preset = ACCELERATORS.get(step.name)
    source = preset.source if preset else "As given." if step.step_seconds else "Measured with batches ready."
    return verdict, StepDescription(
        name=step.name,
        step_seconds=step_seconds,
        images_per_second=samples.demand_images_per_second,
        source=source,
    )


def _cold(bench: _Bench, one: _Measured, demand: float | None) -> tuple[str, float] | None:
    """(plan, images per second) of the dataset's best plan with its files dropped from the page cache first."""
    names = list(one.candidates)
    name = names[choose(list(one.candidates.values()), demand_images_per_second=demand)]
    bench.report(BenchProgress(f"cold read of {one.name}", name, 0, 1))
    rate = measure_cold(one.data.path, bench.builder(one.data, one.candidates[name].plan), clock=bench.clock)
    return None if rate is None else (name, rate)


def _datasets(measured: Sequence[_Measured], split: str) -> tuple[Dataset, ...]:
    best = [max(candidate.samples.images_per_second.value for candidate in one.candidates.values()) for one in measured]
    sizes = [one.data.split(split).bytes for one in measured]
    return tuple(
        Dataset(
            name=one.name,
            path=str(one.data.path.resolve()),
            format=one.data.format,
            encoding=one.data.encoding,
            records=one.data.split(split).records,
            bytes=sizes[position],
            fingerprint=one.data.fingerprint,
            pareto=not any(
                best[other] >= best[position]
                and sizes[other] <= sizes[position]
                and (best[other], sizes[other]) != (best[position], sizes[position])
                for other in range(len(measured))
            ),
        )
        for position, one in enumerate(measured)
    )


def _runs(one: _Measured, chosen: tuple[_Measured, str], cold: Mapping[str, tuple[str, float] | None]) -> list[Run]:
    runs = []
    for name, candidate in one.candidates.items():
        samples: SupplySamples = candidate.samples
        rate = samples.images_per_second
        cached = candidate.plan.cache != "none"
        cold_run = cold[one.name]
        runs.append(
            Run(
                name=name,
                data=one.name,
                plan=candidate.plan,
                images_per_second=Rate(median=rate.value, low=rate.low, high=rate.high),
                state="cached" if cached else "warm",
                first_epoch_images_per_second=samples.first_epoch_images_per_second if cached else None,
                cold_images_per_second=cold_run[1] if cold_run is not None and cold_run[0] == name else None,
                peak_memory_bytes=max(0, samples.peak_memory_bytes),
                samples=samples.round_images_per_second,
                steady=samples.steady,
                baseline=name in one.baselines,
                chosen=one is chosen[0] and name == chosen[1],
            )
        )
    return runs
