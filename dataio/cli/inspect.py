"""`dataio inspect`: what lies at a path, in a moment and without TensorFlow."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dataio.cli.arguments import counted, some_path

if TYPE_CHECKING:
    from dataio.converters.inspection import Inspection

#: Class names that are printed before the rest becomes a number, fewer where a line ends; `--json` has all of them.
_MOST_CLASSES, _LINE = 10, 80


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(help=_HELP)(inspect)


_HELP = """Say what PATH holds: format, splits, classes, sizes of pictures, and problems that show at a glance.

Takes converted datasets, TFDS folders and folders of pictures; large folders are sampled, and that is said."""


def inspect(
    path: Annotated[
        Path,
        typer.Argument(parser=some_path, metavar="PATH", help="A dataset or a folder of pictures.", show_default=False),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Inspects and prints."""
    from dataio.converters.inspection import inspect as run

    found = run(path)
    if as_json:
        typer.echo(json.dumps(_as_json(found), indent=2))
    else:
        _print(found)


def _as_json(found: Inspection) -> dict[str, Any]:
    return {
        "path": found.path,
        "format": found.format,
        "encoding": found.encoding,
        "splits": {name: asdict(split) for name, split in found.splits.items()},
        "classes": list(found.classes),
        "pictures": None if found.pictures is None else asdict(found.pictures),
        "sampled": found.sampled,
        "problems": list(found.problems),
    }


def _print(found: Inspection) -> None:
    about = "about " if found.sampled and found.sampled.startswith("counts") else ""
    from dataio.converters.names import one_line

    typer.echo(f"{one_line(Path(found.path))}: {found.format}, {found.encoding}")
    for name, split in found.splits.items():
        typer.echo(
            f"  {one_line(name)}: {about}{counted(split.records, 'record')}, {counted(split.shards, 'file')}, "
            f"{split.bytes / 1e6:.1f} MB"
        )
    typer.echo(_classes([one_line(name) for name in found.classes]))
    pictures = found.pictures
    if pictures is not None and pictures.height and pictures.width and pictures.bytes:
        typer.echo("  pictures (smallest, median, largest):")
        typer.echo(
            f"    height {_three(pictures.height)}, width {_three(pictures.width)} px\n"
            f"    {_three(pictures.bytes)} bytes"
        )
        if pictures.progressive is not None and pictures.gray is not None:
            typer.echo(f"  {pictures.progressive:.0%} progressive, {pictures.gray:.0%} gray, of {pictures.headers}")
    if found.sampled:
        typer.echo(f"  sampled: {found.sampled}")
    for problem in found.problems:
        typer.echo(f"  problem: {one_line(problem)}")


def _classes(names: list[str]) -> str:
    """As many of the names as a line takes, one at least."""
    line = f"  {len(names)} {'class' if len(names) == 1 else 'classes'}: " + ", ".join(names[:1])
    for shown, name in enumerate(names[1:], 1):
        if shown == _MOST_CLASSES or len(line) + len(name) + len(", , …") > _LINE:
            return line + ", …"
        line += f", {name}"
    return line


def _three(sizes: Any) -> str:
    return f"{sizes.min}, {sizes.median}, {sizes.max}"
