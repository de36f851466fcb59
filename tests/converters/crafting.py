"""Bytes of pictures: ordinary ones, and ones that differ in one place."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]


def picture(height: int = 48, width: int = 72) -> Pixels:
    """uint8[height, width, 3]: smooth, coloured, and different in each corner."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    y, x = y / height, x / width
    waves = np.stack([0.2 + 0.7 * x * (1 - y / 2), 0.3 + 0.5 * np.sin(2 * y + 3 * x), 0.9 - 0.7 * y], axis=-1)
    return (255 * waves.clip(0, 1)).astype(np.uint8)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def jpeg(pixels: Pixels | None = None, **options: Any) -> bytes:
    array = picture() if pixels is None else pixels
    return saved(Image.fromarray(array), "JPEG", **({"quality": 92, "subsampling": 0} | options))


def turned(pixels: Pixels, orientation: int) -> Pixels:
    """What a camera stores with this EXIF orientation so that the upright picture is `pixels`.

    Source: EXIF 2.32, 4.6.4: the 0th row and 0th column of the stored picture are the visual top/left,
    top/right, bottom/right, bottom/left, left/top, right/top, right/bottom, left/bottom for 1 to 8.
    """
    return np.ascontiguousarray(
        {
            1: lambda p: p,
            2: lambda p: p[:, ::-1],
            3: lambda p: p[::-1, ::-1],
            4: lambda p: p[::-1],
            5: lambda p: p.swapaxes(0, 1),
            6: lambda p: p.swapaxes(0, 1)[::-1],
            7: lambda p: p[::-1, ::-1].swapaxes(0, 1),
            8: lambda p: p.swapaxes(0, 1)[:, ::-1],
        }[orientation](pixels)
    )


def exif(orientation: int, *, order: str = "<", field_type: int = 3) -> bytes:
    """An EXIF block with one field."""
    value = {1: "B3x", 3: "H2x", 4: "I"}[field_type]
    tiff = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IHHHI", 8, 1, 0x0112, field_type, 1)
    return b"Exif\0\0" + tiff + struct.pack(order + value, orientation) + b"\0\0\0\0"


def segment(marker: int, body: bytes) -> bytes:
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


def after_start(content: bytes, addition: bytes) -> bytes:
    return content[:2] + addition + content[2:]


def frame_at(content: bytes) -> int:
    """Where the SOF marker of a file made by `jpeg` begins."""
    return next(i for i in range(len(content)) if content[i] == 0xFF and content[i + 1] in (0xC0, 0xC1, 0xC2))


def with_frame(
    content: bytes,
    *,
    marker: int | None = None,
    precision: int | None = None,
    height: int | None = None,
    width: int | None = None,
) -> bytes:
    """`content` with other values in its frame header."""
    changed, at = bytearray(content), frame_at(content)
    if marker is not None:
        changed[at + 1] = marker
    if precision is not None:
        changed[at + 4] = precision
    if height is not None:
        changed[at + 5 : at + 7] = struct.pack(">H", height)
    if width is not None:
        changed[at + 7 : at + 9] = struct.pack(">H", width)
    return bytes(changed)


def without_segments(content: bytes, *markers: int) -> bytes:
    """`content` without the header segments of these markers."""
    kept, position = [content[:2]], 2
    while content[position + 1] != 0xDA:
        end = position + 2 + struct.unpack_from(">H", content, position + 2)[0]
        if content[position + 1] not in markers:
            kept.append(content[position:end])
        position = end
    return b"".join([*kept, content[position:]])


def cmyk() -> bytes:
    """A CMYK JPEG as Photoshop stores it: inverted, with an Adobe marker."""
    return saved(Image.fromarray(picture()).convert("CMYK"), "JPEG", quality=95, subsampling=0)


def ycck() -> bytes:
    """A YCCK JPEG: Y, Cb, Cr of the inverted ink values, no black, Adobe transform 2."""
    luma = Image.fromarray(255 - picture()).convert("YCbCr")
    # Pillow stores 255 minus what it is given for CMYK; the fourth channel, stored as 255, is then no black
    # ink.
    stored = np.dstack([np.asarray(luma), np.full((*picture().shape[:2], 1), 255, np.uint8)])
    content = saved(Image.fromarray(255 - stored, "CMYK"), "JPEG", quality=95, subsampling=0)
    transform = content.index(b"Adobe") + 11
    return content[:transform] + b"\2" + content[transform + 1 :]


def two_components() -> bytes:
    content = jpeg()
    at = frame_at(content)
    body = content[at + 4 : at + 9] + b"\2" + content[at + 10 : at + 16]
    return content[:at] + segment(0xC0, body) + content[at + 19 :]


def with_alpha() -> tuple[Image.Image, Pixels]:
    """A picture whose left half is transparent, and what it looks like on white."""
    pixels = picture()
    alpha = np.full(pixels.shape[:2], 255, np.uint8)
    alpha[:, :36] = 0
    seen = pixels.copy()
    seen[:, :36] = 255
    return Image.fromarray(np.dstack([pixels, alpha]), "RGBA"), seen


def png_claiming(height: int, width: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk + saved(Image.fromarray(picture()), "PNG")[33:]


def webp_claiming(height: int, width: int) -> bytes:
    body = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (width - 1).to_bytes(3, "little")
    body += (height - 1).to_bytes(3, "little") + bytes(16)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body
