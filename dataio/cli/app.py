"""Puts the subcommands together and turns errors into one line and an exit code.

Exit codes: 0 done, 1 error, 2 usage, 3 a limit that the user set was not met, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Annotated

import typer

from dataio.errors import DataioError, LimitExceeded

#: Subcommand modules in the order in which help shows them; each has `register(app)` and imports light things only,
#: because `dataio --help` loads them all.
_COMMANDS = ("convert", "inspect", "verify", "repair", "bench", "demo", "export")


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

    for name in _COMMANDS:
        import_module(f"dataio.cli.{name}").register(app)
    return app


def main() -> None:
    """Runs the command line; the entry point of `dataio` and `python -m dataio`."""
    try:
        make_app()()
    except LimitExceeded as problem:
        _say(problem)
        sys.exit(3)
    except DataioError as problem:
        _say(problem)
        sys.exit(1)
    except KeyboardInterrupt:
        _say("interrupted")
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        # The reader of our output (`| head`) went away, which is its right; Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


def _say(problem: object) -> None:
    print(f"dataio: {problem}", file=sys.stderr)
