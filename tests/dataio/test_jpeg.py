"""JPEG headers: what is read, what is refused, and that no bytes whatever make the reader stumble."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from dataio.jpeg import JpegError, JpegHeader, exif_orientation, least_scan_bytes, read_header, without_exif


def jpeg(height: int = 40, width: int = 60, mode: str = "RGB", **options: object) -> bytes:
    ramp = np.linspace(0, 255, height * width * 3).reshape(height, width, 3).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(ramp).convert(mode).save(buffer, "JPEG", **options)
    return buffer.getvalue()


def exif_segment(tiff: bytes) -> bytes:
    body = b"Exif\0\0" + tiff
    return b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body


def changed(content: bytes, marker: int, offset: int, value: int) -> bytes:
    """`content` with another byte so far from the beginning of its first segment of this marker."""
    copy = bytearray(content)
    copy[content.index(bytes([0xFF, marker])) + offset] = value
    return bytes(copy)


def tiff(order: str, tag: int, field_type: int, packed: bytes, count: int = 1) -> bytes:
    start = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, 1)
    return start + struct.pack(order + "HHI", tag, field_type, count) + packed.ljust(4, b"\0") + bytes(4)


@pytest.mark.parametrize("mode, components", [("RGB", 3), ("L", 1), ("CMYK", 4)])
@pytest.mark.parametrize("progressive", [False, True])
def test_the_header_says_what_the_encoder_was_given(mode: str, components: int, progressive: bool) -> None:
    header = read_header(jpeg(30, 50, mode, progressive=progressive))
    assert (header.height, header.width, header.components, header.precision) == (30, 50, components, 8)
    assert header.progressive is progressive
    assert header.frame_name == ("progressive" if progressive else "baseline")
    assert (header.orientation, header.ends, header.doubt, header.unsupported) == (1, True, None, None)
    assert header.adobe_transform == (0 if mode == "CMYK" else None)


def test_the_scan_offset_is_where_the_coded_data_begin() -> None:
    content = jpeg()
    start = content.index(b"\xff\xda")
    assert read_header(content).scan_offset == start + 2 + struct.unpack_from(">H", content, start + 2)[0]


def test_a_colour_profile_is_noticed() -> None:
    assert not read_header(jpeg()).has_icc_profile
    assert read_header(jpeg(icc_profile=b"a profile")).has_icc_profile


def test_the_size_comes_from_the_frame_and_not_from_a_thumbnail_in_the_exif_block() -> None:
    content = jpeg(40, 60)
    with_thumbnail = content[:2] + exif_segment(b"MM\0*" + jpeg(5, 7)) + content[2:]
    header = read_header(with_thumbnail)
    assert (header.height, header.width) == (40, 60)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("field_type, pack", [(1, "B"), (3, "H"), (4, "I")])
@pytest.mark.parametrize("value", [*range(1, 9)])
def test_an_orientation_is_read_in_either_byte_order_and_of_any_integer_type(
    order: str, field_type: int, pack: str, value: int
) -> None:
    block = tiff(order, 0x0112, field_type, struct.pack(order + pack, value))
    assert exif_orientation(block) == value
    content = jpeg()
    assert read_header(content[:2] + exif_segment(block) + content[2:]).orientation == value


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"II*\0",
        b"II*\0\xff\xff\xff\xff",
        b"XX*\0" + bytes(20),
        tiff("<", 0x0112, 3, struct.pack("<H", 0)),
        tiff("<", 0x0112, 3, struct.pack("<H", 9)),
        tiff("<", 0x0112, 2, b"6"),
        tiff("<", 0x010F, 3, struct.pack("<H", 6)),
        tiff("<", 0x0112, 3, struct.pack("<H", 6))[:-10],
    ],
)
def test_without_a_readable_orientation_a_picture_is_upright(block: bytes) -> None:
    assert exif_orientation(block) is None
    content = jpeg()
    assert read_header(content[:2] + exif_segment(block) + content[2:]).orientation == 1


def test_the_first_exif_block_with_an_orientation_counts() -> None:
    content = jpeg()
    blocks = [tiff("<", 0x010F, 3, b""), tiff("<", 0x0112, 3, b"\6"), tiff("<", 0x0112, 3, b"\3")]
    assert read_header(content[:2] + b"".join(exif_segment(block) for block in blocks) + content[2:]).orientation == 6


def test_exif_blocks_can_be_left_out_and_nothing_else_with_them() -> None:
    content = jpeg()
    block = exif_segment(tiff("<", 0x0112, 3, b"\6"))
    assert read_header(content).exif_blocks == ()
    assert without_exif(content, read_header(content)) is content
    for with_blocks in (content[:2] + block + content[2:], content[:2] + block + content[2:20] + block + content[20:]):
        assert without_exif(with_blocks, read_header(with_blocks)) == content


@pytest.mark.parametrize(
    "marker, precision, said",
    [
        (0xC1, 12, "12 bits"),
        (0xC3, 8, "lossless"),
        (0xC9, 8, "arithmetic"),
        (0xC5, 8, "differential"),
        (0xF7, 8, "JPEG-LS"),
    ],
)
def test_what_training_readers_cannot_decode_is_named(marker: int, precision: int, said: str) -> None:
    content = bytearray(jpeg())
    at = content.index(b"\xff\xc0")
    content[at + 1], content[at + 4] = marker, precision
    assert said in (read_header(bytes(content)).unsupported or "")


@pytest.mark.parametrize(
    "change, doubt",
    [
        (lambda c: c + b"junk", "end marker"),
        (lambda c: c[:-2], "end marker"),
        (lambda c: c[:2] + b"stray" + c[2:], "stray bytes"),
        (lambda c: c[:2] + b"\xff\xd0" + c[2:], "stray marker"),
        (lambda c: c.replace(b"\xff\xdb", b"\xff\xfe"), "has no quantisation table"),
        (lambda c: c.replace(b"\xff\xc4", b"\xff\xfe"), "has no Huffman table"),
        (lambda c: c.replace(b"\xff\xe0", b"\xff\xf0", 1), "segment FF F0"),
        (lambda c: c.replace(b"\xff\xe0", b"\xff\xdd", 1), "segment FF DD"),
        (lambda c: changed(c, 0xDB, 4, 0x20), "a broken quantisation table"),
        (lambda c: changed(c, 0xDB, 4, 0x04), "a broken quantisation table"),
        (lambda c: changed(c, 0xDB, 4, 0x03), "has no quantisation table"),
        (lambda c: changed(c, 0xC4, 4, 0x20), "a broken Huffman table"),
        (lambda c: changed(c, 0xC4, 5, 3), "a broken Huffman table"),
        (lambda c: changed(c, 0xC4, 20, 9), "a broken Huffman table"),
        (lambda c: changed(c, 0xC4, 21, 16), "a broken Huffman table"),
        (lambda c: changed(c, 0xC0, 11, 0x00), "a sampling of 0 x 0"),
        (lambda c: changed(c, 0xC0, 11, 0x51), "a sampling of 5 x 1"),
        (lambda c: changed(changed(c, 0xC0, 11, 0x31), 0xC0, 14, 0x21), "samplings that decoders do not combine"),
        (lambda c: changed(c, 0xC0, 11, 0x44), "samplings that decoders do not combine"),
        (lambda c: changed(c, 0xDA, 7, 1), "some of them twice"),
        (lambda c: changed(c, 0xC0, 13, 1), "components with the same identifier"),
        (lambda c: changed(c, 0xDA, 5, 9), "the scan names component 9"),
        (lambda c: changed(c, 0xDA, 6, 0x22), "has no Huffman table"),
        (lambda c: changed(c, 0xDA, 12, 17), "spectral selection"),
    ],
)
def test_an_odd_file_raises_doubt(change: Callable[[bytes], bytes], doubt: str) -> None:
    assert doubt in (read_header(change(jpeg())).doubt or "")


def test_a_changed_byte_of_the_header_raises_doubt_or_leaves_a_picture_that_tensorflow_reads() -> None:
    import tensorflow as tf

    rng = random.Random(0)
    trusted = 0
    for seed in (jpeg(), jpeg(mode="L"), jpeg(progressive=True)):
        for _ in range(400):
            content = bytearray(seed)
            content[rng.randrange(2, read_header(seed).scan_offset)] = rng.randrange(256)
            try:
                header = read_header(bytes(content))
            except JpegError:
                continue
            if header.doubt is None and header.unsupported is None and header.height * header.width < 10**6:
                trusted += 1
                tf.io.decode_jpeg(bytes(content))
    assert trusted > 500


@pytest.mark.parametrize(
    "filler",
    [b"\xff\xfe\x00\x02", b"\xff\x00", b"\xff\xd0", b"a\xff\x00", exif_segment(b"II*\0")],
)
def test_a_header_without_end_is_given_up_after_a_bounded_number_of_steps(filler: bytes) -> None:
    with pytest.raises(JpegError, match="no scan after 20,000 segments") as refused:
        read_header(b"\xff\xd8" + filler * 100_000)
    assert refused.value.kind == "corrupt"


def test_any_number_of_fill_bytes_is_skipped_in_few_steps() -> None:
    content = jpeg()
    header = read_header(content[:2] + b"\xff" * 10_000_000 + content[2:])
    assert (header.width, header.doubt) == (60, None)


def test_fill_bytes_before_a_marker_are_nothing_odd() -> None:
    content = jpeg()
    assert read_header(content[:2] + b"\xff" * 7 + content[2:]).doubt is None


@pytest.mark.parametrize(
    "content, kind",
    [
        (b"", "corrupt"),
        (b"\xff", "corrupt"),
        (b"\x89PNG", "corrupt"),
        (b"\xff\xd8", "truncated"),
        (b"\xff\xd8\xff", "truncated"),
        (b"\xff\xd8\xff\xd9", "corrupt"),
        (b"\xff\xd8\xff\xe0\x00\x01\xff\xd9", "corrupt"),
        (b"\xff\xd8\xff\xe0\xff\xff", "truncated"),
        (b"\xff\xd8\xff\xe0\xff\xff\xff\xd9", "corrupt"),
        (jpeg()[:200], "truncated"),
        (b"\xff\xd8" + jpeg(), "corrupt"),
    ],
)
def test_bytes_without_a_readable_header_are_refused(content: bytes, kind: str) -> None:
    with pytest.raises(JpegError) as refused:
        read_header(content)
    assert refused.value.kind == kind


def test_the_least_size_of_a_scan_is_below_that_of_the_plainest_picture() -> None:
    for height, width in ((24, 24), (480, 640), (1001, 1999)):
        buffer = io.BytesIO()
        Image.new("L", (width, height), 255).save(buffer, "JPEG", quality=1, optimize=True)
        content = buffer.getvalue()
        assert len(content) - read_header(content).scan_offset >= least_scan_bytes(height, width) > 0


def read_or_refused(content: bytes) -> None:
    """Reads the header; passes only where that gives sound values or the declared error."""
    try:
        header = read_header(content)
    except JpegError as problem:
        assert problem.kind in ("truncated", "corrupt") and str(problem)
        return
    assert isinstance(header, JpegHeader)
    assert 1 <= header.height <= 65535 and 1 <= header.width <= 65535 and 1 <= header.components <= 255
    assert 1 <= header.orientation <= 8 and 0 < header.scan_offset <= len(content)
    assert header.unsupported is None or header.unsupported


SEEDS = [
    jpeg(),
    jpeg(mode="CMYK"),
    jpeg(progressive=True),
    jpeg()[:2] + exif_segment(tiff("<", 0x0112, 3, b"\6")) + jpeg()[2:],
]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), max_size=8),
    st.integers(0, 900),
)
def test_changed_and_cut_files_give_a_header_or_the_declared_error(
    seed: bytes, changes: list[tuple[int, int]], length: int
) -> None:
    content = bytearray(seed)
    for position, value in changes:
        content[position % len(content)] = value
    read_or_refused(bytes(content))
    read_or_refused(bytes(content[:length]))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
@example(b"\xff" * 60)
@example(b"\xff\xd0" * 60)
def test_any_bytes_after_a_start_marker_give_a_header_or_the_declared_error(tail: bytes) -> None:
    read_or_refused(b"\xff\xd8" + tail)
    read_or_refused(b"\xff\xd8\xff" + tail)
    exif_orientation(b"II*\0" + tail)
    exif_orientation(b"MM\0*" + tail)


def test_photographs_have_the_size_that_pillow_reads(photos: Path) -> None:
    files = [path for path in photos.rglob("*") if path.suffix.lower() == ".jpg"]
    assert len(files) >= 40
    for path in files:
        header = read_header(path.read_bytes())
        with Image.open(path) as image:
            assert (header.width, header.height) == image.size
            assert header.orientation == image.getexif().get(0x0112, 1)
