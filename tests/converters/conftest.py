"""Files that break converters, made here so that the tests need no pictures from elsewhere.

A test that takes `odd_file` runs once for each of them; `odd_files` gives them all.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class OddFile:
    """One file and what a converter with default options must do with it."""

    name: str
    content: bytes
    outcome: Literal["accept", "transcode", "reject"]
    reason: str | None = None
    """The reason of a rejection, or what was transcoded."""
    orientation: int = 1
    """What the record must hold."""
    truth: Pixels | None = None
    """uint8[height, width, 3]: the picture as a model must see it, upright; None where that is not
    checked."""


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


def made_odd_files() -> list[OddFile]:
    whole, pixels = jpeg(), picture()
    gray_pixels = np.asarray(Image.fromarray(pixels).convert("L"))
    gray_rgb = np.repeat(gray_pixels[..., None], 3, axis=2)
    half = len(whole) // 2
    layered, on_white = with_alpha()
    rgb = Image.fromarray(pixels)
    sixteen_bit = Image.fromarray(gray_pixels.astype(np.uint16) * 257)
    png = saved(rgb, "PNG")
    files = [
        OddFile("ordinary", whole, "accept", truth=pixels),
        OddFile("gray", jpeg(gray_pixels), "accept", truth=gray_rgb),
        OddFile("progressive", jpeg(progressive=True), "accept", truth=pixels),
        OddFile("one_pixel", jpeg(pixels[:1, :1]), "accept"),
        OddFile("restart_markers", jpeg(restart_marker_blocks=2), "accept", truth=pixels),
        OddFile("rgb_components", jpeg(keep_rgb=True), "accept", truth=pixels),
        OddFile("exif_unparsable", after_start(whole, segment(0xE1, b"Exif\0\0II*\0\xff\xff\xff\xff")), "accept"),
        OddFile("exif_orientation_zero", after_start(whole, segment(0xE1, exif(0))), "accept"),
        OddFile("exif_thumbnail", after_start(whole, segment(0xE1, b"Exif\0\0MM\0*" + jpeg(pixels[:8]))), "accept"),
        OddFile("fill_bytes_before_marker", after_start(whole, b"\xff\xff\xff"), "accept", truth=pixels),
        OddFile("stray_bytes_between_segments", after_start(whole, segment(0xFE, b"x") + b"stray"), "accept"),
        OddFile("junk_after_the_end", whole + b"junk" * 9, "accept", truth=pixels),
        OddFile("zeros_after_the_end", whole + bytes(512), "accept", truth=pixels),
        OddFile("film_after_the_end", whole + b"\0\0\0\x18ftypmp42" + bytes(64), "accept", truth=pixels),
        OddFile("junk_before_the_end", whole[:-2] + b"junkjunk" + whole[-2:], "accept", truth=pixels),
        OddFile("two_pictures", whole + jpeg(pixels[:16]), "accept", truth=pixels),
        OddFile("cmyk_adobe", cmyk(), "transcode", "cmyk", truth=pixels),
        OddFile("cmyk_without_adobe", without_segments(cmyk(), 0xEE), "transcode", "cmyk", truth=pixels),
        OddFile("ycck", ycck(), "transcode", "ycck", truth=pixels),
        OddFile(
            "cmyk_turned",
            after_start(
                saved(Image.fromarray(turned(pixels, 6)).convert("CMYK"), "JPEG", quality=95, subsampling=0),
                segment(0xE1, exif(6)),
            ),
            "transcode",
            "cmyk",
            truth=pixels,
        ),
        OddFile("png", png, "transcode", "png", truth=pixels),
        OddFile("png_alpha", saved(layered, "PNG"), "transcode", "png", truth=on_white),
        OddFile("png_16_bit", saved(sixteen_bit, "PNG"), "transcode", "png", truth=gray_rgb),
        OddFile("png_palette", saved(rgb.quantize(64), "PNG"), "transcode", "png"),
        OddFile("png_one_bit", saved(rgb.convert("1"), "PNG"), "transcode", "png"),
        OddFile(
            "png_turned",
            saved(Image.fromarray(turned(pixels, 8)), "PNG", exif=exif(8)),
            "transcode",
            "png",
            truth=pixels,
        ),
        OddFile("bmp", saved(rgb, "BMP"), "transcode", "bmp", truth=pixels),
        OddFile("tiff", saved(rgb, "TIFF"), "transcode", "tiff", truth=pixels),
        OddFile("tiff_packed", saved(rgb, "TIFF", compression="tiff_lzw"), "transcode", "tiff", truth=pixels),
        OddFile(
            "tiff_turned",
            saved(Image.fromarray(turned(pixels, 5)), "TIFF", tiffinfo={274: 5}),
            "transcode",
            "tiff",
            truth=pixels,
        ),
        OddFile(
            "tiff_packed_and_turned",
            saved(Image.fromarray(turned(pixels, 6)), "TIFF", tiffinfo={274: 6}, compression="tiff_lzw"),
            "transcode",
            "tiff",
            truth=pixels,
        ),
        OddFile("ppm", saved(rgb, "PPM"), "transcode", "pnm", truth=pixels),
        OddFile("pgm", saved(rgb.convert("L"), "PPM"), "transcode", "pnm", truth=gray_rgb),
        OddFile("pgm_16_bit", saved(sixteen_bit, "PPM"), "transcode", "pnm", truth=gray_rgb),
        OddFile("webp", saved(rgb, "WEBP", lossless=True), "transcode", "webp", truth=pixels),
        OddFile("webp_alpha", saved(layered, "WEBP", lossless=True), "transcode", "webp", truth=on_white),
        OddFile("gif", saved(rgb, "GIF"), "transcode", "gif"),
        OddFile(
            "gif_animated",
            saved(rgb, "GIF", save_all=True, append_images=[Image.new("RGB", rgb.size)]),
            "transcode",
            "gif",
        ),
        OddFile("empty", b"", "reject", "empty"),
        OddFile("zeros_only", bytes(4096), "reject", "empty"),
        OddFile("text", b"not a picture at all\n" * 5, "reject", "not_an_image"),
        OddFile("html", b"<!DOCTYPE html><title>404 Not Found</title>", "reject", "not_an_image"),
        OddFile("zip", b"PK\3\4" + bytes(200), "reject", "not_an_image"),
        OddFile("heif", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(64), "reject", "unreadable"),
        OddFile("start_marker_only", b"\xff\xd8", "reject", "truncated"),
        OddFile("cut_in_the_header", whole[: frame_at(whole) + 6], "reject", "truncated"),
        OddFile("cut_in_half", whole[:half], "reject", "truncated"),
        OddFile("cut_by_two_bytes", whole[:-2], "reject", "truncated"),
        OddFile("cut_progressive", jpeg(progressive=True)[:half], "reject", "truncated"),
        OddFile("zeros_instead_of_the_second_half", whole[:half] + bytes(len(whole) - half), "reject", "truncated"),
        OddFile("hardly_any_scan", with_frame(whole, height=4096, width=4096), "reject", "truncated"),
        OddFile("png_cut", png[: len(png) // 2], "reject", "truncated"),
        OddFile("bmp_cut", saved(rgb, "BMP")[:3000], "reject", "truncated"),
        OddFile("no_frame", b"\xff\xd8" + segment(0xEE, b"00") + b"\xff\xd9", "reject", "corrupt"),
        OddFile("no_scan", whole[: whole.index(b"\xff\xda")] + b"\xff\xd9", "reject", "corrupt"),
        OddFile("height_zero", with_frame(whole, height=0), "reject", "corrupt"),
        OddFile("width_zero", with_frame(whole, width=0), "reject", "corrupt"),
        OddFile("two_frames", after_start(whole, segment(0xC0, b"\x08\0\x10\0\x10\1\1\x11\0")), "reject", "corrupt"),
        OddFile("text_after_the_start_marker", b"\xff\xd8 is not enough \xff\xd9", "reject", "corrupt"),
        OddFile("bits_12", with_frame(whole, marker=0xC1, precision=12), "reject", "unsupported_jpeg"),
        OddFile("lossless", with_frame(whole, marker=0xC3), "reject", "unsupported_jpeg"),
        OddFile("lossless_16_bit", with_frame(whole, marker=0xC3, precision=16), "reject", "unsupported_jpeg"),
        OddFile("hierarchical", with_frame(whole, marker=0xC5), "reject", "unsupported_jpeg"),
        OddFile("arithmetic", with_frame(whole, marker=0xC9), "reject", "unsupported_jpeg"),
        OddFile("two_components", two_components(), "reject", "unsupported_jpeg"),
        OddFile("claims_4_gigapixels", with_frame(whole, height=65535, width=65535), "reject", "too_many_pixels"),
        OddFile("longer_than_decoders_take", with_frame(whole, height=1, width=65535), "reject", "too_many_pixels"),
        OddFile("png_claims_4_gigapixels", png_claiming(65535, 65535), "reject", "too_many_pixels"),
        OddFile("webp_claims_268_megapixels", webp_claiming(16383, 16383), "reject", "too_many_pixels"),
    ]  # fmt: skip
    for orientation in range(2, 9):
        stored = jpeg(turned(pixels, orientation))
        content = after_start(stored, segment(0xE1, exif(orientation, order="<>"[orientation % 2])))
        files.append(OddFile(f"orientation_{orientation}", content, "accept", orientation=orientation, truth=pixels))
    return files


def png_claiming(height: int, width: int) -> bytes:
    import zlib

    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk + saved(Image.fromarray(picture()), "PNG")[33:]


def webp_claiming(height: int, width: int) -> bytes:
    body = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (width - 1).to_bytes(3, "little")
    body += (height - 1).to_bytes(3, "little") + bytes(16)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


ODD_FILES = tuple(made_odd_files())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "odd_file" in metafunc.fixturenames:
        metafunc.parametrize("odd_file", ODD_FILES, ids=lambda file: file.name)


@pytest.fixture(scope="session")
def odd_files() -> tuple[OddFile, ...]:
    """All odd files, made once."""
    return ODD_FILES


@pytest.fixture(scope="session")
def make_jpeg() -> Callable[..., bytes]:
    """Makes a JPEG: `make_jpeg(pixels, quality=…, progressive=…)`."""
    return jpeg


@pytest.fixture(scope="session")
def make_picture() -> Callable[..., Pixels]:
    """Makes pixels: `make_picture(height, width)`."""
    return picture
