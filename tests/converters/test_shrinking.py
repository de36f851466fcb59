"""Smaller stores: sizes, orientation, pixels, and decoding at a fraction that cannot be seen."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

from dataio.converters.imaging import ImageOptions, Picture, Rejected, decide
from dataio.converters.shrinking import FILTER, cut_for, scaled_decoding, shrunk
from dataio.errors import MissingExtra

Make = Callable[..., Any]


@pytest.fixture(params=["pillow", "opencv"])
def resizer(request: pytest.FixtureRequest) -> str:
    """Each of the resizers."""
    if request.param == "opencv":
        pytest.importorskip("cv2")
    return str(request.param)


def kept(content: bytes, **options: Any) -> Picture:
    decided = decide(content, ImageOptions(**options))
    assert isinstance(decided, Picture), decided
    return decided


def pixels(picture: Picture) -> Any:
    """uint8[height, width, 3] of a stored JPEG."""
    image = Image.open(io.BytesIO(picture.image))
    assert image.size == (picture.width, picture.height)
    return np.asarray(image.convert("RGB"))


def photograph(height: int, width: int, seed: int = 0) -> Any:
    """uint8[height, width, 3] whose spectrum falls off as that of photographs does: amplitude as 1/frequency.

    Source: Field 1987, "Relations between the statistics of natural images and the response properties of
    cortical cells".
    """
    rng = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1
    planes = []
    for _ in range(3):
        spectrum = np.exp(2j * np.pi * rng.random(frequency.shape)) / frequency
        spectrum[0, 0] = 0
        plane = np.fft.irfft2(spectrum, (height, width))
        planes.append(plane / plane.std())
    luma = planes[0][..., None] + 0.3 * np.stack(planes, axis=-1)
    return (127 + 40 * luma).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    "height, width, options, expected",
    [
        (100, 200, {"short_side": 50}, (50, 100)),
        (200, 100, {"short_side": 50}, (100, 50)),
        (375, 500, {"short_side": 256}, (256, 341)),
        (100, 200, {"max_side": 50}, (25, 50)),
        (1000, 3, {"max_side": 10}, (10, 1)),
        (101, 203, {"short_side": 7}, (7, 14)),
    ],
)
def test_a_side_gets_the_length_asked_for_and_the_other_keeps_the_shape(
    resizer: str,
    make_jpeg: Make,
    make_picture: Make,
    height: int,
    width: int,
    options: dict[str, int],
    expected: tuple[int, int],
) -> None:
    picture = kept(make_jpeg(make_picture(height, width)), encoding="jpeg", resizer=resizer, **options)
    assert (picture.height, picture.width) == expected
    assert pixels(picture).shape == (*expected, 3)
    assert (picture.orientation, picture.transcoded) == (1, None)


@pytest.mark.parametrize("options", [{"short_side": 48}, {"max_side": 72}, {"short_side": 1000}])
def test_pictures_that_are_small_enough_keep_their_bytes(
    resizer: str, make_jpeg: Make, options: dict[str, int]
) -> None:
    content = make_jpeg()
    assert kept(content, encoding="jpeg", resizer=resizer, **options) == Picture(content, 1, 48, 72, None)


def test_quality_decides_the_bytes(resizer: str, make_jpeg: Make) -> None:
    content = make_jpeg(photograph(200, 300))
    sizes = [
        len(kept(content, encoding="jpeg", resizer=resizer, short_side=100, quality=quality).image)
        for quality in (30, 60, 90, 100)
    ]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1] / 3


@pytest.mark.parametrize("options", [{"encoding": "jpeg", "short_side": 24}, {"encoding": "raw", "size": (24, 30)}])
def test_turned_pictures_come_out_upright_and_alike(resizer: str, odd_files: Any, options: dict[str, Any]) -> None:
    turned = [file for file in odd_files if file.name.startswith("orientation_")]
    upright = next(file for file in odd_files if file.name == "ordinary")
    reference = kept(upright.content, **options, resizer=resizer)
    assert len(turned) == 7
    for file in turned:
        picture = kept(file.content, **options, resizer=resizer)
        assert (picture.orientation, picture.height, picture.width) == (1, reference.height, reference.width)
        if options["encoding"] == "jpeg":
            difference = np.abs(pixels(picture).astype(int) - pixels(reference))
        else:
            difference = np.abs(np.frombuffer(picture.image, np.uint8).astype(int) - list(reference.image))
        assert difference.mean() < 2, file.name


@pytest.mark.parametrize("size", [(24, 24), (10, 40), (40, 10), (48, 72), (100, 150)])
def test_raw_pictures_all_have_the_size_asked_for(resizer: str, odd_files: Any, size: tuple[int, int]) -> None:
    for file in odd_files:
        decided = decide(file.content, ImageOptions(encoding="raw", resizer=resizer, size=size))
        assert isinstance(decided, Rejected) is (file.outcome == "reject"), file.name
        if isinstance(decided, Picture):
            assert len(decided.image) == size[0] * size[1] * 3
            assert (decided.height, decided.width, decided.orientation) == (*size, 1)
            assert decided.transcoded == (file.reason if file.outcome == "transcode" else None)


def test_raw_pixels_are_the_middle_of_the_picture_scaled_to_cover_the_size(resizer: str, make_jpeg: Make) -> None:
    source = photograph(150, 300)
    picture = kept(make_jpeg(source, quality=100), encoding="raw", resizer=resizer, size=(50, 50))
    middle = Image.fromarray(source[:, 75:225]).resize((50, 50), Image.Resampling.BICUBIC)
    stored = np.frombuffer(picture.image, np.uint8).reshape(50, 50, 3)
    assert np.abs(stored.astype(int) - np.asarray(middle)).mean() < 3


def test_gray_pictures_stay_gray_in_small_jpegs_and_get_three_channels_as_raw(resizer: str, odd_files: Any) -> None:
    content = next(file.content for file in odd_files if file.name == "gray")
    assert Image.open(io.BytesIO(kept(content, encoding="jpeg", resizer=resizer, short_side=20).image)).mode == "L"
    raw = np.frombuffer(kept(content, encoding="raw", resizer=resizer, size=(20, 20)).image, np.uint8).reshape(
        20, 20, 3
    )
    assert (raw[..., 0] == raw[..., 1]).all() and (raw[..., 1] == raw[..., 2]).all()


def test_what_was_unfit_is_said_in_smaller_stores_too(resizer: str, odd_files: Any) -> None:
    for name, code in (("cmyk_adobe", "cmyk"), ("ycck", "ycck"), ("png_alpha", "png"), ("ordinary", None)):
        file = next(file for file in odd_files if file.name == name)
        picture = kept(file.content, encoding="jpeg", resizer=resizer, short_side=24)
        assert picture.transcoded == code
        if file.truth is not None:
            small = Image.fromarray(file.truth).resize((36, 24), Image.Resampling.BICUBIC)
            assert np.abs(pixels(picture).astype(int) - np.asarray(small)).mean() < 4


def test_damage_that_only_a_decode_finds_is_found_when_pixels_are_needed(resizer: str, make_jpeg: Make) -> None:
    content = bytearray(make_jpeg(photograph(200, 300), progressive=True))
    middle = len(content) // 2
    for position in range(middle, middle + 400):
        content[position] ^= 0x55
    decided = decide(bytes(content), ImageOptions(encoding="jpeg", resizer=resizer, short_side=100))
    assert isinstance(decided, Rejected) and decided.reason == "corrupt"


def test_decoding_at_a_fraction_is_used_and_cannot_be_seen(make_jpeg: Make) -> None:
    used = 0
    for seed in range(4):
        content = make_jpeg(photograph(600, 800, seed), subsampling="4:2:0", quality=90)
        for side in (60, 120, 140, 220):
            options = ImageOptions(encoding="jpeg", short_side=side)
            cut = cut_for(600, 800, 1, options)
            fraction = JpegImagePlugin.JpegImageFile(io.BytesIO(content))
            extent = scaled_decoding(fraction, cut)
            assert fraction.height >= 2 * side or fraction.height == 600
            used += fraction.height < 600
            quick = shrunk(fraction, cut, extent).convert("RGB")
            whole = Image.open(io.BytesIO(content)).convert("RGB").resize((cut.width, cut.height), FILTER)
            assert np.abs(np.asarray(quick).astype(int) - np.asarray(whole)).mean() < 1.5
    assert used == 12


def test_both_resizers_come_close_to_the_best_filter(photos: Path, resizer: str) -> None:
    differences = []
    for path in sorted(photos.rglob("*.jpg"))[::4]:
        image = Image.open(path).convert("RGB")
        for side in (64, 224, 300):
            cut = cut_for(image.height, image.width, 1, ImageOptions(encoding="jpeg", short_side=side))
            size = (cut.height, cut.width)
            picture = kept(path.read_bytes(), encoding="raw", size=size, resizer=resizer)
            stored = np.frombuffer(picture.image, np.uint8).reshape(*size, 3)
            best = np.asarray(image.resize(size[::-1], Image.Resampling.LANCZOS))
            differences.append(np.abs(stored.astype(int) - best).mean())
    assert len(differences) >= 30
    assert np.mean(differences) < (2 if resizer == "pillow" else 3)


@pytest.mark.parametrize("height, width", [(1, 1), (1, 500), (500, 1), (3, 2000)])
def test_pictures_of_any_shape_become_small_ones(
    make_jpeg: Make, make_picture: Make, resizer: str, height: int, width: int
) -> None:
    content = make_jpeg(make_picture(height, width))
    small = kept(content, encoding="jpeg", max_side=20, resizer=resizer)
    assert max(small.height, small.width) == min(20, max(height, width))
    raw = kept(content, encoding="raw", size=(5, 7), resizer=resizer)
    assert len(raw.image) == 5 * 7 * 3


@pytest.mark.parametrize("installed, chosen", [(True, "opencv"), (False, "pillow")])
def test_the_resizer_is_chosen_by_what_is_installed_and_recorded(
    monkeypatch: pytest.MonkeyPatch, installed: bool, chosen: str
) -> None:
    monkeypatch.setattr("dataio.converters.picture.find_spec", lambda name: object() if installed else None)
    options = ImageOptions(encoding="jpeg", short_side=20)
    assert options.resizer == chosen
    assert ImageOptions.from_json(options.to_json()) == options
    assert ImageOptions(encoding="jpeg", short_side=20, resizer="pillow").resizer == "pillow"
    assert ImageOptions().resizer is None


def test_without_opencv_its_resizer_says_what_to_install(make_jpeg: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtra, match="pip install"):
        kept(make_jpeg(), encoding="jpeg", short_side=20, resizer="opencv")


def test_jpegs_coded_as_rgb_keep_their_colours(resizer: str, make_jpeg: Make) -> None:
    source = photograph(200, 300)
    content = make_jpeg(source, keep_rgb=True)
    picture = kept(content, encoding="raw", resizer=resizer, size=(100, 150))
    small = Image.fromarray(source).resize((150, 100), Image.Resampling.BICUBIC)
    stored = np.frombuffer(picture.image, np.uint8).reshape(100, 150, 3)
    assert np.abs(stored.astype(int) - np.asarray(small)).mean() < 4


def test_profiles_are_left_out_of_smaller_stores(resizer: str, make_jpeg: Make) -> None:
    content = make_jpeg(photograph(100, 100), icc_profile=b"x" * 500)
    assert b"ICC_PROFILE" in kept(content).image
    assert b"ICC_PROFILE" not in kept(content, encoding="jpeg", resizer=resizer, short_side=50).image


def test_the_same_file_becomes_the_same_bytes(resizer: str, make_jpeg: Make) -> None:
    content = make_jpeg(photograph(200, 300))
    options = ImageOptions(encoding="jpeg", resizer=resizer, short_side=100)
    assert decide(content, options) == decide(content, options)
