"""`dataio bench`: measures plans on datasets, judges a training step, and hands over the tuned pipeline."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dataio.cli.stepping import check_step_options, make_step
from dataio.errors import DataDamaged, LimitExceeded, RecipeError
from dataio.recipe import Recipe

if TYPE_CHECKING:
    from dataio.bench.results import Results
    from dataio.bench.step import Step
    from dataio.cli.trying import Tried
    from dataio.data import Data


class Crop(StrEnum):
    """How a training picture is cut."""

    RANDOM = "random-resized"
    CENTER = "center"
    RESIZE = "resize"


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("bench")(bench)


def bench(
    data: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DATA", help="Datasets: folders of pictures, or converted ones.", show_default=False),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Pictures a batch [default: 64].", show_default=False)] = None,
    image_size: Annotated[
        str | None, typer.Option(help="Side in pixels, or HEIGHTxWIDTH [default: 224].", show_default=False)
    ] = None,
    crop: Annotated[Crop | None, typer.Option(help="How to cut [default: random-resized].", show_default=False)] = None,
    flip: Annotated[
        bool | None, typer.Option("--flip/--no-flip", help="Mirror half of them [default: flip].", show_default=False)
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="A recipe as JSON; the options above override it.", show_default=False)
    ] = None,
    split: Annotated[str, typer.Option(help="Split to read.")] = "train",
    step_ms: Annotated[
        float | None, typer.Option(help="Judge a step that takes this long a batch, in ms.", show_default=False)
    ] = None,
    accelerator: Annotated[
        str | None,
        typer.Option(help="Judge a known accelerator, such as a100-resnet50; 'list' shows all.", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Judge a keras.applications model trained on this device, such as ResNet50.", show_default=False
        ),
    ] = None,
    mixed_precision: Annotated[
        bool, typer.Option("--mixed-precision", help="Train --model in mixed precision.")
    ] = False,
    step: Annotated[
        str | None, typer.Option(help="Judge your own step, MODULE:FUNCTION; it takes a batch.", show_default=False)
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Diagnose a tf.data pipeline of your own instead: MODULE:FUNCTION, which returns it.",
            show_default=False,
        ),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(help="Measure a whole grid: FIELD=VALUE,VALUE of the plan; repeatable.", show_default=False),
    ] = None,
    trying: Annotated[
        str | None,
        typer.Option(
            "--try",
            help="Compare other ways of storing on a sample: 'tfrecord, tfrecord@256, hdf5-raw@256, lmdb'.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            help="About how many seconds to take. The baselines and a sweep are always measured whole, so that it can "
            "be half as much again, and more on a busy machine.",
            min=1,
        ),
    ] = 60.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results.json, tuned.json and report.html.", show_default=False),
    ] = None,
    max_stall: Annotated[
        str | None, typer.Option(help="Exit with 3 if the stall is above this, such as 5%.", show_default=False)
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="An earlier results.json: exit with 3 if this run is really worse.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print results.json, and nothing else, to stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Measure how fast datasets can feed a training step, say why, and tune the pipeline.

    Baselines (naive, cores, autotune, autotune_fused) are always among the plans. With a step (--step-ms,
    --accelerator, --model or --step) a loop really runs on the pipeline and the verdict says how long it waits.
    """
    if accelerator == "list":
        _list_accelerators()
        return
    if not data and dataset is None:
        raise typer.BadParameter("name at least one dataset", param_hint="DATA")
    has_step = check_step_options(
        step_ms=step_ms, accelerator=accelerator, model=model, function=step, mixed_precision=mixed_precision
    )
    make = partial(
        make_step,
        step_ms=step_ms,
        accelerator=accelerator,
        model=model,
        function=step,
        mixed_precision=mixed_precision,
    )
    limit = _share(max_stall) if max_stall is not None else None
    if limit is not None and not has_step:
        raise typer.BadParameter("needs a step: --step-ms, --accelerator, --model or --step", param_hint="--max-stall")
    if dataset is not None:
        if data or sweep or trying is not None or baseline is not None or recipe is not None:
            raise typer.BadParameter(
                "goes with a step, --batch-size, --budget, --out, --max-stall and --json only", param_hint="--dataset"
            )
        from dataio.cli.diagnosis import bench_dataset

        bench_dataset(dataset, make_step=make, batch_size=batch_size, budget=budget, out=out, limit=limit, json=json)
        return
    asked = make_recipe(recipe, batch_size=batch_size, image_size=image_size, crop=crop, flip=flip)
    before = load_baseline(baseline) if baseline is not None else None
    results, datasets = run(
        data or [],
        asked,
        split=split,
        make=make,
        sweep=sweep or [],
        trying=trying,
        budget=budget,
        quiet=quiet,
    )
    if out is not None:
        write_outputs(results, datasets, out)
    if json:
        sys.stdout.write(results.to_json())
    else:
        show(results, out)
    check_limit(results, limit)
    if before is not None:
        check_against(results, before, str(baseline), quiet=json or quiet)


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


