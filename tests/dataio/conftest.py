"""A dataset in memory with pictures of every orientation, for tests of the pipeline alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataio.converters.blocks import read_blocks
from dataio.data import Data, Split


class MemoryData(Data):
    """Encoded pictures held in memory, read by blocks like the formats with random access."""

    def __init__(self, pictures: list[dict[str, Any]], *, encoding: str = "jpeg", classes: int = 3) -> None:
        self.pictures = pictures
        self.path = Path("memory")
        self.format = "memory"
        self.encoding = encoding  # type: ignore[assignment]
        self.random_access = True
        self.class_names = tuple(f"class{number}" for number in range(classes))
        total = sum(len(picture["image"]) for picture in pictures)
        self.splits = {"train": Split(records=len(pictures), shards=1, bytes=total)}
        self.fingerprint = "memory"

    def records(self, split: str, *, read=None, order=None, shard=None):  # type: ignore[no-untyped-def]
        self.split(split)

        def block(positions: np.ndarray) -> list[np.ndarray]:
            chosen = [self.pictures[at] for at in positions]
            images = np.array([picture["image"] for picture in chosen], dtype=object)
            names = ("label", "index", "orientation", "height", "width")
            return [images, *(np.array([picture[name] for picture in chosen], np.int64) for name in names)]

        return read_blocks(len(self.pictures), block, read=read, order=order, shard=shard)


def upright_pixels(number: int) -> np.ndarray:
    """A smooth coloured picture that is different in every corner, uint8[height, width, 3]."""
    height, width = 90 + 7 * (number % 5), 120 - 9 * (number % 4)
    y, x = np.mgrid[0:height, 0:width]
    red, green, blue = 255 * y / height, 255 * x / width, 40 * (number % 6) + 0 * x
    return np.stack([red, green, blue], axis=-1).astype(np.uint8)


#: How to store an upright picture so that the orientation tag turns it back (the inverse transpositions).
INVERSE = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def make_picture(number: int, orientation: int, kind: str = "JPEG") -> dict[str, Any]:
    picture = Image.fromarray(upright_pixels(number))
    if orientation > 1:
        picture = picture.transpose(INVERSE[orientation])
    stored = io.BytesIO()
    picture.save(stored, kind, **({"quality": 95, "subsampling": 0} if kind == "JPEG" else {}))
    return {
        "image": stored.getvalue(),
        "label": number % 3,
        "index": 2 * number,
        "orientation": orientation,
        "height": picture.height,
        "width": picture.width,
    }


@pytest.fixture(scope="session")
def memory_data() -> MemoryData:
    """24 pictures, three of every orientation 1 to 8."""
    return MemoryData([make_picture(number, number % 8 + 1) for number in range(24)])
