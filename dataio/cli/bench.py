"""`dataio bench`: measures plans on datasets, judges a training step, and hands over the tuned pipeline."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dataio.cli.limits import check_against, check_limit, load_baseline, parse_share
from dataio.cli.measuring import run
from dataio.cli.recipes import Crop, make_recipe
from dataio.cli.stepping import check_step_options, make_step

if TYPE_CHECKING:
    from dataio.bench.results import Results
    from dataio.data import Data


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
    limit = parse_share(max_stall) if max_stall is not None else None
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


def _list_accelerators() -> None:
    from dataio.bench.accelerators import ACCELERATORS

    for name, one in ACCELERATORS.items():
        typer.echo(f"{name:<26} {one.images_per_second:>6,.0f} images/s  {one.source}")
