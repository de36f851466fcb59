"""`dataio repair`: what is broken in a dataset, written anew from its source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dataio.cli.arguments import some_path
from dataio.cli.damages import damage_lines


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(help=_HELP)(repair)


_HELP = """Verify a converted dataset and write its broken files anew, byte for byte, from the pictures in SRC.

Files that are whole are not touched."""


def repair(
    path: Annotated[
        Path, typer.Argument(parser=some_path, metavar="PATH", help="Folder of the dataset.", show_default=False)
    ],
    source: Annotated[
        Path,
        typer.Option(
            parser=some_path, metavar="SRC", help="The folder that it was converted from.", show_default=False
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(parser=some_path, metavar="CSV", help="The labels file, where it was converted with one."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="usable cores")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Repairs and prints what was written anew."""
    from dataio.cli.transfer import TransferProgress
    from dataio.converters.conversion import Progress
    from dataio.converters.names import one_line
    from dataio.converters.repair import repair as run
    from dataio.converters.verification import describe

    with TransferProgress("repairing", quiet=quiet) as live:

        def report(progress: Progress) -> None:
            live.show(progress.bytes, progress.total_bytes, files=f"{progress.files}/{progress.total_files} files")

        repaired = run(path, source, labels=labels, workers=workers, report=report, report_verifying=live.show)
    if as_json:
        result = {
            "path": str(path),
            "damages": [describe(damage) for damage in repaired.damages],
            "files": list(repaired.files),
            "seconds": repaired.seconds,
        }
        typer.echo(json.dumps(result, indent=2))
    elif not repaired.files:
        typer.echo(f"{one_line(path)}: nothing is broken")
    else:
        for line in damage_lines(repaired.damages):
            typer.echo(f"was broken: {line}")
        for name in repaired.files:
            typer.echo(f"written anew: {one_line(name)}")
