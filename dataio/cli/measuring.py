"""A bench run with its progress on the terminal."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dataio.errors import DataDamaged
from dataio.recipe import Recipe

if TYPE_CHECKING:
    from dataio.bench.results import Results
    from dataio.bench.step import Step
    from dataio.cli.trying import Tried
    from dataio.data import Data


def run(
    paths: list[Path],
    recipe: Recipe,
    *,
    split: str,
    make: Callable[..., Step | None],
    sweep: list[str],
    budget: float,
    quiet: bool,
    trying: str | None = None,
) -> tuple[Results, list[Data]]:
    """Opens the datasets and measures them with progress on stderr; the results and the datasets.

    Args:
        paths: the datasets.
        recipe: what a batch is.
        split: the split.
        make: makes the step from the recipe and the number of `classes`.
        sweep: `--sweep` options.
        budget: seconds.
        quiet: no progress.
        trying: the `--try` option.
    """
    import shlex
    from tempfile import TemporaryDirectory

    from dataio import open as open_data
    from dataio.bench.grid import parse_sweep
    from dataio.cli.live import LiveProgress
    from dataio.cli.quiet_start import import_tensorflow
    from dataio.cli.trying import check_source, convert_samples, forecasts, parse_ways

    # What can be wrong is found before TensorFlow is loaded, which takes seconds.
    grid = parse_sweep(sweep)
    ways = parse_ways(trying) if trying is not None else []
    datasets = [open_data(path) for path in paths]
    for one in datasets:
        one.split(split)
    source = check_source(datasets) if ways else None
    tried: list[Tried] = []
    total = 0
    with LiveProgress(quiet=quiet) as live, TemporaryDirectory(prefix="dataio-try-") as folder:
        if source is not None:
            live.say(f"Trying {len(ways)} ways of storing on a sample.")
            tried, total = convert_samples(source, ways, Path(folder), on_progress=live.name)
        import_tensorflow()
        from dataio.bench.running import Sample, bench_seconds, run_bench
        from dataio.bench.words import time_words

        step = make(recipe, classes=max(len(one.class_names) for one in datasets))
        if grid:
            seconds = bench_seconds(datasets, grid, recipe, split=split, step=step is not None)
            count = math.prod(len(values) for values in grid.values())
            where = f" on {len(datasets)} datasets" if len(datasets) > 1 else ""
            live.say(f"A sweep of {count} plans{where}, and the baselines: about {time_words(seconds)}.")
        with damage_said(paths):
            results = run_bench(
                datasets,
                recipe,
                split=split,
                step=step,
                sweep=grid,
                samples={one.way.name: Sample(one.data, total / one.records) for one in tried},
                budget_seconds=budget,
                command=shlex.join(["dataio", *sys.argv[1:]]),
                on_progress=live.show,
            )
        if tried:
            results = results.replace(forecasts=forecasts(results, tried, total))
    return results, datasets


@contextmanager
def damage_said(paths: list[Path]) -> Iterator[None]:
    """Turns what TensorFlow raises on damaged records into DataDamaged, which says how to find them."""
    import tensorflow as tf

    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as problem:
        told = re.search(r"DataDamaged: (.*)", problem.message)
        found = told[1] if told else problem.message.split("\n")[0][:300]
        places = " or ".join(str(path) for path in paths)
        raise DataDamaged(
            f"{places}: a record could not be read: {found}. Find it with: dataio verify PATH"
        ) from problem
