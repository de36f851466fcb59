"""Pictures decoded and encoded with Pillow, for files that cannot or shall not be stored as they are."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageChops, JpegImagePlugin, features

from dataio.converters.kinds import Kind
from dataio.converters.picture import ImageOptions, Picture, Rejected, size_problem
from dataio.converters.shrinking import Cut, cut_for, scaled_decoding, shrunk
from dataio.jpeg import JpegHeader, exif_orientation, without_exif

#: Quality of JPEGs made from other pictures at full size, with colour at full resolution: a photograph's
#: pixels then change by about 1 level on average, and text keeps its edges.
TRANSCODE_QUALITY = 95

#: How to turn a stored picture upright. Source: EXIF 2.32, 4.6.4, tag 0x0112: 2 is mirrored left to right, 3
#: turned by 180 degrees, 4 mirrored top to bottom, 5 mirrored along the main diagonal, 6 needs a quarter turn
#: clockwise, 7 is mirrored along the other diagonal, 8 needs a quarter turn counter-clockwise (Pillow's
#: ROTATE_* turn that way).
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


#: What Pillow's decoders say about files that end too early.
_CUT_SHORT = ("truncated", "premature", "not enough", "end of file", "unexpected end", "0 bytes")


class _Refused(Exception):
    """A picture that is not taken; carries why."""

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.detail)
        self.rejected = rejected


def decoding_problem(content: bytes, header: JpegHeader) -> str | None:
    """What a decoder says about a JPEG that it cannot read to its end; None when it can.

    Every entropy-coded bit is read, at an eighth of the size where that saves work and memory.
    """
    try:
        image = JpegImagePlugin.JpegImageFile(io.BytesIO(without_exif(content, header)))
        image.draft(image.mode, (max(1, image.width // 8), max(1, image.height // 8)))
        image.load()
    except MemoryError:
        raise
    except Exception as problem:  # Pillow's parsers raise nearly anything on hostile bytes
        return str(problem) or type(problem).__name__
    return None


def remake(content: bytes, kind: Kind, header: JpegHeader | None, options: ImageOptions) -> Picture | Rejected:
    """A new picture, upright and in the form that `options` ask for, from a file that is not stored as it is.

    Args:
        content: the file.
        kind: what it is.
        header: its header where it is a JPEG.
        options: what is wanted.
    """
    try:
        # Pillow parses EXIF blocks while it opens a file, warns about broken ones, and is not to be asked:
        # the orientation comes from our own reading.
        image = _opened(without_exif(content, header) if header else content, kind, options.max_pixels)
        extent: tuple[float, float] | None = None
        cut: Cut | None = None
        if header is not None and isinstance(image, JpegImagePlugin.JpegImageFile):
            orientation = header.orientation
            if options.encoding != "source":
                cut = cut_for(header.height, header.width, orientation, options)
                if header.components != 4:
                    extent = scaled_decoding(image, cut)
            image.load()
        else:
            image.load()
            orientation = _orientation(image)
        plain = _plain(image, kind)
        if options.encoding != "source":
            cut = cut or cut_for(plain.height, plain.width, orientation, options)
            plain = shrunk(plain, cut, extent or (plain.height, plain.width))
        plain = upright(plain, orientation)
    except _Refused as refused:
        return refused.rejected
    except MemoryError:
        raise
    except Exception as problem:  # Pillow's parsers raise nearly anything on hostile bytes
        return _rejection(problem)
    transcoded = _content_code(kind, header)
    if options.encoding == "raw":
        pixels = plain.convert("RGB")
        return Picture(pixels.tobytes(), 1, pixels.height, pixels.width, transcoded)
    if options.encoding == "jpeg":
        stored = _jpeg(plain, quality=options.quality, subsampling="4:2:0", profile=None)
    else:
        profile = _fitting_profile(image.info.get("icc_profile"), plain.mode)
        stored = _jpeg(plain, quality=TRANSCODE_QUALITY, subsampling=_sampling(image), profile=profile)
    return Picture(stored, 1, plain.height, plain.width, transcoded)


def upright(image: Image.Image, orientation: int) -> Image.Image:
    """`image`, stored with an EXIF orientation, as it is to be seen."""
    return image.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else image


def _opened(content: bytes, kind: Kind, max_pixels: int) -> Image.Image:
    """The file opened, not yet decoded, by the one plugin that reads its kind.

    Image.open would try others too, and would warn or fail at a size of its own; here the size is an option.
    """
    if kind == "webp":  # its decoder takes memory for the whole canvas when it opens a file
        height, width = webp_height_width(content)
        _check_size(height, width, max_pixels)
    image = _opener(kind)(io.BytesIO(content))
    _check_size(image.height, image.width, max_pixels)
    return image


def _opener(kind: Kind) -> Callable[[io.BytesIO], Image.Image]:
    # Plugins are imported where they are needed: each costs start-up time, and most folders need none.
    match kind:
        case "jpeg":
            return JpegImagePlugin.JpegImageFile
        case "png":
            from PIL.PngImagePlugin import PngImageFile

            return PngImageFile
        case "gif":
            from PIL.GifImagePlugin import GifImageFile

            return GifImageFile
        case "bmp":
            from PIL.BmpImagePlugin import BmpImageFile

            return BmpImageFile
        case "tiff":
            from PIL.TiffImagePlugin import TiffImageFile

            return TiffImageFile
        case "pnm":
            from PIL.PpmImagePlugin import PpmImageFile

            return PpmImageFile
        case "webp" if features.check("webp"):
            from PIL.WebPImagePlugin import WebPImageFile

            return WebPImageFile
        case "jpeg2000" if features.check("jpg_2000"):
            from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile

            return Jpeg2KImageFile
        case "avif" if features.check("avif"):
            from PIL.AvifImagePlugin import AvifImageFile

            return AvifImageFile
        case _:
            raise _Refused(Rejected("unreadable", f"no decoder for {kind} pictures; convert them to JPEG or PNG"))


def _check_size(height: int, width: int, max_pixels: int) -> None:
    problem = size_problem(height, width, max_pixels)
    if problem:
        raise _Refused(Rejected("too_many_pixels", problem))


def webp_height_width(content: bytes) -> tuple[int, int]:
    """(height, width) that a WebP file claims; (0, 0) where it is none of the three kinds or cut short.

    Source: RFC 9649, sections 2.5 (VP8), 2.6 (VP8L) and 2.7 (VP8X).
    """
    kind, body = content[12:16], content[20:30]
    if len(body) < 10:
        return 0, 0
    if kind == b"VP8X":
        return 1 + int.from_bytes(body[7:10], "little"), 1 + int.from_bytes(body[4:7], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits >> 14 & 0x3FFF), 1 + (bits & 0x3FFF)
    if kind == b"VP8 ":
        return int.from_bytes(body[8:10], "little") & 0x3FFF, int.from_bytes(body[6:8], "little") & 0x3FFF
    return 0, 0


def _orientation(image: Image.Image) -> int:
    """Orientation in the EXIF block of a picture that is no JPEG; TIFF is turned upright by its plugin."""
    block = image.info.get("exif")
    if not isinstance(block, bytes):
        return 1
    return exif_orientation(block.removeprefix(b"Exif\0\0")) or 1


def _plain(image: Image.Image, kind: Kind) -> Image.Image:
    """`image` with 8-bit samples, gray (L) or colour (RGB)."""
    if image.mode in ("L", "RGB") and "transparency" not in image.info:
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode.startswith("I;16") or (image.mode == "I" and kind in ("png", "pnm", "jpeg2000")):
        return Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise _Refused(Rejected("unreadable", f"samples of mode {image.mode}, whose white is not defined"))
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        return _over_white(image)
    return image.convert("RGB")


def _over_white(image: Image.Image) -> Image.Image:
    # Few copies: a picture of 60 megapixels takes 240 MB each time.
    gray = image.mode in ("L", "LA", "La")
    layers = image if image.mode in ("LA", "RGBA") else image.convert("LA" if gray else "RGBA")
    transparent = ImageChops.invert(layers.getchannel("A"))
    opaque = layers.convert("L" if gray else "RGB")
    opaque.paste("white", mask=transparent)
    return opaque


def _sampling(image: Image.Image) -> str:
    """Colour resolution of a full-size JPEG made from `image`: quarter where the source had no more, else
    full."""
    quarter = isinstance(image, JpegImagePlugin.JpegImageFile) and JpegImagePlugin.get_sampling(image) == 2
    return "4:2:0" if quarter and image.mode != "CMYK" else "4:4:4"


def _fitting_profile(profile: object, mode: str) -> bytes | None:
    """The colour profile, when it describes pixels of this mode.

    Source: ICC.1:2022, 7.2.6: bytes 16 to 19 of a profile name its colour space.
    """
    space = {"L": b"GRAY", "RGB": b"RGB "}[mode]
    return profile if isinstance(profile, bytes) and profile[16:20] == space else None


def _jpeg(image: Image.Image, *, quality: int, subsampling: str, profile: bytes | None) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, subsampling=subsampling, icc_profile=profile, exif=b"")
    return buffer.getvalue()


def _content_code(kind: Kind, header: JpegHeader | None) -> str | None:
    """What `Picture.transcoded` says of a file: None for a JPEG that could have been stored as it is."""
    if header is None:
        return kind
    if header.components != 4:
        return None
    return "ycck" if header.adobe_transform == 2 else "cmyk"


def _rejection(problem: Exception) -> Rejected:
    """The rejection for what a Pillow decoder raised."""
    said = str(problem) or type(problem).__name__
    if isinstance(problem, Image.DecompressionBombError):
        return Rejected("too_many_pixels", said)
    if isinstance(problem, EOFError) or any(word in said.lower() for word in _CUT_SHORT):
        return Rejected("truncated", said)
    return Rejected("corrupt", said)
