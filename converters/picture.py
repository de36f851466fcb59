"""The nouns of deciding: what is wanted of pictures, what is stored of one, and why nothing is."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Literal

from pydantic import Field, model_validator

from dataio.converters.outcome import Reason
from dataio.records import Record

#: Most pixels of a picture by default. Source: twice PIL.Image.MAX_IMAGE_PIXELS, where Pillow stops opening
#: files (1 GiB / 4 / 3 pixels, then an error at double that).
MAX_PIXELS = 178_956_970

#: Longest side that libjpeg and libjpeg-turbo take. Source: JPEG_MAX_DIMENSION in their jmorecfg.h.
MAX_SIDE = 65_500

#: Most bytes of a file that is read. Source: protobuf's limit of 2 GiB for a message, and so for a record, with room to
#: spare: pixels of the largest picture that is taken have half a gigabyte.
MAX_FILE_BYTES = 1 << 30

Resizer = Literal["pillow", "opencv"]

Side = Annotated[int, Field(ge=1, le=16384)]


class ImageOptions(Record):
    """How pictures are stored, and which are not."""

    max_pixels: Annotated[int, Field(ge=1)] = MAX_PIXELS
    """Pictures whose header claims more are rejected before anything is decoded."""
    non_jpeg: Literal["transcode", "reject"] = "transcode"
    """What to do with PNG, GIF, BMP, TIFF, WebP, PNM, JPEG 2000 and AVIF."""
    exif_orientation: Literal["store", "apply"] = "store"
    """`store`: bytes stay, the tag goes into the record and readers apply it. `apply`: pictures that are not
    upright are encoded anew."""
    validation: Literal["header", "decode"] = "header"
    """`header`: decode what looks odd. `decode`: decode everything, which finds damage inside the scan
    too."""
    encoding: Literal["source", "jpeg", "raw"] = "source"
    """`source`: full size. `jpeg`: made smaller, see `short_side` and `max_side`. `raw`: pixels of one
    `size`."""
    short_side: Side | None = None
    """Pixels of the shorter side of a smaller JPEG; smaller pictures are not enlarged but stored as they
    are."""
    max_side: Side | None = None
    """The same for the longer side."""
    quality: Annotated[int, Field(ge=1, le=100)] = 90
    """Quality of smaller JPEGs, libjpeg's scale."""
    resizer: Resizer | None = None
    """What makes ordinary JPEGs smaller: `pillow` (bicubic over the whole footprint) or `opencv` (the same task in half
    of the time, a little less sharp). None becomes `opencv` where it is installed, else `pillow`, and stays None with
    encoding `source`. It decides the bytes, so a dataset records it and a repair uses it again."""
    size: tuple[Side, Side] | None = None
    """(height, width) of raw pictures: scaled until they just cover it, then cut at the centre."""

    @model_validator(mode="before")
    @classmethod
    def _choose_resizer(cls, values: object) -> object:
        if isinstance(values, dict) and values.get("encoding", "source") != "source" and not values.get("resizer"):
            return values | {"resizer": "opencv" if find_spec("cv2") is not None else "pillow"}
        return values

    @model_validator(mode="after")
    def _fields_agree(self) -> ImageOptions:
        sides = [name for name in ("short_side", "max_side") if getattr(self, name) is not None]
        if self.encoding == "jpeg" and len(sides) != 1:
            raise ValueError("encoding 'jpeg' takes either short_side or max_side, in pixels")
        if self.encoding != "jpeg" and sides:
            raise ValueError(f"{sides[0]} needs encoding 'jpeg'")
        if (self.encoding == "raw") != (self.size is not None):
            raise ValueError("encoding 'raw' takes size (height, width), and no other encoding does")
        if self.encoding == "source" and self.resizer is not None:
            raise ValueError("a resizer needs encoding 'jpeg' or 'raw'")
        return self


@dataclass(frozen=True, slots=True)
class Picture:
    """What is stored of an accepted file."""

    image: bytes
    """A JPEG file; or uint8[height, width, 3] RGB pixels, row by row, with encoding `raw`."""
    orientation: int
    """EXIF orientation 1..8 that a reader has to apply; 1 wherever it was applied here."""
    height: int
    """Pixels of `image` as stored, before orientation."""
    width: int
    """Pixels of `image` as stored, before orientation."""
    transcoded: str | None
    """What made the file's content unfit to be stored: `cmyk`, `ycck`, `png`, `gif`, `bmp`, `tiff`, `webp`,
    `pnm`, `jpeg2000`, `avif`. None where it was fit, also when an option asked for another size or
    orientation."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why nothing is stored of a file."""

    reason: Reason
    """One of the closed set."""
    detail: str
    """What was found, for a person."""


def size_problem(height: int, width: int, max_pixels: int) -> str | None:
    """Why a picture of this size is not taken, in words; None when it is."""
    if height * width > max_pixels:
        return f"{width} x {height} pixels are more than {max_pixels:,}"
    if max(height, width) > MAX_SIDE:
        return f"{width} x {height} pixels: no JPEG decoder takes a side above {MAX_SIDE:,}"
    return None
