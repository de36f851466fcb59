"""What a JPEG file says about itself, read from its header alone: no decoding, no Pillow, no TensorFlow.

Sources, by the letters used below:
    T81     ITU-T T.81 (09/92), the JPEG standard; annex B has the markers, table B.1 their codes
    EXIF    CIPA DC-008 (Exif 2.32), section 4.5.2 (APP1), 4.6.4 (Orientation, tag 0x0112)
    TIFF    TIFF revision 6.0, section 2 (header, directory, entry)
    ADOBE   Adobe technical note 5116, "Supporting the DCT filters", section 18 (APP14)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dataio.errors import DataioError
from dataio.jpeg_tables import frame_doubt, huffman_tables, quantisation_tables, scan_doubt

#: Frame headers, T81 table B.1: C0 to CF without DHT (C4), JPG (C8) and DAC (CC); and F7 of JPEG-LS (ITU-T
#: T.87 C.1.1).
_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF, 0xF7})
#: Frames that libjpeg decoders of every build read: baseline, extended sequential and progressive, Huffman
#: coded.
_READABLE_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_FRAME_NAMES = {
    0xC0: "baseline",
    0xC1: "extended sequential",
    0xC2: "progressive",
    0xC3: "lossless",
    0xC5: "differential sequential",
    0xC6: "differential progressive",
    0xC7: "differential lossless",
    0xC9: "arithmetic sequential",
    0xCA: "arithmetic progressive",
    0xCB: "arithmetic lossless",
    0xCD: "differential arithmetic sequential",
    0xCE: "differential arithmetic progressive",
    0xCF: "differential arithmetic lossless",
    0xF7: "JPEG-LS",
}
#: Markers without a length, T81 table B.1: TEM and RST0 to RST7.
_BARE = frozenset({0x01, *range(0xD0, 0xD8)})
_SOI, _EOI, _SOS, _DQT, _DHT, _DRI, _APP1, _APP2, _APP14 = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xE1, 0xE2, 0xEE
#: Segments that every decoder skips: DNL, APP0 to APP15, COM. Source: libjpeg's read_markers in jdmarker.c.
_SKIPPED = frozenset({0xDC, 0xFE, *range(0xE0, 0xF0)})

#: Bytes of each TIFF field type that an orientation is found with: BYTE, SHORT, LONG. Source: TIFF section 2;
#: the standard asks for SHORT, cameras and editors write all three.
_ORIENTATION_TYPES = {1: 1, 3: 2, 4: 4}


#: Segments and stray bytes that a header may have before it is given up. Real headers have fewer than 300
#: segments (255 of them a colour profile); without a limit, a hostile file of a gigabyte would be read for
#: minutes.
_MOST_STEPS = 20_000


class JpegError(DataioError, ValueError):
    """No JPEG with a readable header; `kind` says whether the bytes stop short or break the rules."""

    def __init__(self, kind: Literal["truncated", "corrupt"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class JpegHeader:
    """What the header of a JPEG says."""

    height: int
    """Lines of the frame, pixels as stored, before orientation; at least 1."""
    width: int
    """Samples a line, pixels as stored; at least 1."""
    components: int
    """Components of the frame: 1 gray, 3 colour, 4 CMYK or YCCK."""
    precision: int
    """Bits a sample; 8 in every JPEG that training readers decode."""
    frame: int
    """Second byte of the SOF marker, 0xC0 to 0xCF or 0xF7: which process coded the frame."""
    orientation: int
    """EXIF orientation 1..8: 1 upright, also where there is none or it cannot be parsed."""
    adobe_transform: int | None
    """Colour transform of the Adobe marker: 0 none, 1 YCbCr, 2 YCCK; None without the marker."""
    scan_offset: int
    """Position of the first entropy-coded byte."""
    exif_blocks: tuple[tuple[int, int], ...]
    """(first, end) byte of every EXIF segment, marker included."""
    has_icc_profile: bool
    """Whether a colour profile is embedded."""
    ends: bool
    """Whether the file's last two bytes are the end marker."""
    doubt: str | None
    """What makes this file odd, so that only a decode can tell whether it is whole; None for an ordinary
    one."""

    @property
    def frame_name(self) -> str:
        """The coding process in words, e.g. `baseline`."""
        return _FRAME_NAMES[self.frame]

    @property
    def progressive(self) -> bool:
        """Whether the picture comes in several passes, which makes size sniffing by others and decoding
        slow."""
        return self.frame == 0xC2

    @property
    def unsupported(self) -> str | None:
        """Why training readers cannot decode this JPEG without loss, in words; None when they can."""
        if self.frame not in _READABLE_FRAMES:
            return f"{self.frame_name} coding"
        if self.precision != 8:
            return f"{self.precision} bits a sample"
        if self.components not in (1, 3, 4):
            return f"{self.components} components"
        return None


