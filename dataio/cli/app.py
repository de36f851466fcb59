"""Puts the subcommands together.

Exit codes: 0 done, 1 error, 2 usage, 3 a limit that the user set was not met, 130 interrupted.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

#: Subcommand modules in the order in which help shows them, each with its line there: more than 65 characters would be
#: cut on 80 columns. Each has `register(app)` and imports light things only, because `dataio --help` loads them all.
_COMMANDS = {
    "convert": "Turn a folder of pictures into TFRecord, HDF5 or LMDB.",
    "inspect": "Say what a dataset or a folder holds, and what is odd in it.",
    "verify": "Compare every byte of a dataset with what was written.",
    "repair": "Write a dataset's broken files anew, byte for byte.",
    "bench": "Say whether a training step will starve, why, and what helps.",
    "demo": "Go the whole way on pictures made here, in a minute or two.",
    "export": "Print the tuned pipeline as tf.data code to own.",
}


def _print_version(asked: bool) -> None:
    if asked:
        import dataio

        typer.echo(f"dataio {dataio.__version__}")
        raise typer.Exit


def make_app() -> typer.Typer:
    """The command line with all its subcommands."""
    app = typer.Typer(
        name="dataio",
        help="Feed GPUs from JPEGs: convert folders, measure whether the GPU starves, hand over the tuned pipeline.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: rich's boxes leave a third of 80 columns to the text
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def _options(
        version: Annotated[
            bool,
            typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and leave."),
        ] = False,
    ) -> None:
        pass

    for name, line in _COMMANDS.items():
        import_module(f"dataio.cli.{name}").register(app)
        app.registered_commands[-1].short_help = line
    return app
