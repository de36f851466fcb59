"""`dataio bench`: measures plans on datasets, judges a training step, and hands over the tuned pipeline."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dataio.errors import LimitExceeded, RecipeError
from dataio.recipe import Recipe

if TYPE_CHECKING:
    from dataio.bench.results import Results
    from dataio.bench.step import Step
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
        list[Path], typer.Argument(help="Datasets: folders of pictures, or converted ones.", show_default=False)
    ],
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
    sweep: Annotated[
        list[str] | None,
        typer.Option(help="Measure a whole grid: FIELD=VALUE,VALUE of the plan; repeatable.", show_default=False),
    ] = None,
    budget: Annotated[float, typer.Option(help="Seconds for everything, unless there is a sweep.", min=1)] = 60.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results.json, tuned.json and report.html.", show_default=False),
    ] = None,
    max_stall: Annotated[
        str | None, typer.Option(help="Exit with 3 if the stall is above this, such as 5%.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print results.json, and nothing else, to stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Measure how fast datasets can feed a training step, say why, and tune the pipeline.

    Baselines (naive, cores, autotune, autotune_fused) are always among the plans. With --step-ms or --accelerator a
    loop really runs on the pipeline and the verdict says how long it waits for input.
    """
    if accelerator == "list":
        _list_accelerators()
        return
    limit = _share(max_stall) if max_stall is not None else None
    if limit is not None and step_ms is None and accelerator is None:
        raise typer.BadParameter("needs a step: --step-ms or --accelerator", param_hint="--max-stall")
    asked = make_recipe(recipe, batch_size=batch_size, image_size=image_size, crop=crop, flip=flip)
    results, datasets = run(
        data,
        asked,
        split=split,
        step_ms=step_ms,
        accelerator=accelerator,
        sweep=sweep or [],
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


def run(
    paths: list[Path],
    recipe: Recipe,
    *,
    split: str,
    step_ms: float | None,
    accelerator: str | None,
    sweep: list[str],
    budget: float,
    quiet: bool,
) -> tuple[Results, list[Data]]:
    """Opens the datasets and measures them with progress on stderr; the results and the datasets."""
    import shlex

    from dataio import open as open_data
    from dataio.bench.grid import parse_sweep
    from dataio.cli.live import LiveProgress
    from dataio.cli.quiet_start import import_tensorflow

    # What can be wrong is found before TensorFlow is loaded, which takes seconds.
    grid = parse_sweep(sweep)
    datasets = [open_data(path) for path in paths]
    for one in datasets:
        one.split(split)
    import_tensorflow()
    from dataio.bench.running import run_bench, sweep_seconds
    from dataio.bench.words import time_words

    step = make_step(step_ms, accelerator, recipe.batch_size)
    with LiveProgress(quiet=quiet) as live:
        if grid:
            seconds = sweep_seconds(datasets, grid, recipe, split=split, step=step is not None)
            count = 1
            for values in grid.values():
                count *= len(values)
            live.say(f"A sweep of {count} plans on {len(datasets)} dataset(s): about {time_words(seconds)}.")
        results = run_bench(
            datasets,
            recipe,
            split=split,
            step=step,
            sweep=grid,
            budget_seconds=budget,
            command=shlex.join(["dataio", *sys.argv[1:]]),
            on_progress=live.show,
        )
    return results, datasets


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


def make_step(step_ms: float | None, accelerator: str | None, batch_size: int) -> Step | None:
    """The step that the options ask for, or None."""
    from dataio.bench.step import SimulatedAccelerator, simulated_step

    if step_ms is not None and accelerator is not None:
        raise typer.BadParameter("give one of --step-ms and --accelerator", param_hint="--accelerator")
    if step_ms is not None:
        return SimulatedAccelerator(step_ms / 1000)
    if accelerator is not None:
        return simulated_step(accelerator, batch_size)
    return None


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
