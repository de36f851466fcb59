"""`dataio convert`: a folder of pictures in, a dataset out."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from dataio.cli.arguments import MOST_SIDE, check_encoding, check_split, counted, height_width, share, some_path

if TYPE_CHECKING:
    from dataio.converters.conversion import ConversionOptions, Converted, Progress

#: Classes that the table at the end shows before it ends in a sum.
_MOST_CLASSES = 20

#: How the kinds of `Scan.skipped` are told: one of them, several.
_LEFT_OUT = {
    "junk": ("{} file of litter", "{} files of litter"),
    "hidden": ("{} hidden file", "{} hidden files"),
    "not_a_picture": ("{} file that is no picture", "{} files that are no pictures"),
    "outside_class": ("{} picture outside class folders", "{} pictures outside class folders"),
    "special": ("{} pipe, socket or device", "{} pipes, sockets or devices"),
    "link_loop": ("{} link in a loop", "{} links in a loop"),
    "unlabelled": ("{} picture without a label", "{} pictures without a label"),
    "not_listed_by_keras": ("{} picture that Keras does not list", "{} pictures that Keras does not list"),
}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(help=_HELP)(convert)


_HELP = """Convert the pictures below SRC into a dataset in the folder DST.

SRC/<class>/** is one split, train; SRC/<split>/<class>/** are several when every top folder is named train, val,
valid, validation or test. JPEGs are stored byte for byte. What each file is, its bytes decide, not its name; files
that cannot be stored are skipped and listed in DST/outcomes.jsonl.

A run that was stopped is taken up by repeating the command."""


def convert(
    src: Annotated[
        Path, typer.Argument(parser=some_path, metavar="SRC", help="Folder of pictures.", show_default=False)
    ],
    dst: Annotated[
        Path,
        typer.Argument(
            parser=some_path,
            metavar="DST",
            help="Folder for the dataset: new, empty or unfinished.",
            show_default=False,
        ),
    ],
    to: Annotated[Literal["tfrecord", "hdf5", "lmdb"], typer.Option(help="Format.", show_default=False)],
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="usable cores")] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=99_999, help="Shards a split.", show_default="of 128 MiB")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the order in which records are stored.")] = 0,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Store in random order.")] = True,
    encoding: Annotated[
        Literal["source", "jpeg", "raw"],
        typer.Option(help="source: files as they are; jpeg: smaller JPEGs; raw: pixels of one size."),
    ] = "source",
    short_side: Annotated[
        int | None, typer.Option(min=1, max=MOST_SIDE, help="Pixels of the short side, for jpeg.")
    ] = None,
    max_side: Annotated[
        int | None, typer.Option(min=1, max=MOST_SIDE, help="Pixels of the long side, for jpeg.")
    ] = None,
    quality: Annotated[
        int | None, typer.Option(min=1, max=100, help="Quality of smaller JPEGs.", show_default="90")
    ] = None,
    size: Annotated[str | None, typer.Option(metavar="HxW", help="Size of raw pictures, such as 256x256.")] = None,
    validate: Annotated[
        Literal["header", "decode"], typer.Option(help="Decode what looks odd, or everything.")
    ] = "header",
    exif_orientation: Annotated[
        Literal["store", "apply"], typer.Option(help="Store the tag, or turn pictures upright.")
    ] = "store",
    non_jpeg: Annotated[
        Literal["transcode", "reject"], typer.Option(help="What to do with PNG, BMP, WebP, GIF and others.")
    ] = "transcode",
    max_pixels: Annotated[int, typer.Option(min=1, help="Reject pictures that claim more.")] = 178_956_970,
    labels: Annotated[
        Path | None,
        typer.Option(parser=some_path, metavar="CSV", help="Labels from a file of path,label instead of folders."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="SHARES", help="Make splits, such as train=0.9,val=0.1, alike in classes.")
    ] = None,
    split_like: Annotated[
        Literal["keras"] | None, typer.Option(help="Divide as Keras's validation_split does, with --seed.")
    ] = None,
    max_bad: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Exit with 3 above this share of rejected files, such as 1%.")
    ] = None,
    on_bad: Annotated[
        Literal["skip", "fail"], typer.Option(help="Skip rejected files, or stop at the first.")
    ] = "skip",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in DST.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Runs the conversion and prints what came of it."""
    from dataio.cli.transfer import TransferProgress
    from dataio.converters import conversion
    from dataio.converters.names import one_line
    from dataio.converters.picture import ImageOptions

    check_encoding(encoding, {"--short-side": short_side, "--max-side": max_side, "--quality": quality}, size)
    check_split(split, split_like, labels)
    if to == "lmdb" and shards is not None:
        raise typer.BadParameter("LMDB keeps each split in one file; leave it out", param_hint="--shards")
    image = ImageOptions(
        max_pixels=max_pixels,
        non_jpeg=non_jpeg,
        exif_orientation=exif_orientation,
        validation=validate,
        encoding=encoding,
        short_side=short_side,
        max_side=max_side,
        quality=90 if quality is None else quality,
        size=height_width(size),
    )
    options = conversion.ConversionOptions(
        to=to, image=image, seed=seed, shuffle=shuffle, shards=shards, split=split, split_like=split_like
    )
    limit = share(max_bad)
    signal.signal(signal.SIGTERM, _end)
    if dry_run:
        _forecast(src, dst, options, labels=labels, workers=workers, overwrite=overwrite, as_json=as_json)
        return
    with TransferProgress("converting", quiet=quiet) as live:

        def report(progress: Progress) -> None:
            files = f"{progress.files}/{progress.total_files} files"
            live.show(progress.bytes, progress.total_bytes, files=files)

        converted = conversion.convert(
            src,
            dst,
            options,
            labels=labels,
            workers=workers,
            overwrite=overwrite,
            fail_on_bad=on_bad == "fail",
            max_bad=limit,
            report=report,
        )
        for warning in converted.warnings:
            live.say(f"warning: {one_line(warning)}")
    reasons = _reasons(dst)
    if as_json:
        typer.echo(json.dumps(_as_json(dst, converted, reasons), indent=2))
    elif not quiet:
        _print(dst, converted, reasons)


def _forecast(
    src: Path,
    dst: Path,
    options: ConversionOptions,
    *,
    labels: Path | None,
    workers: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    from dataio.converters.forecast import forecast
    from dataio.converters.names import one_line

    found = forecast(src, dst, options, labels=labels, workers=workers, overwrite=overwrite)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    for warning in found.warnings:
        typer.echo(f"warning: {one_line(warning)}")
    typer.echo(
        f"{one_line(dst)}: {counted(found.records, 'record')} of {counted(found.files, 'file')}, "
        f"{found.bytes / 1e6:.1f} MB in {counted(found.shards, 'shard')}, in {found.seconds:.1f} s; "
        f"{found.free_bytes / 1e9:.1f} GB are free (from {counted(found.sampled_files, 'file')} converted on trial; "
        "nothing was kept)"
    )


def _end(number: int, frame: object) -> NoReturn:
    # As an exception, so that workers are ended and the lock is given up on the way out.
    sys.exit(128 + number)


def _reasons(dst: Path) -> dict[str, int]:
    """How many files met which fate, such as `rejected: truncated`."""
    counts: Counter[str] = Counter()
    with open(dst / "outcomes.jsonl", encoding="utf-8") as file:
        for line in file:
            outcome = json.loads(line)
            counts[f"{outcome['outcome']}: {outcome['reason']}"] += 1
    return dict(sorted(counts.items()))


def _as_json(dst: Path, converted: Converted, reasons: dict[str, int]) -> dict[str, Any]:
    manifest = converted.manifest
    return {
        "path": str(dst),
        "format": manifest.format,
        "encoding": manifest.encoding,
        "seconds": converted.seconds,
        "resumed_units": converted.resumed_units,
        "splits": {
            name: {
                "seen": split.seen,
                "records": split.records,
                "rejected": split.rejected,
                "transcoded": split.transcoded,
                "bytes": split.bytes,
                "shards": len(split.shards),
                "classes": {
                    title: entry.model_dump() for title, entry in zip(manifest.class_names, split.classes, strict=True)
                },
            }
            for name, split in manifest.splits.items()
        },
        "outcomes": reasons,
        "skipped": manifest.source.skipped,
        "warnings": list(converted.warnings),
    }


def _print(dst: Path, converted: Converted, reasons: dict[str, int]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from dataio.converters.names import one_line

    console = Console(highlight=False)
    manifest = converted.manifest
    for name, split in manifest.splits.items():
        table = Table(title=f"split {name}", title_justify="left")
        for column in ("class", "records", "MB", "rejected", "transcoded"):
            table.add_column(column, justify="left" if column == "class" else "right")
        rows = list(zip(manifest.class_names, split.classes, strict=True))
        # The classes where something went wrong are the ones to look at.
        rows.sort(key=lambda row: -row[1].rejected)
        for title, entry in rows[:_MOST_CLASSES]:
            cells = (entry.records, f"{entry.bytes / 1e6:.1f}", entry.rejected, entry.transcoded)
            table.add_row(escape(one_line(title)), *(str(cell) for cell in cells))
        if len(rows) > _MOST_CLASSES:
            table.add_row(f"… {len(rows) - _MOST_CLASSES} more", "", "", "", "")
        table.add_section()
        total = (split.records, f"{split.bytes / 1e6:.1f}", split.rejected, split.transcoded)
        table.add_row(f"{len(rows)} classes", *(str(cell) for cell in total))
        console.print(table)
    for reason, count in reasons.items():
        console.print(f"{count} {reason}")
    if manifest.source.skipped:
        left_out = ", ".join(
            _LEFT_OUT.get(kind, ("{} " + kind, "{} " + kind))[count != 1].format(count)
            for kind, count in manifest.source.skipped.items()
        )
        console.print(f"left out: {left_out}")
    records = sum(split.records for split in manifest.splits.values())
    seen = sum(split.seen for split in manifest.splits.values())
    shards = sum(len(split.shards) for split in manifest.splits.values())
    rate = manifest.source.bytes / 1e6 / converted.seconds
    again = f", {counted(converted.resumed_units, 'unit')} of an earlier run kept" if converted.resumed_units else ""
    console.print(
        f"{records} of {counted(seen, 'file')} stored in {counted(shards, 'shard')} in {escape(one_line(dst))}: "
        f"{converted.seconds:.1f} s, {rate:.0f} MB/s{again}"
    )
