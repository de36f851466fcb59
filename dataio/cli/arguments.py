"""What is typed, checked before anything is done: paths, and how it is told in one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

#: Longest side of smaller and of raw pictures, as `picture.Side` has it.
MOST_SIDE = 16384


def some_path(text: str) -> Path:
    """The path that `text` names; an empty one, most often an unset variable of a script, would be this folder."""
    if not text:
        raise typer.BadParameter("is empty; name a path, or . for this folder")
    return Path(text)


def counted(number: int, noun: str) -> str:
    """`1 shard`, `2 shards`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def check_encoding(encoding: str, for_jpeg: Mapping[str, int | None], size: str | None) -> None:
    """Refuses options that belong to another encoding than the one that was asked for."""
    given = [name for name, value in for_jpeg.items() if value is not None]
    if encoding != "jpeg" and given:
        raise typer.BadParameter("is for smaller JPEGs: add --encoding jpeg, or leave it out", param_hint=given[0])
    if encoding != "raw" and size is not None:
        raise typer.BadParameter("is for raw pixels: add --encoding raw, or leave it out", param_hint="--size")
    if encoding == "raw" and size is None:
        raise typer.BadParameter("raw takes --size HxW, such as --size 256x256", param_hint="--encoding")
    if encoding == "jpeg" and len([name for name in given if name != "--quality"]) != 1:
        raise typer.BadParameter(
            "jpeg takes one of --short-side PX and --max-side PX, such as --short-side 256", param_hint="--encoding"
        )


def check_split(split: str | None, split_like: str | None, labels: Path | None) -> None:
    """Refuses shares that cannot be."""
    from dataio.converters.splits import parse_shares
    from dataio.errors import SourceError

    if split is not None:
        try:
            shares = parse_shares(split)
        except SourceError as problem:
            raise typer.BadParameter(
                str(problem).removeprefix(f"--split {split!r}: "), param_hint=f"--split {split!r}"
            ) from None
        if split_like is not None and len(shares) != 2:
            raise typer.BadParameter(
                f"--split-like {split_like} makes two parts, such as train=0.8,val=0.2", param_hint="--split"
            )
    elif split_like is not None:
        raise typer.BadParameter("needs the shares too, such as --split train=0.8,val=0.2", param_hint="--split-like")
    if split_like is not None and labels is not None:
        raise typer.BadParameter(
            "takes classes from folders; leave out --labels or --split-like", param_hint="--split-like"
        )


def height_width(text: str | None) -> tuple[int, int] | None:
    """(height, width) that `256x256` names, in pixels."""
    if text is None:
        return None
    height, _, width = text.lower().partition("x")
    if not height.isdecimal() or not width.isdecimal():
        raise typer.BadParameter(f"{text!r} is no size; write height x width, such as 256x256", param_hint="--size")
    # Compared as text, because numbers of thousands of digits are not turned into ints.
    if any(len(side.lstrip("0")) > 5 or not 1 <= int(side) <= MOST_SIDE for side in (height, width)):
        raise typer.BadParameter(f"{text!r}: height and width are 1 to {MOST_SIDE} pixels", param_hint="--size")
    return int(height), int(width)


def share(text: str | None) -> float | None:
    """The share that `1%` or `0.01` names, in [0, 1]."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise typer.BadParameter(f"{text!r} is no share; write 1% or 0.01", param_hint="--max-bad")
    return share
