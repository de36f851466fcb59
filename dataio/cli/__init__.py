"""The `dataio` command: one file a subcommand; the only place that prints."""

from dataio.cli.entry import main

__all__ = ["main"]
