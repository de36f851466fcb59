"""Tuned against the baselines, the exhaustive grid and the bound; and predicted against measured, cell by cell.

    python -m tests.benchmarks.tuning DATA... [--budget 60] [--whole 1] [--no-grid] [--json FILE]

For each dataset (recipe: 224, random-resized crop, flip, batch 64, uint8): a search within the budget; then every plan
of a grid (ways of making pictures x calls x cache), of which those that the search did not measure are held out for the
prediction; then the tuned plan, the baselines and the grid's best three once more, all in turn, for the ratios. Which
of the three is the best is told by other rounds than its ratio.
With `--whole N` the dataset counts as a sample of one N times as large, whose caches fit nowhere: none is in the grid.
Takes 4 minutes a dataset on 2 cores, 2 without the grid. Reads what `dataio convert` wrote, or folders.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import dataio
from dataio import Plan, Recipe
from dataio.bench.bounds import find_bounds
from dataio.bench.candidates import kernel_plans
from dataio.bench.predicting import family
from dataio.bench.search import calibrate_serially, search
from dataio.bench.stats import ratio_interval
from dataio.bench.supply import LiveSupply
from dataio.bench.words import plan_words
from dataio.data import Data
from dataio.machine import usable_cores

RECIPE = Recipe(image_size=224, batch_size=64, dtype="uint8")
BASELINES = ("naive", "cores", "autotune", "stage_based", "autotune_fused")
#: Plans of the grid measured in turn: all of them hold their buffers and caches at once.
GROUP = 6
#: Plans of the grid that meet the tuned one in the final.
CONTENDERS = 3
FINAL_ROUNDS = 10
ROUND_SECONDS = 0.4


def grid(data: Data, cores: int, *, caches: bool) -> dict[str, Plan]:
    """Every way of making pictures with 1, cores, cores + 1 and 2 x cores calls; and with each cache in memory."""
    plans = []
    for way in kernel_plans(data, RECIPE, cores):
        plans += [
            way.replace(num_parallel_calls=calls, cycle_length=1 if calls == 1 else "auto")
            for calls in sorted({1, cores, cores + 1, 2 * cores})
        ]
        if caches:
            plans += [way.replace(num_parallel_calls=calls, cache="memory") for calls in (cores, cores + 1)]
        if caches and data.encoding == "jpeg" and not way.fused_decode_and_crop:
            plans += [way.replace(num_parallel_calls=calls, cache="decoded") for calls in (cores, cores + 1, 2 * cores)]
    return {plan_words(plan): plan for plan in plans}


def add(live: LiveSupply, data: Data, plans: Mapping[str, Plan]) -> None:
    """Builds plans and warms them up."""
    for name, plan in plans.items():
        live.add(name, lambda plan=plan: dataio.build(data, RECIPE, plan), whole_first_epoch=plan.cache != "none")  # type: ignore[misc]


def run_rounds(live: LiveSupply, names: Iterable[str], rounds: int) -> dict[str, tuple[float, ...]]:
    """Rates of the rounds of each plan, images/s; all plans in turn."""
    names = list(names)
    for _ in range(rounds):
        for name in names:
            live.run_round(name, ROUND_SECONDS)
    return {name: live.samples(name, latest=rounds).round_images_per_second for name in names}


def run(path: Path, budget_seconds: float, *, whole_grid: bool, whole: float) -> dict[str, Any]:
    """One dataset: search, grid, final."""
    data, cores = dataio.open(path), usable_cores()
    started = time.perf_counter()
    found = search(data, RECIPE, budget_seconds=budget_seconds, whole=whole)
    search_seconds = time.perf_counter() - started
    decoded = Plan(cache="decoded")
    if whole_grid and data.encoding == "jpeg" and family(decoded) not in found.predictor.calibrations:
        # The search calibrates these where OpenCV is not installed; the grid has them always.
        found.predictor.calibrate(decoded, calibrate_serially(data, RECIPE, decoded, split="train"))
    known = {candidate.plan for candidate in found.candidates.values()}
    plans = grid(data, cores, caches=whole == 1) if whole_grid else {}
    measured: dict[str, float] = {}
    with LiveSupply(batch_size=RECIPE.batch_size, warm_up_seconds=1.6) as live:
        for first in range(0, len(plans), GROUP):
            group = dict(list(plans.items())[first : first + GROUP])
            add(live, data, group)
            measured |= {name: float(np.median(rates)) for name, rates in run_rounds(live, group, 3).items()}
            best = sorted(measured, key=lambda name: -measured[name])[:CONTENDERS]
            for name in set(live.names) - set(best):
                live.drop(name)
        cells = [
            {"plan": name, "measured": rate, "predicted": found.predictor.predict(plans[name]).value}
            for name, rate in measured.items()
            if plans[name] not in known
        ]
        final = {name: found.candidates[name].plan for name in (found.chosen, *sorted(found.baselines))}
        contenders = {name for name in live.names if plans[name] not in final.values()}
        for name in set(live.names) - contenders - set(final):  # a baseline's plan, alive under the grid's name
            live.drop(name)
        add(live, data, {name: plan for name, plan in final.items() if name not in live.names})
        rates = run_rounds(live, [*final, *contenders], FINAL_ROUNDS)
    tuned = rates[found.chosen]
    return {
        "data": path.name,
        "whole": whole,
        "chosen": found.chosen,
        "chosen_plan": plan_words(found.plan),
        "search_seconds": search_seconds,
        "baselines": sorted(found.baselines),
        "medians": {name: float(np.median(values)) for name, values in rates.items()},
        "gains": {name: ratio_interval(tuned, values).model_dump() for name, values in rates.items()},
        "against_grid": _against_best(tuned, {name: rates[name] for name in contenders}),
        "bound": next(
            (
                bound.images_per_second
                for bound in find_bounds(data, RECIPE, split="train", cores=cores)
                if bound.name == "decoding"
            ),
            None,
        ),
        "cells": cells,
    }


def _against_best(tuned: tuple[float, ...], others: Mapping[str, tuple[float, ...]]) -> dict[str, Any] | None:
    """The tuned plan's ratio to the best other one, which the first half of the rounds names and the second measures:
    the best of several noisy medians looks better than it is."""
    if not others:
        return None
    half = FINAL_ROUNDS // 2
    best = max(others, key=lambda name: float(np.median(others[name][:half])))
    return {"plan": best} | ratio_interval(tuned[half:], others[best][half:]).model_dump()


def describe(result: Mapping[str, Any]) -> str:
    """The result of one dataset as a row of the docs' table."""
    medians, gains = result["medians"], result["gains"]
    tuned, baselines = medians[result["chosen"]], result["baselines"]
    best_baseline = max(baselines, key=lambda name: medians[name])
    columns = [f"{medians[name]:,.0f}" if name in medians else "" for name in BASELINES]
    ratios = [_ratio(gains[name]) if name in gains else "" for name in ("autotune", "autotune_fused", best_baseline)]
    ratios.append(_ratio(result["against_grid"]) if result["against_grid"] else "")
    reach = f"{tuned / result['bound']:.2f}" if result["bound"] else ""
    return f"| {result['data']} | " + " | ".join([*columns, f"{tuned:,.0f}", *ratios, reach]) + " |"


