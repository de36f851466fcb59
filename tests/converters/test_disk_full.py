"""A disk that is full in truth, over every format: a small tmpfs, mounted where that is permitted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dataio.converters.conversion import ConversionOptions, Progress, convert
from dataio.converters.manifest import WORK_FOLDER
from dataio.converters.verification import verify
from dataio.errors import DestinationError
from tests.converters.conversions import every_format

#: Room for two datasets of the source and its work folder, so that the check before the start finds enough.
DISK_BYTES = 8 << 20


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, make_jpeg: Callable[..., bytes]) -> Path:
    """60 JPEGs of 30 kB in 3 classes: 1.9 MB."""
    folder = tmp_path_factory.mktemp("source")
    chance = np.random.default_rng(0)
    for number in range(60):
        file = folder / f"class {number % 3}" / f"{number:02d}.jpg"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(make_jpeg(chance.integers(0, 256, (120, 120, 3), np.uint8)))
    return folder


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of `DISK_BYTES`, gone afterwards; unmounting fails while any file on it is open."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("mounting a file system takes root and the command mount")
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", path], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


def options(to: str) -> ConversionOptions:
    """Options that make six units of the source."""
    return ConversionOptions(to=to, unit_bytes=320_000)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Filling:
    """Another program that takes the room on the disk once a conversion has begun."""

    def __init__(self, disk: Path, leaving: int) -> None:
        self._filler = disk / "filler"
        self._leaving = leaving

    def __call__(self, progress: Progress) -> None:
        if not self._filler.exists():
            self._filler.write_bytes(bytes(shutil.disk_usage(self._filler.parent).free - self._leaving))

    def make_room(self) -> None:
        self._filler.unlink()


@every_format
@pytest.mark.parametrize("leaving", [0, 200_000, 900_000])
def test_a_disk_that_fills_up_stops_the_run_and_with_room_the_next_completes_it_to_the_same_bytes(
    to: str, leaving: int, source: Path, disk: Path, tmp_path: Path
) -> None:
    convert(source, tmp_path / "undisturbed", options(to), workers=2)
    filling = Filling(disk, leaving)
    with pytest.raises(DestinationError, match=r"No space left on device.*make room and run the same command again"):
        convert(source, disk / "out", options(to), workers=2, report=filling)
    assert [path.name for path in (disk / "out").iterdir()] == [WORK_FOLDER]
    with pytest.raises(DestinationError):  # still no room: nothing is lost by trying
        convert(source, disk / "out", options(to), workers=2)
    filling.make_room()
    convert(source, disk / "out", options(to), workers=2)
    assert contents(disk / "out") == contents(tmp_path / "undisturbed")
    assert not verify(disk / "out", source=source).damages


@every_format
def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(to: str, source: Path, disk: Path) -> None:
    Filling(disk, 1_000_000)(Progress(0, 0, 60, 0))
    with pytest.raises(DestinationError, match=r"about 0\.00 GB are needed and 0\.00 GB are free; make room"):
        convert(source, disk / "out", options(to), workers=2)
    assert [path.name for path in disk.iterdir()] == ["filler"]
