"""`dataio verify`: is a dataset still what was written?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dataio.cli.arguments import counted, some_path
from dataio.cli.damages import damage_lines

if TYPE_CHECKING:
    from dataio.converters.verification import Verified


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(help=_HELP)(verify)


_HELP = """Read every byte of a converted dataset and compare it with what was written.

Names shard, record, offset and source file of whatever differs, and exits with 1 then."""


def verify(
    path: Annotated[
        Path, typer.Argument(parser=some_path, metavar="PATH", help="Folder of the dataset.", show_default=False)
    ],
    source: Annotated[
        Path | None,
        typer.Option(parser=some_path, metavar="SRC", help="Compare every record with the file it was made from, too."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only what differs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Verifies and prints what differs."""
    from dataio.cli.transfer import TransferProgress
    from dataio.converters.names import as_text, one_line
    from dataio.converters.verification import verify as run

    with TransferProgress("verifying", quiet=quiet) as live:
        verified = run(path, source=source, report=live.show)
    shown = one_line(path)
    if as_json:
        damages: list[dict[str, Any]] = [
            {
                "file": damage.file,
                "record": damage.record,
                "offset": damage.offset,
                "what": damage.what,
                "source": None if damage.source is None else as_text(damage.source),
            }
            for damage in verified.damages
        ]
        result = {
            "path": str(path),
            "ok": not damages,
            "files": verified.files,
            "bytes": verified.bytes,
            "records": verified.records,
            "seconds": verified.seconds,
            "source_differences": verified.source_differences,
            "damages": damages,
        }
        typer.echo(json.dumps(result, indent=2))
    else:
        for line in damage_lines(verified.damages):
            typer.echo(line)
        if verified.damages:
            for line in _conclusion(verified, shown, source):
                typer.echo(line)
        elif not quiet:
            rate = verified.bytes / 1e6 / max(verified.seconds, 1e-9)
            typer.echo(
                f"{shown}: {counted(verified.records, 'record')} in {counted(verified.files, 'file')} are what was "
                "written "
                f"({verified.seconds:.2f} s, {rate:.0f} MB/s)"
            )
    if verified.damages:
        raise typer.Exit(1)


def _conclusion(verified: Verified, shown: str, source: Path | None) -> Iterator[str]:
    """What follows from differences: in the dataset, in the source, or from having been given another source."""
    from dataio.converters.names import one_line

    own = len(verified.damages) - verified.source_differences
    if own:
        yield f"{shown}: {counted(own, 'difference')}; `dataio repair {shown} --source SRC` mends what differs"
    if source is None or not verified.source_differences:
        return
    asked = one_line(source)
    if 2 * verified.source_differences > verified.records:
        yield (
            f"{asked}: {verified.source_differences} of {counted(verified.records, 'record')} were not made from what "
            "is there: is this the right source?"
        )
    else:
        yield (
            f"{asked}: {counted(verified.source_differences, 'difference')} since the conversion; convert again to "
            "take in what changed"
        )