def _ratio(interval: Mapping[str, float]) -> str:
    return f"{interval['value']:.2f} ({interval['low']:.2f} to {interval['high']:.2f})"


def main() -> None:
    """Runs the benchmark and prints its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--no-grid", action="store_true")
    parser.add_argument("--whole", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    errors: list[float] = []
    gains: list[float] = []
    titles = ("data", *BASELINES, "tuned", "/ autotune", "/ fused", "/ best baseline", "/ best of the grid", "/ bound")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for path in arguments.data:
        result = run(path, arguments.budget, whole_grid=not arguments.no_grid, whole=arguments.whole)
        print(describe(result), flush=True)
        print(f"<!-- {result['chosen_plan']}; search took {result['search_seconds']:.0f} s -->", flush=True)
        errors += [abs(cell["predicted"] / cell["measured"] - 1) for cell in result["cells"]]
        gains.append(result["gains"]["autotune"]["value"])
        if arguments.json:
            with arguments.json.open("a") as file:
                file.write(json.dumps(result) + "\n")
    print(f"geometric mean of the gains over autotune: {np.exp(np.mean(np.log(gains))):.2f}")
    if not errors:
        return
    shown = np.percentile(errors, [50, 95, 100])
    print(f"prediction, {len(errors)} cells held out: median {shown[0]:.1%}, 95th {shown[1]:.1%}, worst {shown[2]:.1%}")


if __name__ == "__main__":
    main()
