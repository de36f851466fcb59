"""Seven remedies carried out: what each brought against what had been predicted.

    python -m tests.benchmarks.remedies --folder FOLDER --full TFRECORD --small TFRECORD256 --raw HDF5RAW256

The folder and its three conversions (`--to tfrecord`; `--to tfrecord --encoding jpeg --short-side 256`; `--to hdf5
--encoding raw --size 256x256`). Before and after are measured in turn. Takes about two minutes on 2 cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dataio
from dataio import Plan, Recipe
from dataio.bench.costs import measure_costs
from dataio.bench.measuring import measure_supply
from dataio.bench.predicting import Predictor
from dataio.bench.remedies import Situation, find_remedies
from dataio.data import Data
from dataio.machine import usable_cores, usable_memory_bytes

RECIPE = Recipe(image_size=224, batch_size=64, dtype="uint8")
SERIAL = Plan(num_parallel_calls=1, cycle_length=1, prefetch=2, threads=1)


@dataclass(frozen=True)
class Case:
    """One constructed case."""

    title: str
    """A word of the remedy's title."""
    before: tuple[Path, Plan]
    """Data and plan that starve."""
    after: tuple[Path, Plan]
    """The same with the remedy carried out."""
    demand: float | None = None
    """Demand as a multiple of what is supplied before; None without one."""


def cases(folder: Path, full: Path, small: Path, raw: Path, cores: int) -> list[Case]:
    """The seven, each with the plan that suits its data. Packed files are not proposed while the folder's files lie in
    the page cache: reading them is then too small a part."""
    fused = Plan(num_parallel_calls=cores + 1, prefetch=2, kernel="opencv", fused_decode_and_crop=True)
    whole = fused.replace(fused_decode_and_crop=False)
    return [
        Case("plan that was found", (full, SERIAL), (full, fused)),
        Case("in memory", (raw, whole), (raw, whole.replace(cache="memory"))),
        Case("packed files", (folder, fused), (full, fused)),
        Case("decoded pictures", (full, fused), (full, whole.replace(cache="decoded"))),
        Case("short side", (full, whole), (small, whole)),
        Case("raw pixels", (full, whole), (raw, whole)),
        Case(
            f"{cores} cores",
            (full, SERIAL.replace(fused_decode_and_crop=True)),
            (full, Plan(num_parallel_calls=cores, prefetch=2, fused_decode_and_crop=True)),
            demand=(cores - 0.5) / 1.1,
        ),
    ]


def measure(plans: Mapping[str, tuple[Data, Plan]]) -> dict[str, float]:
    """Median images/s of each, all in turn."""
    samples = measure_supply(
        {name: lambda data=data, plan=plan: dataio.build(data, RECIPE, plan) for name, (data, plan) in plans.items()},  # type: ignore[misc]
        batch_size=RECIPE.batch_size,
        rounds=5,
        round_seconds=0.5,
        warm_up_seconds=1.6,
        whole_first_epoch=[name for name, (_, plan) in plans.items() if plan.cache != "none"],
    )
    return {name: float(np.median(one.round_images_per_second)) for name, one in samples.items()}


def carry_out(case: Case, cores: int) -> tuple[float, float, float]:
    """(before, predicted, after) in images/s."""
    (data, plan), (other, changed) = ((dataio.open(path), plan) for path, plan in (case.before, case.after))
    tuned = None
    if case.title == "plan that was found":  # a search measured it earlier, on its own
        tuned = (changed, measure({"tuned": (other, changed)})["tuned"])
    rates = measure({"before": (data, plan), "after": (other, changed)})
    predictor = Predictor(cores)
    predictor.calibrate(plan, measure_costs(lambda serial: dataio.build(data, RECIPE, serial), plan))
    predictor.learn(plan, rates["before"])
    remedies = find_remedies(
        Situation(
            data=data,
            recipe=RECIPE,
            split="train",
            plan=plan,
            images_per_second=rates["before"],
            predictor=predictor,
            cores=1 if plan.threads == 1 else cores,
            free_bytes=usable_memory_bytes(),
            demand_images_per_second=None if case.demand is None else case.demand * rates["before"],
            tuned=tuned,
        )
    )
    predicted = next(remedy.images_per_second for remedy in remedies if case.title in remedy.title)
    assert predicted is not None
    return rates["before"], predicted, rates["after"]


def main() -> None:
    """Runs them and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "full", "small", "raw"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    cores = usable_cores()
    print("| remedy | before | predicted | after | error |\n|---|---|---|---|---|")
    for case in cases(arguments.folder, arguments.full, arguments.small, arguments.raw, cores):
        try:
            before, predicted, after = carry_out(case, cores)
        except StopIteration:
            print(f"| {case.title} | not proposed | | | |", flush=True)
            continue
        row = f"| {case.title} | {before:,.0f} | {predicted:,.0f} | {after:,.0f} | {predicted / after - 1:+.0%} |"
        print(row, flush=True)


if __name__ == "__main__":
    main()
