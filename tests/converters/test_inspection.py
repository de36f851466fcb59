"""Inspecting and forecasting: answers in a moment, right where they are exact and honest where they are not."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dataio.converters import folder_sample
from dataio.converters.conversion import ConversionOptions, convert
from dataio.converters.folder_sample import sample_folder
from dataio.converters.forecast import forecast
from dataio.converters.inspection import inspect
from dataio.errors import DataNotFound, DestinationError, SourceError
from tests.converters.conversions import every_format


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, make_jpeg: Callable[..., bytes]) -> Path:
    """80 pictures in 4 classes, one of them progressive and one gray, and a bad file."""
    folder = tmp_path_factory.mktemp("source")
    chance = np.random.default_rng(0)
    for number in range(80):
        file = folder / f"class {number % 4}" / f"{number:02d}.jpg"
        file.parent.mkdir(exist_ok=True)
        pixels = chance.integers(0, 256, (100, 100 + number, 3), np.uint8)
        file.write_bytes(make_jpeg(pixels[..., 0] if number == 1 else pixels, progressive=number == 0))
    (folder / "class 0" / "bad.jpg").write_bytes(b"no picture")
    return folder


@every_format
def test_a_dataset_is_described_from_its_manifest_and_ledgers(to: str, source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", ConversionOptions(to=to))
    found = inspect(tmp_path / "out")
    assert (found.format, found.encoding, found.classes) == (to, "jpeg", tuple(f"class {n}" for n in range(4)))
    assert found.splits["train"].records == 80
    assert found.pictures is not None and found.pictures.looked_at == 80
    assert found.pictures.height is not None and found.pictures.width is not None
    assert (found.pictures.height.min, found.pictures.width.min, found.pictures.width.max) == (100, 100, 179)
    assert found.pictures.headers == 80
    assert found.pictures.progressive == found.pictures.gray == 1 / 80
    assert found.sampled is None
    assert found.problems == (
        "split train: 1 of 81 files were rejected when it was converted; outcomes.jsonl names them",
    )


@every_format
def test_missing_and_cut_files_are_problems(to: str, source: Path, tmp_path: Path) -> None:
    converted = convert(source, tmp_path / "out", ConversionOptions(to=to))
    shard = converted.manifest.splits["train"].shards[0]
    path = tmp_path / "out" / shard.file.name
    path.write_bytes(path.read_bytes()[:-5])
    (tmp_path / "out" / "outcomes.jsonl").unlink()
    problems = inspect(tmp_path / "out").problems
    assert any(shard.file.name in problem and "were written" in problem for problem in problems)
    assert any("outcomes.jsonl" in problem and "No such file" in problem for problem in problems)


def test_a_small_folder_is_counted_and_its_problems_are_told(source: Path) -> None:
    found = inspect(source)
    assert (found.format, found.splits["train"].records) == ("folder", 81)
    assert found.splits["train"].bytes == sum(path.stat().st_size for path in source.rglob("*.jpg"))
    assert found.sampled is None or "counts are exact" in found.sampled


def test_a_large_folder_is_estimated_and_says_so(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(folder_sample, "_LIST_SECONDS", 2.5)
    sample = sample_folder(source, clock=lambda: float(next(ticks)))
    assert not sample.complete
    assert sample.classes_listed < 4
    assert 80 <= sample.splits["train"].records <= 84  # 20 or 21 files in each of the 4 classes


def test_a_folder_without_pictures_is_an_error_that_names_the_layout(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(SourceError, match="expected"):
        inspect(tmp_path)


def test_an_unfinished_conversion_says_so(tmp_path: Path) -> None:
    (tmp_path / ".dataio-partial").mkdir()
    with pytest.raises(DataNotFound, match="an unfinished conversion"):
        inspect(tmp_path)


def test_inspecting_imports_no_tensorflow(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", ConversionOptions(to="hdf5"))
    program = (
        "import sys; from pathlib import Path; from dataio.converters.inspection import inspect\n"
        "for path in sys.argv[1:]: inspect(Path(path))\n"
        "assert not {'tensorflow', 'h5py', 'lmdb', 'PIL'} & set(sys.modules)\n"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run(
        [sys.executable, "-c", program, str(source), str(tmp_path / "out")], check=True, env={"PYTHONPATH": str(root)}
    )


@every_format
def test_a_forecast_is_right_about_records_and_bytes_and_leaves_nothing(to: str, source: Path, tmp_path: Path) -> None:
    options = ConversionOptions(to=to)
    found = forecast(source, tmp_path / "out", options, sample_seconds=0.2)
    assert not list(tmp_path.iterdir())
    converted = convert(source, tmp_path / "out", options)
    size = sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert found.files == 81
    assert abs(found.records - converted.manifest.splits["train"].records) <= 1
    assert abs(found.bytes - size) <= 0.05 * size
    assert found.shards == len(converted.manifest.splits["train"].shards)
    assert found.seconds > 0


def test_a_forecast_of_smaller_pictures_knows_what_they_take(source: Path, tmp_path: Path) -> None:
    from dataio.converters.picture import ImageOptions

    options = ConversionOptions(to="tfrecord", image=ImageOptions(encoding="raw", size=(32, 32)))
    found = forecast(source, tmp_path / "out", options, sample_seconds=0.2)
    convert(source, tmp_path / "out", options)
    size = sum(path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert abs(found.bytes - size) <= 0.05 * size


def test_a_forecast_refuses_what_the_conversion_would_refuse(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", ConversionOptions(to="tfrecord"))
    with pytest.raises(DestinationError, match="finished dataset"):
        forecast(source, tmp_path / "out", ConversionOptions(to="tfrecord"))
    shutil.rmtree(tmp_path / "out")


def test_pipes_and_devices_are_neither_opened_nor_counted(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "source")
    os.mkfifo(tmp_path / "source" / "class 0" / "pipe.jpg")
    (tmp_path / "source" / "class 0" / "endless.jpg").symlink_to("/dev/zero")
    (tmp_path / "source" / "class 0" / "nowhere.jpg").symlink_to("/nonexistent")
    found = inspect(tmp_path / "source")
    assert found.splits["train"].records == 82
    assert any("would be rejected: unreadable" in problem for problem in found.problems)


def test_a_pipe_that_takes_a_files_place_while_it_is_inspected_does_not_hang(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(source, tmp_path / "source")
    os.mkfifo(tmp_path / "source" / "class 0" / "pipe.jpg")
    monkeypatch.setattr(folder_sample, "_candidate_bytes", lambda entry: 1000)
    assert sample_folder(tmp_path / "source").rejected["unreadable"] == 1


def test_a_file_too_large_for_any_record_is_told_and_not_read(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_jpeg: Callable[..., bytes]
) -> None:
    (tmp_path / "a").mkdir()
    for name, size in (("huge", 3 << 30), ("large", 1 << 30)):
        (tmp_path / "a" / f"{name}.jpg").write_bytes(make_jpeg())
        os.truncate(tmp_path / "a" / f"{name}.jpg", size)
    reads: list[int] = []
    monkeypatch.setattr("dataio.converters.writing.os.read", lambda descriptor, size: reads.append(size))
    sample = sample_folder(tmp_path)
    assert (sample.looked_at, sample.rejected["unreadable"]) == (1, 1)
    assert not reads
