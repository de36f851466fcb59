"""`dataio demo`: the whole way from a folder of pictures to a tuned pipeline, on this machine, with no input at all."""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dataio.errors import DestinationError

if TYPE_CHECKING:
    from rich.console import Console

    from dataio.recipe import Recipe

#: Synthetic pictures by split: enough for a dozen batches an epoch, few enough to be drawn in seconds.
_PICTURES = {"train": 800, "val": 96}
#: Pictures of the user's folder that are used at most; more would only make the demo slower.
_MOST_PICTURES = 2000
#: Seconds that measuring may take; drawing, converting and TensorFlow's start take some 20 more on 2 cores.
_BUDGET_SECONDS = 40.0
_ACCELERATOR = "a100-resnet50"
_FORMATS = ("tfrecord", "hdf5", "lmdb")
#: Written first, so that a later run knows that it may replace the folder.
_MARK = ".dataio-demo"


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("demo")(demo)


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for everything the demo makes.")] = Path(
        "dataio-demo"
    ),
    src: Annotated[
        Path | None, typer.Option(help="Use these pictures instead of synthetic ones.", show_default=False)
    ] = None,
) -> None:
    """Make pictures, convert them to all formats, verify, measure and tune: one to two minutes, no input, no network.

    The verdict is whatever this machine earns against one A100 training ResNet-50.
    """
    from rich.console import Console

    console = Console(highlight=False)
    started = time.monotonic()
    _prepare(folder)
    pictures = _pictures(folder, src, console)
    _convert(folder, pictures, console)
    _verify(folder, pictures, console)
    _measure(folder, console)
    console.print(
        f"\nThe demo took {time.monotonic() - started:.0f} s. Look at {folder / 'report.html'}; "
        "in training code the tuned pipeline is\n\n"
        "    import dataio\n"
        f'    train = dataio.load_tuned("{folder / "tuned.json"}").build(split="train")\n\n'
        "Longer, for narrower intervals: "
        f"dataio bench {folder / 'tfrecord'} --accelerator {_ACCELERATOR} --budget 180\n"
        f"Your own pictures: dataio demo --src FOLDER. All of this can be deleted: {folder}",
        soft_wrap=True,
    )


def _prepare(folder: Path) -> None:
    """Makes the folder, or empties one that an earlier demo left."""
    if folder.exists():
        if not folder.is_dir():
            raise DestinationError(f"{folder}: is a file; the demo takes a new folder")
        if any(folder.iterdir()) and not (folder / _MARK).exists():
            raise DestinationError(f"{folder}: is not empty and not from an earlier demo; name another folder")
        shutil.rmtree(folder)
    try:
        folder.mkdir(parents=True)
        (folder / _MARK).write_text("made by dataio demo; a later run may replace this folder\n")
    except OSError as problem:
        raise DestinationError(f"{folder}: cannot make the folder: {problem.strerror}") from None


def _pictures(folder: Path, src: Path | None, console: Console) -> Path:
    from dataio.bench.words import byte_words

    pictures = folder / "pictures"
    started = time.monotonic()
    if src is not None:
        from dataio.cli.sampling import link_sample

        taken, total = link_sample(src, pictures, most=_MOST_PICTURES)
        part = f"{taken:,} of its {total:,} pictures" if taken < total else f"all its {total:,} pictures"
        _say(console, "Pictures", f"{src}: {part}, linked", started)
        return pictures
    from dataio.cli.demo_pictures import CLASS_NAMES, draw_pictures

    total = sum(_PICTURES.values())
    with console.status(f"drawing {total} pictures …"):
        written = draw_pictures(pictures, splits=_PICTURES)
    _say(
        console,
        "Pictures",
        f"{total} synthetic photographs in {len(CLASS_NAMES)} classes, {byte_words(written)}",
        started,
    )
    return pictures


def _convert(folder: Path, pictures: Path, console: Console) -> None:
    from dataio.converters.conversion import ConversionOptions, convert

    for name in _FORMATS:
        started = time.monotonic()
        with console.status(f"converting to {name} …"):
            manifest = convert(pictures, folder / name, ConversionOptions(to=name)).manifest
        records = sum(split.records for split in manifest.splits.values())
        shards = sum(len(split.shards) for split in manifest.splits.values())
        _say(console, "Convert", f"{name}: {records:,} pictures in {shards} shard{'s' if shards != 1 else ''}", started)


def _verify(folder: Path, pictures: Path, console: Console) -> None:
    from dataio.converters.verification import describe, verify
    from dataio.errors import DataDamaged

    for name in _FORMATS:
        started = time.monotonic()
        with console.status(f"verifying {name} …"):
            damages = verify(folder / name, source=pictures).damages
        if damages:
            raise DataDamaged(f"{folder / name}: {len(damages)} differences; the first: {describe(damages[0])}")
        _say(console, "Verify", f"{name}: every picture is its file, byte for byte", started)


def _measure(folder: Path, console: Console) -> None:
    from dataio.cli.bench import show, write_outputs
    from dataio.cli.measuring import run
    from dataio.cli.stepping import make_step

    console.print(f"Measure   tfrecord against {_ACCELERATOR}: about a minute …")
    results, datasets = run(
        [folder / "tfrecord"],
        _recipe(),
        split="train",
        make=partial(make_step, accelerator=_ACCELERATOR),
        sweep=[],
        budget=_BUDGET_SECONDS,
        quiet=not console.is_terminal,
    )
    write_outputs(results, datasets, folder)
    show(results, folder)


def _recipe() -> Recipe:
    from dataio.recipe import Recipe

    # Half of the usual batch: twice as many batches in an epoch of 800 pictures, so that less of it is buffers filling.
    return Recipe(image_size=224, batch_size=32)


def _say(console: Console, title: str, words: str, started: float) -> None:
    console.print(f"[bold]{title:<9}[/bold] {words} [dim]{time.monotonic() - started:.1f} s[/dim]", soft_wrap=True)
