"""Files that break converters, made here so that the tests need no pictures from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image

from tests.converters.crafting import (
    Pixels,
    after_start,
    cmyk,
    exif,
    frame_at,
    jpeg,
    picture,
    png_claiming,
    saved,
    segment,
    turned,
    two_components,
    webp_claiming,
    with_alpha,
    with_frame,
    without_segments,
    ycck,
)


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


ODD_FILES = tuple(made_odd_files())
