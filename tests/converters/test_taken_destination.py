"""Destinations that are taken or too small: refused, or replaced only by something whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dataio.converters.conversion import Progress, convert
from dataio.converters.manifest import WORK_FOLDER, Manifest
from dataio.converters.verification import verify
from dataio.errors import DestinationError, LimitExceeded
from tests.converters.conversions import contents, every_format, options


@every_format
def test_a_second_run_into_the_same_folder_is_refused(to: str, source: Path, tmp_path: Path) -> None:
    def again(progress: Progress) -> None:
        with pytest.raises(DestinationError, match="another dataio is writing there"):
            convert(source, tmp_path / "out", options(to))

    convert(source, tmp_path / "out", options(to), report=again)
    assert not verify(tmp_path / "out").damages


@every_format
def test_a_finished_dataset_is_refused_and_stays_until_its_replacement_is_whole(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    out = tmp_path / "out"
    convert(source, out, options(to))
    with pytest.raises(DestinationError, match=r"finished dataset.*--overwrite"):
        convert(source, out, options(to))

    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.files == progress.total_files:
            raise Stop

    with pytest.raises(Stop):
        convert(source, out, options(to, units=2), overwrite=True, report=stop)
    assert {name: value for name, value in contents(out).items() if WORK_FOLDER not in name} == reference[to]
    convert(source, out, options(to, units=2), overwrite=True)
    assert not verify(out).damages
    names = {entry.name for entry in Manifest.open(out).all_files()} | {"dataset.json"}
    assert set(contents(out)) == names  # nothing of the old one is left


@every_format
def test_another_format_or_seed_is_not_mixed_into_an_unfinished_run(to: str, source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "source"
    shutil.copytree(source, copy)
    (copy / "class 1" / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(LimitExceeded):
        convert(copy, tmp_path / "out", options(to), max_bad=0)
    with pytest.raises(DestinationError, match="other options"):
        convert(copy, tmp_path / "out", options(to).replace(seed=5))


def test_a_destination_that_is_something_else_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for out, told in (
        (tmp_path / "full", "not empty"),
        (tmp_path / "file", "not a folder"),
        (source / "out", "inside the source"),
    ):
        with pytest.raises(DestinationError, match=told):
            convert(source, out, options("tfrecord"), overwrite=True)
    assert (tmp_path / "full" / "thesis.txt").read_text() == "precious"


def test_too_little_space_is_refused_before_anything_is_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(DestinationError, match=r"are needed and 0.00 GB are free"):
        convert(source, tmp_path / "out", options("tfrecord"))
    assert not (tmp_path / "out").exists()
