"""`dataio export`: prints a tuned pipeline as plain tf.data code that needs no dataio."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("export")(export)


def export(
    tuned: Annotated[
        Path,
        typer.Argument(metavar="TUNED", help="A tuned.json that `dataio bench --out` wrote.", show_default=False),
    ],
    out: Annotated[Path | None, typer.Option(help="File to write, in place of stdout.", show_default=False)] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where the data are now, if they were moved.", show_default=False)
    ] = None,
) -> None:
    """Print the tuned pipeline as tf.data code to own.

    The code needs TensorFlow and no dataio, and gives the same pictures as dataio.load_tuned(...).build().
    """
    from dataio import __version__, load_tuned
    from dataio import open as open_data
    from dataio.cli.exporting import export_code
    from dataio.errors import DataNotFound
    from dataio.records import write_whole

    if not tuned.is_file():
        raise DataNotFound(f"{tuned}: no such file; `dataio bench DATA --out DIR` writes DIR/tuned.json")
    pipeline = load_tuned(tuned)
    code = export_code(pipeline, open_data(data) if data is not None else pipeline.open_data(), version=__version__)
    if out is None:
        sys.stdout.write(code)
    else:
        write_whole(out, code.encode())
