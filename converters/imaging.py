"""What becomes of one file: its bytes as they are, a new picture made from them, or a rejection with a
reason.

Conversion and the reading of plain folders both ask `decide`, so that a folder gives the same records as what
was converted from it. The rules:

- An ordinary JPEG is stored as it is: its header is read, nothing is decoded, its EXIF orientation goes into
  the record.
- Four components (CMYK, YCCK) and pictures of other kinds are transcoded to an RGB or gray JPEG, upright.
- A JPEG that looks odd is decoded once, and accepted when that works.
- Colours: pixel values are never converted between colour profiles, because no reader for training does it
  either and a model must see the same numbers from every store. A profile stays in the file where the file is
  stored as it is, is copied into a transcoded one when it fits (RGB, gray), and is left out of smaller
  stores.
- Transparency is laid over white. Of 16-bit samples the upper 8 bits stay. Of an animation the first picture
  is taken.
"""

from __future__ import annotations

from dataio.converters.kinds import HEAD_BYTES, Kind, picture_kind
from dataio.converters.picture import MAX_FILE_BYTES, ImageOptions, Picture, Rejected, size_problem
from dataio.jpeg import JpegError, JpegHeader, least_scan_bytes, read_header

__all__ = ["ImageOptions", "Picture", "Rejected", "decide", "ordinary_header"]

_DEFAULTS = ImageOptions()


def decide(content: bytes, options: ImageOptions = _DEFAULTS) -> Picture | Rejected:
    """What becomes of a file.

    Costs some 6 us for an ordinary JPEG with default options; Pillow is only imported when pixels are needed.

    Args:
        content: all of the file's bytes; of a file above MAX_FILE_BYTES one byte more than that is enough.
        options: what is wanted.
    """
    if len(content) > MAX_FILE_BYTES:
        return Rejected("unreadable", f"more than {MAX_FILE_BYTES:,} bytes")
    kind: Kind | None = "jpeg" if content[:2] == b"\xff\xd8" else picture_kind(content[:HEAD_BYTES])
    if kind == "jpeg":
        try:
            header = read_header(content)
        except JpegError as problem:
            return Rejected(problem.kind, str(problem))
        return _decide_jpeg(content, header, options)
    if kind is None:
        if content.count(0) == len(content):
            return Rejected("empty", f"{len(content)} bytes, all zero" if content else "no bytes")
        return Rejected("not_an_image", f"begins with {content[:HEAD_BYTES]!r}")
    if options.non_jpeg == "reject":
        return Rejected("unsupported_jpeg", f"{kind} content, and only JPEG was asked for")
    return _remade(content, kind, None, options)


def ordinary_header(head: bytes, tail: bytes, file_bytes: int, options: ImageOptions = _DEFAULTS) -> JpegHeader | None:
    """The header of a file that `decide` would surely store as it is, told without reading all of it.

    Args:
        head: the file's first bytes.
        tail: its last two bytes.
        file_bytes: its size.
        options: as for `decide`.

    Returns:
        The header, or None where the whole file is needed to decide.
    """
    if head[:2] != b"\xff\xd8" or tail != b"\xff\xd9" or file_bytes > MAX_FILE_BYTES:
        return None
    try:
        # An end marker stands in for the rest of the file. A header that goes beyond `head` runs into it and
        # is an error; one that ends before it is read as it would be from the whole file.
        header = read_header(head + tail)
    except JpegError:
        return None
    if header.scan_offset > len(head):
        return None
    if _rejection(header, file_bytes, options) or _needs_pixels(header, options):
        return None
    return header


def _decide_jpeg(content: bytes, header: JpegHeader, options: ImageOptions) -> Picture | Rejected:
    rejected = _rejection(header, len(content), options)
    if rejected:
        return rejected
    if not header.ends and content.rfind(b"\xff\xd9", header.scan_offset) < 0:
        return Rejected("truncated", "no end marker (FF D9)")
    if _needs_pixels(header, options):
        if header.components == 4 or _is_to_be_changed(header, options):
            return _remade(content, "jpeg", header, options)
        from dataio.converters.pixels import decoding_problem

        problem = decoding_problem(content, header)
        if problem:
            return Rejected("corrupt", f"{problem} ({header.doubt})" if header.doubt else problem)
    return Picture(content, header.orientation, header.height, header.width, None)


def _rejection(header: JpegHeader, file_bytes: int, options: ImageOptions) -> Rejected | None:
    """Why a JPEG is rejected for what its header says, if it is."""
    problem = size_problem(header.height, header.width, options.max_pixels)
    if problem:
        return Rejected("too_many_pixels", problem)
    unsupported = header.unsupported
    if unsupported:
        return Rejected("unsupported_jpeg", unsupported)
    scan_bytes = file_bytes - header.scan_offset
    if not header.progressive and scan_bytes < least_scan_bytes(header.height, header.width):
        return Rejected("truncated", f"{scan_bytes} bytes cannot hold {header.width} x {header.height} pixels")
    return None


def _needs_pixels(header: JpegHeader, options: ImageOptions) -> bool:
    """Whether a JPEG has to be decoded: to be changed, or because its header alone does not settle that it is
    whole."""
    return (
        header.doubt is not None
        or header.components == 4
        or options.validation == "decode"
        or _is_to_be_changed(header, options)
    )


def _is_to_be_changed(header: JpegHeader, options: ImageOptions) -> bool:
    """Whether an option asks for other pixels than the file's."""
    if options.encoding == "source":
        return header.orientation != 1 and options.exif_orientation == "apply"
    if options.encoding == "raw":
        return True
    sides = (header.height, header.width)
    too_large = (options.short_side and min(sides) > options.short_side) or (
        options.max_side and max(sides) > options.max_side
    )
    return bool(too_large) or (header.orientation != 1 and options.exif_orientation == "apply")


def _remade(content: bytes, kind: Kind, header: JpegHeader | None, options: ImageOptions) -> Picture | Rejected:
    if header is not None and header.components != 4 and options.encoding != "source" and options.resizer == "opencv":
        from dataio.converters.opencv_pixels import made_smaller

        picture = made_smaller(content, header, options)
        if picture is not None:
            return picture
        # What OpenCV cannot decode Pillow is asked about, which can also say why not.
    from dataio.converters.pixels import remake

    return remake(content, kind, header, options)