def read_header(content: bytes) -> JpegHeader:
    """What the header of the JPEG file `content` says.

    The size comes from the frame header only: thumbnails inside EXIF have their own, and are skipped with it.

    Args:
        content: the whole file: its end is looked at too.

    Raises:
        JpegError: no JPEG, or one whose header is cut short or breaks the rules.
    """
    if content[:2] != b"\xff\xd8":
        raise JpegError("corrupt", "no start marker (FF D8)")
    ends = content[-2:] == b"\xff\xd9" and len(content) > 3
    height = width = components = precision = frame = 0
    orientation = 1
    oriented = has_icc = False
    huffman = quantisation = frozenset[int]()
    component_bytes = b""
    exif_blocks: list[tuple[int, int]] = []
    adobe: int | None = None
    doubt: str | None = None
    position, size = 2, len(content)
    for _ in range(_MOST_STEPS):
        if position + 4 > size:
            if content[position : position + 2] == b"\xff\xd9":
                raise JpegError("corrupt", _nothing_to_decode(frame))
            raise JpegError("truncated", f"the file ends in its header, after {size} bytes")
        if content[position] != 0xFF:
            # Decoders skip to the next marker with a warning; so do we, and let a decode have the last word.
            doubt = f"stray bytes before a marker, at {position}"
            position = content.find(b"\xff", position)
            if position < 0:
                raise JpegError("truncated", "no marker follows: the file ends in its header")
            continue
        marker = content[position + 1]
        if marker == 0xFF:  # fill bytes, T81 B.1.1.2; any number of them
            run = content[position : position + 4096]
            position += max(1, len(run) - len(run.lstrip(b"\xff")) - 1)
            continue
        if marker == 0x00 or marker in _BARE:
            doubt = f"stray marker FF {marker:02X} in the header, at {position}"
            position += 2
            continue
        if marker == _EOI:
            raise JpegError("corrupt", _nothing_to_decode(frame))
        if marker == _SOI:
            raise JpegError("corrupt", f"a second start marker in the header, at {position}")
        start = position + 4
        end = position + 2 + (content[position + 2] << 8 | content[position + 3])
        if end < start:
            raise JpegError("corrupt", f"segment FF {marker:02X} at {position} has a length below 2")
        if end > size:
            # A file that has its end marker was not cut; then the length itself is wrong.
            raise JpegError(
                "corrupt" if ends else "truncated",
                f"segment FF {marker:02X} at {position} is {end - size} bytes longer than the file",
            )
        if marker in _FRAMES:
            if frame:
                raise JpegError("corrupt", f"a second frame header, at {position}")
            if end - start < 6 or end - start != 6 + 3 * content[start + 5]:
                raise JpegError("corrupt", f"the frame header at {position} has a wrong length")
            frame, component_bytes = marker, content[start + 5 : end]
            precision = content[start]
            height = content[start + 1] << 8 | content[start + 2]
            width = content[start + 3] << 8 | content[start + 4]
            components = content[start + 5]
            if not height or not width or not components:
                raise JpegError("corrupt", f"the frame is {width} x {height} pixels with {components} components")
        elif marker == _SOS:
            if not frame:
                raise JpegError("corrupt", "a scan without a frame header before it")
            if end - start < 6 or end - start != 4 + 2 * content[start]:
                raise JpegError("corrupt", f"the scan header at {position} has a wrong length")
            break
        elif marker == _DHT:
            tables = huffman_tables(content[start:end])
            doubt = doubt or (None if tables else f"a broken Huffman table at {position}")
            huffman |= tables
        elif marker == _DQT:
            tables = quantisation_tables(content[start:end])
            doubt = doubt or (None if tables else f"a broken quantisation table at {position}")
            quantisation |= tables
        elif marker == _APP1:
            if content[start : start + 6] == b"Exif\0\0":
                exif_blocks.append((position, end))
                if not oriented:
                    found = exif_orientation(content[start + 6 : end])
                    if found is not None:
                        orientation, oriented = found, True
        elif marker == _APP2:
            has_icc = has_icc or content[start : start + 12] == b"ICC_PROFILE\0"
        elif marker == _APP14 and end - start >= 12 and content[start : start + 5] == b"Adobe":
            adobe = content[start + 11]
        elif marker not in _SKIPPED and (marker != _DRI or end - start != 2):
            doubt = doubt or f"segment FF {marker:02X} at {position}, which decoders may not know"
        position = end
    else:
        raise JpegError("corrupt", f"no scan after {_MOST_STEPS:,} segments, at {position}")
    if doubt is None:
        doubt = frame_doubt(component_bytes, quantisation)
        doubt = doubt or scan_doubt(content[start:end], component_bytes, frame, huffman)
    if doubt is None and not ends:
        doubt = "the end marker is not at the end"
    return JpegHeader(
        height=height,
        width=width,
        components=components,
        precision=precision,
        frame=frame,
        orientation=orientation,
        adobe_transform=adobe,
        scan_offset=end,
        exif_blocks=tuple(exif_blocks),
        has_icc_profile=has_icc,
        ends=ends,
        doubt=doubt,
    )


