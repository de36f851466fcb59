"""Which kind of picture bytes are, told from their first bytes; a file's name never decides."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["jpeg", "png", "gif", "bmp", "tiff", "webp", "pnm", "jpeg2000", "avif", "heif", "jxl", "psd"]

#: Bytes from the beginning of a file that `picture_kind` wants to see; fewer are fine where the file has no
#: more.
HEAD_BYTES = 16

#: Beginnings that settle the kind. Sources: ITU-T T.81 B.1.1.3 (SOI); PNG (W3C) 5.2; GIF89a 17; TIFF 6.0
#: section 2 and BigTIFF; ITU-T T.800 annex I (JP2) and A.4.1 (code stream); ISO/IEC 18181-2 (JPEG XL); Adobe
#: Photoshop file format specification. The second byte pair of JPEG is left to the header parser.
_BEGINNINGS: tuple[tuple[bytes, Kind], ...] = (
    (b"\xff\xd8", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jpeg2000"),
    (b"\xff\x4f\xff\x51", "jpeg2000"),
    (b"\xff\x0a", "jxl"),
    (b"\x00\x00\x00\x0cJXL \r\n\x87\n", "jxl"),
    (b"8BPS\x00\x01", "psd"),
)

#: Sizes of the header that follows BMP's 14 bytes. Source: BITMAPCOREHEADER to BITMAPV5HEADER, Microsoft's
#: GDI documentation, and the two OS/2 2.x sizes. Without this check every text that begins with "BM" were a
#: picture.
_BMP_HEADER_BYTES = {12, 16, 40, 52, 56, 64, 108, 124}

#: Brands of ISO media files. Sources: AVIF specification 1.1 section 6; ISO/IEC 23008-12 (HEIF) annex B.
_AVIF_BRANDS = {b"avif", b"avis"}
_HEIF_BRANDS = {b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"}

#: P1 to P6, white space, then a comment or a digit. Source: netpbm's pbm(5), pgm(5), ppm(5).
_PNM = re.compile(rb"P[1-6][ \t\n\r\f\v]+[#0-9]")

#: Suffixes, lower case, whose files are candidates whatever they hold.
PICTURE_SUFFIXES = frozenset(
    (
        b".jpg .jpeg .jpe .jfif .jif .png .apng .gif .bmp .dib .tif .tiff .webp .ppm .pgm .pbm .pnm "
        b".jp2 .j2k .avif .heic .heif .jxl"
    ).split()
)


def picture_kind(head: bytes) -> Kind | None:
    """The kind of picture that begins with `head`, or None when it is no picture.

    Args:
        head: the first `HEAD_BYTES` bytes of the file, or more.
    """
    for beginning, kind in _BEGINNINGS:
        if head.startswith(beginning):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head[:2] == b"BM" and len(head) >= 16 and head[14] in _BMP_HEADER_BYTES and head[15] == 0:
        return "bmp"
    if head[4:8] == b"ftyp":
        return "avif" if head[8:12] in _AVIF_BRANDS else "heif" if head[8:12] in _HEIF_BRANDS else None
    if _PNM.match(head):
        return "pnm"
    return None


def has_picture_suffix(name: bytes) -> bool:
    """Whether a file of this name is expected to be a picture; letters of either case."""
    return name[name.rfind(b".") :].lower() in PICTURE_SUFFIXES if b"." in name else False
