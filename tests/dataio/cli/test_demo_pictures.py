"""Synthetic photographs: they look to a decoder like real ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dataio.cli.demo_pictures import CLASS_NAMES, draw_pictures


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pictures")
    draw_pictures(root, splits={"train": 24, "val": 9})
    return root


def test_every_class_has_its_share_of_every_split(pictures: Path) -> None:
    for split, total in (("train", 24), ("val", 9)):
        counts = [len(list((pictures / split / name).iterdir())) for name in CLASS_NAMES]
        assert sum(counts) == total
        assert max(counts) - min(counts) <= 1


def test_a_file_has_the_bytes_and_pixels_of_a_photograph(pictures: Path) -> None:
    files = sorted(pictures.rglob("*.jpg"))
    sizes = [file.stat().st_size for file in files]
    pixels = []
    for file in files:
        with Image.open(file) as picture:
            pixels.append(picture.width * picture.height)
    # ImageNet's training files: 110 kB and 181,000 pixels in the mean; a rare large one must not decide.
    assert 75_000 < np.median(sizes) < 130_000
    assert 150_000 < np.median(pixels) < 230_000


def test_the_amplitude_spectrum_falls_as_one_over_f(pictures: Path) -> None:
    slopes = []
    for file in sorted(pictures.rglob("*.jpg"))[:12]:
        with Image.open(file) as picture:
            grey = np.asarray(picture.convert("L"), dtype=np.float64)[:320, :320]
        spectrum = np.abs(np.fft.fft2((grey - grey.mean()) * np.outer(np.hanning(320), np.hanning(320))))
        radius = np.hypot(*np.meshgrid(np.fft.fftfreq(320), np.fft.fftfreq(320)))
        bands = np.geomspace(0.02, 0.35, 12)
        levels = [spectrum[(radius >= low) & (radius < high)].mean() for low, high in pairwise(bands)]
        slopes.append(np.polyfit(np.log(np.sqrt(bands[1:] * bands[:-1])), np.log(levels), 1)[0])
    # Photographs: -1 give or take 0.3 (Field 1987; Torralba and Oliva 2003).
    assert -1.5 < np.mean(slopes) < -0.7


def test_the_same_seed_gives_the_same_files_and_another_gives_others(pictures: Path, tmp_path: Path) -> None:
    draw_pictures(tmp_path / "again", splits={"train": 24})
    draw_pictures(tmp_path / "other", splits={"train": 8}, seed=1)
    name = Path("train") / CLASS_NAMES[0] / f"{CLASS_NAMES[0]}-0000.jpg"
    assert (tmp_path / "again" / name).read_bytes() == (pictures / name).read_bytes()
    assert (tmp_path / "other" / name).read_bytes() != (pictures / name).read_bytes()


def test_progress_adds_up_and_so_do_the_bytes(tmp_path: Path) -> None:
    steps: list[int] = []
    written = draw_pictures(tmp_path, splits={"train": 10}, on_progress=steps.append)
    assert sum(steps) == 10
    assert written == sum(file.stat().st_size for file in tmp_path.rglob("*.jpg"))