def make_recipe(
    path: Path | None, *, batch_size: int | None, image_size: str | None, crop: Crop | None, flip: bool | None
) -> Recipe:
    """The recipe of a file, or the default one, with the options given in its place."""
    if path is not None and not path.is_file():
        raise RecipeError(f"{path}: no such recipe file; it takes the JSON that Recipe(...).save(path) writes")
    recipe = Recipe.load(path) if path is not None else Recipe()
    changes: dict[str, object] = {}
    if batch_size is not None:
        changes["batch_size"] = batch_size
    if image_size is not None:
        changes["image_size"] = _image_size(image_size)
    if crop is not None:
        changes["crop"] = crop.value
    if flip is not None:
        changes["flip"] = flip
    return recipe.replace(**changes)


def load_baseline(path: Path) -> Results:
    """The results of an earlier run.

    Raises:
        RecordError: no such file, or not a results.json of a known schema.
    """
    from dataio.bench.results import Results
    from dataio.errors import RecordError

    if not path.is_file():
        raise RecordError(f"{path}: no such file; --baseline takes the results.json of an earlier `bench --out`")
    return Results.load(path)


def check_against(results: Results, before: Results, origin: str, *, quiet: bool) -> None:
    """Raises LimitExceeded when this run is worse than an earlier one by more than noise; otherwise says how it is."""
    from dataio.bench.gate import check_baseline

    comparison = check_baseline(results, before, origin=origin)
    if not quiet:
        supply = comparison.supply
        typer.echo(
            f"Against {origin}: {supply.value:.2f} times its supply ({supply.low:.2f} to {supply.high:.2f}); nothing "
            "is worse by more than noise."
        )
        for note in comparison.notes:
            typer.echo(f"Note: {note}.")


def write_outputs(results: Results, datasets: list[Data], folder: Path) -> None:
    """Writes results.json, tuned.json and report.html into `folder`."""
    from dataio import __version__
    from dataio.bench.report.page import write_report
    from dataio.tuned import Tuned

    folder.mkdir(parents=True, exist_ok=True)
    chosen = results.chosen
    position = [dataset.name for dataset in results.datasets].index(chosen.data)
    tuned = Tuned.describe(
        datasets[position],
        results.recipe,
        chosen.plan,
        images_per_second=chosen.images_per_second.median,
        folder=folder,
        tool_version=__version__,
    )
    results.save(folder / "results.json")
    tuned.save(folder / "tuned.json")
    write_report(results, folder / "report.html")


def show(results: Results, out: Path | None) -> None:
    """Prints the tables and the conclusion, and where the files are."""
    from rich.console import Console

    from dataio.cli.tables import show_results

    console = Console(highlight=False)
    show_results(results, console)
    if out is not None:
        console.print(f"Wrote results.json, tuned.json and report.html into {out}.", soft_wrap=True)


def check_limit(results: Results, limit: float | None) -> None:
    """Raises LimitExceeded when the verdict's stall is above `limit`."""
    verdict = results.verdict
    if limit is None or verdict is None or verdict.stall.value <= limit:
        return
    stall = verdict.stall
    raise LimitExceeded(
        f"the stall is {stall.value:.1%} ({stall.low:.1%} to {stall.high:.1%}), above --max-stall {limit:.1%}"
    )


def _list_accelerators() -> None:
    from dataio.bench.accelerators import ACCELERATORS

    for name, one in ACCELERATORS.items():
        typer.echo(f"{name:<26} {one.images_per_second:>6,.0f} images/s  {one.source}")


def _share(text: str) -> float:
    """A share of 1 from `5%` or `0.05`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text)
    value = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"{text!r}: takes a share such as 5% or 0.05", param_hint="--max-stall")
    return value


def _image_size(text: str) -> int | tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r}: takes 224 or 224x320 (height x width)", param_hint="--image-size")
    return int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))
