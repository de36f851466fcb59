"""The work on pictures in a bare loop, without tf.data: what one core does at best."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Literal

import numpy as np
from PIL import Image

from dataio.data import Data
from dataio.recipe import Recipe
from dataio.stages.batch_kernel import finish_batch

#: Records in a sample: enough that the mix of sizes is the dataset's, few enough to read at once.
SAMPLE_RECORDS = 256
#: Records that one turn of the loop takes: a batch, as the pipelines do.
TURN_RECORDS = 32


@dataclass(frozen=True)
class Sample:
    """Some records of a dataset, in memory."""

    encoding: Literal["jpeg", "raw", "packed"]
    """What `images` holds."""
    images: np.ndarray
    """object[records] of encoded files or packed pixels, or uint8[records, height, width, 3]."""
    index: np.ndarray
    """int64[records]."""
    orientation: np.ndarray
    """int64[records], EXIF."""
    height: np.ndarray
    """int64[records], pixels as stored."""
    width: np.ndarray
    """int64[records], pixels as stored."""

    @property
    def record_bytes(self) -> float:
        """Mean bytes of an image as stored."""
        if self.encoding == "raw":
            return float(self.images[0].nbytes)
        return float(np.mean([len(image) for image in self.images]))

    def turns(self) -> Iterator[slice]:
        """The sample cut into batches."""
        for first in range(0, len(self.index), TURN_RECORDS):
            yield slice(first, first + TURN_RECORDS)


def take_sample(data: Data, *, split: str, records: int = SAMPLE_RECORDS) -> Sample:
    """The first records of a split in stored order, which converters shuffle.

    Raises:
        DataNotFound: no such split.
    """
    encoding: Literal["jpeg", "raw"] = "raw" if data.encoding == "raw" else "jpeg"
    batch = next(iter(data.records(split).take(records).batch(records))) if encoding == "raw" else None
    if batch is not None:
        columns = {name: value.numpy() for name, value in batch.items()}
    else:
        rows = list(data.records(split).take(records).as_numpy_iterator())
        columns = {name: np.array([row[name] for row in rows]) for name in ("index", "orientation", "height", "width")}
        columns["image"] = np.array([row["image"] for row in rows], dtype=object)
    return Sample(
        encoding, columns["image"], columns["index"], columns["orientation"], columns["height"], columns["width"]
    )


def stored_smaller(sample: Sample, short_side: int, *, quality: int = 90) -> Sample:
    """The sample as it would be stored as JPEGs whose shorter side has `short_side` pixels; never enlarged."""
    images, heights, widths = [], [], []
    for content in sample.images:
        with Image.open(io.BytesIO(content)) as image:
            scale = short_side / min(image.size)
            picture = image.convert("RGB")
        if scale < 1:
            size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
            picture = picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0)
            file = io.BytesIO()
            picture.save(file, "JPEG", quality=quality)
            content = file.getvalue()
        images.append(content)
        heights.append(picture.height)
        widths.append(picture.width)
    return replace(sample, images=np.array(images, dtype=object), height=np.array(heights), width=np.array(widths))


def decoded(sample: Sample) -> Sample:
    """The sample as a cache of decoded pictures would hold it."""
    images = []
    for content in sample.images:
        with Image.open(io.BytesIO(content)) as image:
            images.append(image.convert("RGB").tobytes())
    return replace(sample, encoding="packed", images=np.array(images, dtype=object))


def stored_raw(sample: Sample, side: int) -> Sample:
    """The sample as it would be stored as raw squares of `side` pixels."""
    images = []
    for content in sample.images:
        with Image.open(io.BytesIO(content)) as image:
            images.append(
                np.asarray(image.convert("RGB").resize((side, side), Image.Resampling.BICUBIC, reducing_gap=3.0))
            )
    sides = np.full(len(images), side)
    return replace(sample, encoding="raw", images=np.stack(images), height=sides, width=sides)


def bare_seconds(
    sample: Sample,
    recipe: Recipe,
    *,
    fused: bool,
    seconds: float = 0.5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds one core needs to decode, cut, resize, flip, normalise and copy one picture of the sample into a batch.

    The fastest whole pass over the sample counts: what disturbs a pass is not the work.

    Args:
        sample: records in memory, so that reading costs nothing.
        recipe: what becomes of them.
        fused: decode only the part of a JPEG that the crop needs.
        seconds: how long to repeat the pass; at least two are made.
        clock: seconds, monotonic.
    """
    best, epoch = float("inf"), 0
    end = clock() + seconds
    while epoch < 2 or clock() < end:
        start = clock()
        for turn in sample.turns():
            finish_batch(
                recipe,
                encoding=sample.encoding,
                fused=fused,
                training=True,
                image=sample.images[turn],
                index=sample.index[turn],
                epoch=np.full(len(sample.index[turn]), epoch),
                orientation=sample.orientation[turn],
                height=sample.height[turn],
                width=sample.width[turn],
            )
        best = min(best, (clock() - start) / len(sample.index))
        epoch += 1
    return best


def can_run_bare(encoding: str) -> bool:
    """Whether what the bare loop needs is installed (extra `fast`)."""
    return encoding in ("jpeg", "raw") and find_spec("cv2") is not None and find_spec("simplejpeg") is not None
