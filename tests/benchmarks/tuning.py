"""Tuned against the baselines, the exhaustive grid and the bound; and predicted against measured, cell by cell.

    python -m tests.benchmarks.tuning DATA... [--budget 60] [--no-grid] [--json FILE]

For each dataset (recipe: 224, random-resized crop, flip, batch 64, uint8): a search within the budget; then every plan
of a grid (ways of making pictures x calls x cache), of which those that the search did not measure are held out for the
prediction; then the tuned plan, the baselines and the grid's best three once more, all in turn, for the ratios.
Takes 3 to 5 minutes a dataset on 2 cores, 2 without the grid. Reads what `dataio convert` wrote, or folders.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import dataio
from dataio import Plan, Recipe
from dataio.bench.bounds import find_bounds
from dataio.bench.candidates import kernel_plans
from dataio.bench.measuring import measure_supply
from dataio.bench.search import search
from dataio.bench.stats import ratio_interval
from dataio.bench.words import plan_words
from dataio.data import Data
from dataio.machine import usable_cores

RECIPE = Recipe(image_size=224, batch_size=64, dtype="uint8")
#: Plans measured in turn: all of them hold their buffers and caches at once.
GROUP = 6


def grid(data: Data, cores: int) -> dict[str, Plan]:
    """Every way of making pictures with 1, cores, cores + 1 and 2 x cores calls, and cached."""
    plans = []
    for way in kernel_plans(data, RECIPE, cores):
        plans += [
            way.replace(num_parallel_calls=calls, cycle_length=1 if calls == 1 else "auto")
            for calls in sorted({1, cores, cores + 1, 2 * cores})
        ]
        plans.append(way.replace(num_parallel_calls=cores, cache="memory"))
        plans.append(way.replace(num_parallel_calls=cores + 1, cache="memory"))
    return {plan_words(plan): plan for plan in plans}


def measure(data: Data, plans: Mapping[str, Plan], *, rounds: int) -> dict[str, tuple[float, ...]]:
    """Rates of the rounds of each plan, images/s; all plans in turn."""
    samples = measure_supply(
        {name: lambda plan=plan: dataio.build(data, RECIPE, plan) for name, plan in plans.items()},  # type: ignore[misc]
        batch_size=RECIPE.batch_size,
        rounds=rounds,
        round_seconds=0.4,
        warm_up_seconds=1.6,
        whole_first_epoch=[name for name, plan in plans.items() if plan.cache != "none"],
    )
    return {name: one.round_images_per_second for name, one in samples.items()}


def run(path: Path, budget_seconds: float, *, whole_grid: bool) -> dict[str, object]:
    """One dataset: search, grid, final."""
    data, cores = dataio.open(path), usable_cores()
    started = time.perf_counter()
    found = search(data, RECIPE, budget_seconds=budget_seconds)
    search_seconds = time.perf_counter() - started
    known = {candidate.plan for candidate in found.candidates.values()}
    plans = grid(data, cores) if whole_grid else {}
    measured: dict[str, float] = {}
    for first in range(0, len(plans), GROUP):
        group = dict(list(plans.items())[first : first + GROUP])
        measured |= {name: float(np.median(rates)) for name, rates in measure(data, group, rounds=3).items()}
    cells = [
        {"plan": name, "measured": rate, "predicted": found.predictor.predict(plans[name]).value}
        for name, rate in measured.items()
        if plans[name] not in known
    ]
    best = sorted(measured, key=lambda name: -measured[name])[:3]
    final = {name: found.candidates[name].plan for name in (found.chosen, *sorted(found.baselines))}
    final |= {f"grid: {name}": plans[name] for name in best if plans[name] not in final.values()}
    rates = measure(data, final, rounds=6)
    tuned = rates[found.chosen]
    medians = {name: float(np.median(values)) for name, values in rates.items()}
    bounds = find_bounds(data, RECIPE, split="train", cores=cores)
    return {
        "data": path.name,
        "chosen": found.chosen,
        "chosen_plan": plan_words(found.plan),
        "search_seconds": search_seconds,
        "medians": medians,
        "gains": {name: ratio_interval(tuned, values).value for name, values in rates.items()},
        "bound": next((bound.images_per_second for bound in bounds if bound.name == "decoding"), None),
        "cells": cells,
    }


def describe(result: dict[str, object]) -> str:
    """The result of one dataset as a row of the docs' table."""
    medians, gains = result["medians"], result["gains"]
    assert isinstance(medians, dict) and isinstance(gains, dict)
    tuned = medians[result["chosen"]]
    baselines = ["naive", "cores", "autotune", "stage_based", "autotune_fused"]
    grid_best = max((rate for name, rate in medians.items() if name.startswith("grid: ")), default=tuned)
    bound = result["bound"]
    columns = [f"{medians[name]:,.0f}" if name in medians else "" for name in baselines]
    ratios = [
        f"{gains['autotune']:.2f}",
        f"{gains.get('autotune_fused', float('nan')):.2f}",
        f"{tuned / grid_best:.2f}",
    ]
    reach = f"{tuned / float(bound):.2f}" if isinstance(bound, float) else ""
    return f"| {result['data']} | " + " | ".join([*columns, f"{tuned:,.0f}", *ratios, reach]) + " |"


def main() -> None:
    """Runs the benchmark and prints its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--no-grid", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    errors: list[float] = []
    baselines = ("naive", "cores", "autotune", "stage_based", "autotune_fused")
    titles = ("data", *baselines, "tuned", "x autotune", "x fused", "/ grid", "/ bound")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for path in arguments.data:
        result = run(path, arguments.budget, whole_grid=not arguments.no_grid)
        print(describe(result), flush=True)
        print(f"<!-- {result['chosen_plan']}; search took {result['search_seconds']:.0f} s -->", flush=True)
        cells = result["cells"]
        assert isinstance(cells, list)
        errors += [abs(cell["predicted"] / cell["measured"] - 1) for cell in cells]
        if arguments.json:
            with arguments.json.open("a") as file:
                file.write(json.dumps(result) + "\n")
    if not errors:
        return
    shown = np.percentile(errors, [50, 95, 100])
    print(f"prediction, {len(errors)} cells held out: median {shown[0]:.1%}, 95th {shown[1]:.1%}, worst {shown[2]:.1%}")


if __name__ == "__main__":
    main()