def without_exif(content: bytes, header: JpegHeader) -> bytes:
    """The file without its EXIF segments: the same pixels, and nothing for a decoder's EXIF parser to stumble
    over."""
    pieces, start = [], 0
    for first, end in header.exif_blocks:
        pieces.append(content[start:first])
        start = end
    return b"".join([*pieces, content[start:]]) if pieces else content


def least_scan_bytes(height: int, width: int) -> int:
    """Bytes that a sequential Huffman scan of a picture of this size has at the very least.

    Each block of 8 x 8 samples needs a code for its DC coefficient and one that ends its AC coefficients, of
    one bit or more each (T81 F.1.2), and the component with the finest sampling has a block for every 8 x 8
    pixels.
    """
    return ((height + 7) // 8) * ((width + 7) // 8) // 4


def exif_orientation(tiff: bytes) -> int | None:
    """The orientation (1..8) in an Exif block, None where there is none or it cannot be parsed.

    Args:
        tiff: the block from its TIFF header on, without the leading `Exif\\0\\0`.
    """
    order: Literal["little", "big"]
    if tiff[:4] == b"II*\0":
        order = "little"
    elif tiff[:4] == b"MM\0*":
        order = "big"
    else:
        return None
    directory = int.from_bytes(tiff[4:8], order)
    count = int.from_bytes(tiff[directory : directory + 2], order)
    entry = directory + 2
    for _ in range(count):
        field = tiff[entry : entry + 12]
        if len(field) < 12:
            return None
        if int.from_bytes(field[:2], order) == 0x0112:
            size = _ORIENTATION_TYPES.get(int.from_bytes(field[2:4], order))
            value = int.from_bytes(field[8 : 8 + size], order) if size else 0
            return value if 1 <= value <= 8 else None
        entry += 12
    return None


def _nothing_to_decode(frame: int) -> str:
    return "no scan (SOS): the end marker comes first" if frame else "no frame header (SOF)"
