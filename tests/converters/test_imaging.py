"""What becomes of a file: the rules of `decide`, over odd files made here and over real ones."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from dataio.converters.imaging import ImageOptions, Picture, Rejected, decide, ordinary_header
from dataio.converters.kinds import picture_kind
from dataio.converters.outcome import REASONS
from dataio.errors import RecordError
from dataio.jpeg import read_header


def seen(picture: Picture) -> Any:
    """uint8[height, width, 3]: the stored picture, turned upright as its record says."""
    image = Image.open(io.BytesIO(picture.image))
    assert image.getexif().get(0x0112, 1) in (picture.orientation, 0)
    image.getexif()[0x0112] = picture.orientation
    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def far(left: Any, right: Any) -> float:
    """Mean absolute difference in levels."""
    assert left.shape == right.shape
    return float(np.abs(left.astype(np.int64) - right).mean())


# Pillow, which the tests look at results with, warns about the EXIF blocks that are broken on purpose.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Corrupt EXIF data"),
    pytest.mark.filterwarnings("ignore::UserWarning:PIL.TiffImagePlugin"),
]


def test_every_odd_file_becomes_what_it_must(odd_file: Any) -> None:
    decided = decide(odd_file.content)
    if odd_file.outcome == "reject":
        assert isinstance(decided, Rejected), decided
        assert decided.reason == odd_file.reason, decided.detail
        assert decided.reason in REASONS and decided.detail
        return
    assert isinstance(decided, Picture), decided
    assert decided.orientation == odd_file.orientation
    assert decided.transcoded == odd_file.reason
    if odd_file.outcome == "accept":
        assert decided.image == odd_file.content
    stored = Image.open(io.BytesIO(decided.image))
    assert (stored.height, stored.width) == (decided.height, decided.width)
    assert stored.format in ("JPEG", "MPO") and stored.mode in ("L", "RGB")
    if odd_file.truth is not None:
        assert far(seen(decided), odd_file.truth) < 3


def test_decoding_everything_accepts_what_the_header_check_accepts(odd_file: Any) -> None:
    by_header, by_decode = decide(odd_file.content), decide(odd_file.content, ImageOptions(validation="decode"))
    assert by_header == by_decode


def test_every_stored_picture_is_read_by_tensorflow_and_by_opencv(odd_file: Any) -> None:
    decided = decide(odd_file.content)
    if isinstance(decided, Rejected):
        return
    cv2 = pytest.importorskip("cv2")
    import tensorflow as tf

    shape = (decided.height, decided.width, 3)
    decoded = tf.io.decode_jpeg(decided.image, channels=3, dct_method="INTEGER_ACCURATE").numpy()
    assert decoded.shape == shape
    if odd_file.truth is not None and decided.orientation == 1:
        assert far(decoded, odd_file.truth) < 3
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    assert cv2.imdecode(np.frombuffer(decided.image, np.uint8), flags).shape == shape


def test_the_real_odd_files_become_what_their_list_says(shared_data: Path) -> None:
    expected = json.loads((shared_data / "odd" / "expected.json").read_text())
    del expected["_note"]
    assert len(expected) == 25
    for name, what in expected.items():
        content = (shared_data / "odd" / name).read_bytes()
        decided = decide(content)
        if isinstance(decided, Rejected):
            assert (what["outcome"], what["reason"]) == ("reject", decided.reason), name
            continue
        assert what["outcome"] == ("transcode" if decided.transcoded else "accept"), name
        assert decided.transcoded or decided.image == content, name
        if "truth" in what:
            truth = np.asarray(Image.open(shared_data / "odd" / what["truth"]).convert("RGB"))
            assert far(seen(decided), truth) < 3, name


@pytest.mark.parametrize("scene", ["Landscape", "Portrait"])
def test_the_real_turned_pictures_are_the_same_scene_once_upright(shared_data: Path, scene: str) -> None:
    views = []
    for orientation in range(9):
        content = (shared_data / "odd" / "orientation" / f"{scene}_{orientation}.jpg").read_bytes()
        decided = decide(content, ImageOptions(encoding="jpeg", max_side=150, exif_orientation="apply"))
        assert isinstance(decided, Picture) and decided.orientation == 1
        stored = decide(content)
        assert isinstance(stored, Picture) and stored.orientation == max(orientation, 1)
        views.append(seen(decided))
    assert all(far(view, views[0]) < 5 for view in views)


@pytest.mark.parametrize("orientation", range(2, 9))
def test_an_orientation_can_be_applied_when_storing(odd_files: Any, orientation: int) -> None:
    file = next(file for file in odd_files if file.name == f"orientation_{orientation}")
    decided = decide(file.content, ImageOptions(exif_orientation="apply"))
    assert isinstance(decided, Picture)
    assert (decided.orientation, decided.transcoded) == (1, None)
    assert Image.open(io.BytesIO(decided.image)).getexif().get(0x0112) is None
    assert far(seen(decided), file.truth) < 3


def test_upright_files_stay_untouched_when_orientations_are_applied(make_jpeg: Callable[..., bytes]) -> None:
    content = make_jpeg()
    decided = decide(content, ImageOptions(exif_orientation="apply"))
    assert isinstance(decided, Picture) and decided.image == content


def test_other_kinds_can_be_refused(odd_file: Any) -> None:
    decided = decide(odd_file.content, ImageOptions(non_jpeg="reject"))
    if picture_kind(odd_file.content) in (None, "jpeg"):
        assert decided == decide(odd_file.content)
    else:
        assert isinstance(decided, Rejected) and decided.reason == "unsupported_jpeg"


def test_the_limit_of_pixels_is_an_option(make_jpeg: Callable[..., bytes], odd_files: Any) -> None:
    content = make_jpeg()
    assert isinstance(decide(content, ImageOptions(max_pixels=48 * 72)), Picture)
    for options in (ImageOptions(max_pixels=48 * 72 - 1), ImageOptions(max_pixels=1)):
        decided = decide(content, options)
        assert isinstance(decided, Rejected) and decided.reason == "too_many_pixels"
    png = next(file.content for file in odd_files if file.name == "png")
    decided = decide(png, ImageOptions(max_pixels=100))
    assert isinstance(decided, Rejected) and decided.reason == "too_many_pixels"


def test_a_file_that_no_record_can_hold_is_refused(
    make_jpeg: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = make_jpeg()
    monkeypatch.setattr("dataio.converters.imaging.MAX_FILE_BYTES", len(content) - 1)
    decided = decide(content)
    assert isinstance(decided, Rejected) and decided.reason == "unreadable"
    assert ordinary_header(content, content[-2:], len(content)) is None


@pytest.mark.parametrize(
    "options",
    [
        ImageOptions(),
        ImageOptions(validation="decode"),
        ImageOptions(encoding="jpeg", short_side=64),
        ImageOptions(encoding="jpeg", short_side=64, resizer="pillow"),
        ImageOptions(encoding="raw", size=(64, 64)),
    ],
)
def test_a_picture_of_24_megapixels_is_one_like_others(make_jpeg: Callable[..., bytes], options: ImageOptions) -> None:
    content = make_jpeg(np.zeros((4000, 6000, 3), np.uint8) + np.arange(3, dtype=np.uint8) * 80)
    decided = decide(content, options)
    assert isinstance(decided, Picture)
    if options.encoding == "source":
        assert decided.image is content and (decided.height, decided.width) == (4000, 6000)
    else:
        assert min(decided.height, decided.width) == 64


def test_a_colour_profile_is_copied_where_it_fits(make_picture: Callable[..., Any]) -> None:
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    image = Image.fromarray(make_picture())
    for mode, kept in (("RGB", profile), ("L", None)):
        buffer = io.BytesIO()
        image.convert(mode).save(buffer, "PNG", icc_profile=profile)
        decided = decide(buffer.getvalue())
        assert isinstance(decided, Picture)
        assert Image.open(io.BytesIO(decided.image)).info.get("icc_profile") == kept


@pytest.mark.parametrize("mode", ["L", "LA", "P", "PA", "RGB", "RGBA"])
def test_what_is_transparent_becomes_white_in_every_mode(make_picture: Callable[..., Any], mode: str) -> None:
    image = Image.fromarray(make_picture()).convert("L" if mode.startswith("L") else "RGB")
    corner = (0, 0, 10, 10)
    options: dict[str, Any] = {}
    if mode in ("LA", "RGBA", "PA"):
        alpha = Image.new("L", image.size, 255)
        alpha.paste(0, corner)
        image.putalpha(alpha)
        if mode == "PA":
            image = image.quantize(32, method=Image.Quantize.FASTOCTREE)
    else:
        # A colour that stands for transparency, where nothing else has it.
        value: Any = 7 if mode == "L" else (1, 2, 3)
        image.paste(value, corner)
        if mode == "P":
            image = image.convert("P", palette=Image.Palette.ADAPTIVE, colors=64)
            value = image.getpixel((3, 3))
        options["transparency"] = value
    buffer = io.BytesIO()
    image.save(buffer, "PNG", **options)
    decided = decide(buffer.getvalue())
    assert isinstance(decided, Picture)
    stored = Image.open(io.BytesIO(decided.image))
    assert stored.mode == ("L" if mode.startswith("L") else "RGB")
    assert np.asarray(stored)[2:6, 2:6].min() > 250
    assert np.asarray(stored)[20:].mean() < 220


def test_samples_without_a_defined_white_are_not_guessed(make_picture: Callable[..., Any]) -> None:
    buffer = io.BytesIO()
    Image.fromarray(make_picture()[..., 0].astype(np.float32)).save(buffer, "TIFF")
    decided = decide(buffer.getvalue())
    assert isinstance(decided, Rejected) and decided.reason == "unreadable"


@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "jpeg"},
        {"encoding": "jpeg", "short_side": 256, "max_side": 256},
        {"short_side": 256},
        {"encoding": "raw"},
        {"encoding": "jpeg", "short_side": 256, "size": (64, 64)},
        {"encoding": "jpeg", "short_side": 0},
        {"quality": 101},
        {"resizer": "opencv"},
        {"max_pixels": 0},
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        ImageOptions(**options)


@pytest.mark.filterwarnings("error")
def test_no_file_makes_pillow_warn(odd_file: Any) -> None:
    for options in (ImageOptions(validation="decode"), ImageOptions(encoding="raw", size=(8, 8))):
        decide(odd_file.content, options)


@settings(max_examples=150, deadline=None)
@given(
    number=st.integers(0, 10**6),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=6),
    length=st.integers(0, 6000),
    options=st.sampled_from(
        [
            ImageOptions(),
            ImageOptions(validation="decode"),
            ImageOptions(encoding="jpeg", short_side=16),
            ImageOptions(encoding="raw", size=(8, 12)),
            ImageOptions(exif_orientation="apply"),
        ]
    ),
)
def test_any_damage_ends_in_a_picture_or_a_reason(
    odd_files: Any, number: int, changes: list[tuple[int, int]], length: int, options: ImageOptions
) -> None:
    content = bytearray(odd_files[number % len(odd_files)].content)
    for position, value in changes:
        if content:
            # Most of what can be confused stands in the first few hundred bytes.
            content[position % min(len(content), 700 if value % 2 else len(content))] = value
    for damaged in (bytes(content), bytes(content[:length])):
        decided = decide(damaged, options)
        if isinstance(decided, Rejected):
            assert decided.reason in REASONS and decided.detail
        elif options.encoding == "raw":
            assert len(decided.image) == 3 * decided.height * decided.width == 3 * 8 * 12
        else:
            assert decided.image[:2] == b"\xff\xd8" and 1 <= decided.orientation <= 8
            assert read_header(decided.image).components in (1, 3)


def test_what_is_told_from_beginning_and_end_is_what_the_whole_file_says(odd_file: Any) -> None:
    content = odd_file.content
    for options in (ImageOptions(), ImageOptions(exif_orientation="apply"), ImageOptions(max_pixels=3000)):
        decided = decide(content, options)
        for length in (0, 1, 2, 3, 20, 100, 300, 400, 600, 700, 1000, len(content)):
            header = ordinary_header(content[:length], content[-2:], len(content), options)
            if header is not None:
                assert decided == Picture(content, header.orientation, header.height, header.width, None)


def test_an_ordinary_file_needs_its_header_and_its_end_only(make_jpeg: Callable[..., bytes]) -> None:
    content = make_jpeg()
    end_of_header = read_header(content).scan_offset
    assert ordinary_header(content[:end_of_header], content[-2:], len(content)) == read_header(content)
    assert ordinary_header(content[: end_of_header - 1], content[-2:], len(content)) is None
    assert ordinary_header(content, content[-2:], len(content), ImageOptions(validation="decode")) is None
    assert ordinary_header(content, content[-2:], len(content), ImageOptions(encoding="raw", size=(8, 8))) is None
