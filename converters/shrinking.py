"""Smaller pictures: sizes, the part of a picture that is kept, and decoding at a fraction where that cannot
be seen."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, JpegImagePlugin

from dataio.converters.picture import ImageOptions

#: A JPEG is decoded at 1/2, 1/4 or 1/8 where what comes out is still this many times the size wanted.
#: Source: our measurement on 47 photographs (tests/benchmarks/test_scaled_decoding.py): at 2, finished pixels differ
#: from those of a full decode by 0.4 levels on average and 1.0 in the worst picture; at 1 by 1.1 and 4.4.
DECODE_MARGIN = 2

#: Pillow's filter: antialiased when shrinking (its support widens), sharp, and without the halos of Lanczos.
FILTER = Image.Resampling.BICUBIC


@dataclass(frozen=True, slots=True)
class Cut:
    """What a picture is resized to and from which part of it."""

    height: int
    """Pixels of the result."""
    width: int
    """Pixels of the result."""
    box: tuple[float, float, float, float]
    """(left, top, right, bottom) of the part kept, as shares of the picture's sides, in [0, 1]."""


_WHOLE = (0.0, 0.0, 1.0, 1.0)


def cut_for(height: int, width: int, orientation: int, options: ImageOptions) -> Cut:
    """How a picture of height x width pixels as stored becomes one of the smaller store.

    Sizes in `options` are those of the upright picture; the cut is in the coordinates of the stored one,
    which is cut, resized and only then turned: turning a small picture is cheap, and gives the same as
    turning first.
    """
    if options.size is not None:
        tall, wide = options.size if orientation < 5 else options.size[::-1]
        scale = max(tall / height, wide / width)
        kept_height, kept_width = tall / scale / height, wide / scale / width
        top, left = (1 - kept_height) / 2, (1 - kept_width) / 2
        return Cut(tall, wide, (max(0.0, left), max(0.0, top), min(1.0, 1 - left), min(1.0, 1 - top)))
    given, wanted = (
        (min(height, width), options.short_side)
        if options.short_side is not None
        else (max(height, width), options.max_side)
    )
    if wanted is None or given <= wanted:
        return Cut(height, width, _WHOLE)
    return Cut(_scaled(height, wanted, given), _scaled(width, wanted, given), _WHOLE)


def decoded_fraction(height: int, width: int, cut: Cut) -> int:
    """The n for which a JPEG of this size is decoded at 1/n of it: 1, 2, 4 or 8."""
    left, top, right, bottom = cut.box
    # How many times larger than the size wanted the part kept is, at full size.
    excess = min(height * (bottom - top) / cut.height, width * (right - left) / cut.width)
    return next((n for n in (8, 4, 2) if excess >= DECODE_MARGIN * n), 1)


def scaled_decoding(image: JpegImagePlugin.JpegImageFile, cut: Cut) -> tuple[float, float]:
    """Makes a JPEG, opened and not yet decoded, come out at a fraction of its size where that cannot be seen.

    Returns:
        (height, width) of the picture in the pixels that will come out; not whole where a fraction cuts a
        pixel.
    """
    height, width = image.height, image.width
    n = decoded_fraction(height, width, cut)
    if n > 1:
        image.draft(image.mode, (width // n, height // n))
    return height / n, width / n


def shrunk(image: Image.Image, cut: Cut, extent: tuple[float, float]) -> Image.Image:
    """`image`, gray or RGB, cut and resized; not yet turned upright.

    Args:
        image: the decoded picture.
        cut: what is kept of it and its new size.
        extent: (height, width) of the picture in pixels of `image`, as `scaled_decoding` returns it.
    """
    if (cut.width, cut.height) == image.size and cut.box == _WHOLE:
        return image
    left, top, right, bottom = cut.box
    height, width = extent
    box = (left * width, top * height, right * width, bottom * height)
    return image.resize((cut.width, cut.height), FILTER, box)


def _scaled(side: int, wanted: int, given: int) -> int:
    return max(1, (2 * side * wanted + given) // (2 * given))
