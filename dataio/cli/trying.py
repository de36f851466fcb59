"""`dataio bench FOLDER --try "tfrecord, tfrecord@256, hdf5-raw@256"`: other ways of storing, tried on a sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import typer

from dataio.errors import PlanError

if TYPE_CHECKING:
    from dataio.bench.results import Forecast, Results
    from dataio.converters.conversion import ConversionOptions
    from dataio.data import Data

#: Pictures of the sample, and of the smaller one that tells what a conversion costs before its first picture.
SAMPLE_PICTURES = 400
START_PICTURES = 24


@dataclass(frozen=True, slots=True)
class Way:
    """A way of storing."""

    name: str
    """As the user wrote it: FORMAT, FORMAT@SIDE (smaller JPEGs) or FORMAT-raw@SIDE (pixels)."""
    to: Literal["tfrecord", "hdf5", "lmdb"]
    """The format."""
    raw: bool
    """Whether pixels are stored, not JPEGs."""
    side: int | None
    """Pixels of the short side of smaller JPEGs, or of the square of raw pictures."""

    def options(self) -> ConversionOptions:
        """What `convert` takes for it."""
        from dataio.converters.conversion import ConversionOptions
        from dataio.converters.imaging import ImageOptions

        image = ImageOptions()
        if self.raw and self.side is not None:
            image = ImageOptions(encoding="raw", size=(self.side, self.side))
        elif self.side is not None:
            image = ImageOptions(encoding="jpeg", short_side=self.side)
        return ConversionOptions(to=self.to, image=image)


@dataclass(frozen=True, slots=True)
class Tried:
    """A sample that was converted."""

    way: Way
    """How."""
    data: Data
    """The sample as a dataset."""
    records: int
    """Pictures in it, all splits."""
    bytes_per_record: float
    """Bytes on disk a picture."""
    start_seconds: float
    """What a conversion costs before its first picture."""
    seconds_per_record: float
    """What it costs a picture."""


def parse_ways(text: str) -> list[Way]:
    """The ways that `--try` lists, separated by commas.

    Raises:
        BadParameter: one that is not understood; the message shows what would be.
    """
    ways = []
    for word in (part.strip() for part in text.split(",")):
        found = re.fullmatch(r"(tfrecord|hdf5|lmdb)(-raw)?(?:@(\d{1,5}))?", word)
        if found is None or (found[2] and not found[3]):
            raise typer.BadParameter(
                f"{word!r}: takes tfrecord, hdf5 or lmdb; @256 for JPEGs of that short side; -raw@256 for pixels",
                param_hint="--try",
            )
        to = cast(Literal["tfrecord", "hdf5", "lmdb"], found[1])
        ways.append(Way(word, to, raw=bool(found[2]), side=int(found[3]) if found[3] else None))
    if len({way.name for way in ways}) < len(ways):
        raise typer.BadParameter("lists one way twice", param_hint="--try")
    return ways


def convert_samples(
    source: Path, ways: Sequence[Way], folder: Path, *, on_progress: Callable[[str], None]
) -> tuple[list[Tried], int]:
    """Converts a sample of `source` in each way, below `folder`.

    Returns:
        The samples, and how many pictures the source has.

    Raises:
        SourceError: no pictures there.
        DestinationError: `folder` cannot be written.
    """
    from dataio import open as open_data
    from dataio.cli.sampling import link_sample
    from dataio.converters.conversion import convert

    _, total = link_sample(source, folder / "pictures", most=SAMPLE_PICTURES)
    link_sample(source, folder / "few", most=START_PICTURES)
    tried = []
    for number, way in enumerate(ways):
        on_progress(way.name)
        few = convert(folder / "few", folder / f"few-{number}", way.options())
        many = convert(folder / "pictures", folder / str(number), way.options())
        data = open_data(folder / str(number))
        splits = data.splits.values()
        records = sum(split.records for split in splits)
        few_records = sum(split.records for split in few.manifest.splits.values())
        per_record = max(0.0, many.seconds - few.seconds) / max(1, records - few_records)
        tried.append(
            Tried(
                way=way,
                data=data,
                records=records,
                bytes_per_record=sum(split.bytes for split in splits) / records,
                start_seconds=max(0.0, few.seconds - few_records * per_record),
                seconds_per_record=per_record,
            )
        )
    return tried, total


def forecasts(results: Results, tried: Sequence[Tried], total: int) -> tuple[Forecast, ...]:
    """What converting all `total` pictures would cost and bring, for every way that was tried."""
    from dataio.bench.results import Forecast

    made = []
    for one in tried:
        runs = [run for run in results.runs if run.data == one.way.name]
        best = max(runs, key=lambda run: run.images_per_second.median)
        made.append(
            Forecast(
                name=one.way.name,
                sample_records=one.records,
                bytes=round(one.bytes_per_record * total),
                conversion_seconds=one.start_seconds + one.seconds_per_record * total,
                images_per_second=best.images_per_second,
                run=one.way.name,
            )
        )
    return tuple(made)


def check_source(datasets: Sequence[Data]) -> Path:
    """The one folder of pictures that `--try` takes.

    Raises:
        PlanError: several datasets, or one that is not a folder of pictures.
    """
    if len(datasets) != 1 or datasets[0].format != "folder":
        found = ", ".join(f"{data.path} ({data.format})" for data in datasets)
        raise PlanError(f"--try takes one folder of pictures, from which it converts a sample; found {found}")
    return datasets[0].path
