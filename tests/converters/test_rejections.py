"""Files that cannot be stored as they are, over every format: what is said of them, and when they end a run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dataio.converters.conversion import ConversionOptions, convert
from dataio.converters.manifest import Manifest
from dataio.converters.verification import verify
from dataio.errors import LimitExceeded, SourceError
from tests.converters.conversions import every_format, options, stored
from tests.converters.odd_files import OddFile


def outcomes(folder: Path) -> dict[str, tuple[str, str]]:
    lines = (folder / "outcomes.jsonl").read_text().splitlines()
    return {line["path"]: (line["outcome"], line["reason"]) for line in map(json.loads, lines)}


@every_format
def test_odd_files_get_the_outcome_that_their_content_deserves(
    to: str, odd_files: tuple[OddFile, ...], tmp_path: Path
) -> None:
    for file in odd_files:
        path = tmp_path / "source" / file.outcome / f"{file.name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
    convert(tmp_path / "source", tmp_path / "out", options(to))
    split = Manifest.open(tmp_path / "out").splits["train"]
    assert split.seen == split.records + split.rejected == len(odd_files)
    told = outcomes(tmp_path / "out")
    for file in odd_files:
        name = f"{file.outcome}/{file.name}.jpg"
        fate = {"accept": None, "reject": "rejected", "transcode": "transcoded"}[file.outcome]
        assert told.get(name) == (None if fate is None else (fate, file.reason)), name
    kept = stored(tmp_path / "out")
    for file in odd_files:
        if file.outcome == "accept":
            assert kept[f"accept/{file.name}.jpg".encode()][2] == hashlib.sha256(file.content).digest(), file


@every_format
def test_a_file_too_large_for_a_record_is_rejected_without_being_read(
    to: str, source: Path, tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    shutil.copytree(source, tmp_path / "source")
    huge = tmp_path / "source" / "class 0" / "huge.jpg"
    huge.write_bytes(make_jpeg())
    os.truncate(huge, (1 << 30) + 1)  # sparse: it takes no space on the disk
    converted = convert(tmp_path / "source", tmp_path / "out", ConversionOptions(to=to), workers=1)
    split = converted.manifest.splits["train"]
    assert (split.records, split.rejected) == (120, 1)
    (line,) = (tmp_path / "out" / "outcomes.jsonl").read_text().splitlines()
    assert json.loads(line) == {"path": "class 0/huge.jpg", "outcome": "rejected", "reason": "unreadable"}
    assert not verify(tmp_path / "out", source=tmp_path / "source").damages


@every_format
def test_units_whose_every_file_is_rejected_leave_no_shard(
    to: str, make_jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "source" / "a"
    folder.mkdir(parents=True)
    for number in range(12):
        (folder / f"{number:02d}.jpg").write_bytes(make_jpeg() if number == 5 else b"x" * 4000)
    made = ConversionOptions(to=to, shuffle=False, unit_bytes=8000)
    convert(tmp_path / "source", tmp_path / "out", made)
    split = Manifest.open(tmp_path / "out").splits["train"]
    assert (split.records, split.rejected, len(split.shards)) == (1, 11, 1)
    assert "00000-of-00001" in split.shards[0].ledger.name
    assert not verify(tmp_path / "out").damages


@every_format
def test_a_source_of_rejected_files_alone_is_an_error_that_names_one(to: str, tmp_path: Path) -> None:
    (tmp_path / "source" / "a").mkdir(parents=True)
    (tmp_path / "source" / "a" / "1.jpg").write_bytes(b"no picture")
    with pytest.raises(SourceError, match=r"all 1 files of split train were rejected.*a/1\.jpg"):
        convert(tmp_path / "source", tmp_path / "out", options(to))
    assert not (tmp_path / "out" / "dataset.json").exists()


@every_format
def test_too_many_rejected_files_publish_nothing_and_a_higher_limit_goes_on(
    to: str, source: Path, tmp_path: Path
) -> None:
    shutil.copytree(source, tmp_path / "source")
    (tmp_path / "source" / "class 0" / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(LimitExceeded, match="1 of 121"):
        convert(tmp_path / "source", tmp_path / "out", options(to), max_bad=0.005)
    assert not (tmp_path / "out" / "dataset.json").exists()
    converted = convert(tmp_path / "source", tmp_path / "out", options(to), max_bad=0.01)
    assert converted.resumed_units > 0
    assert Manifest.open(tmp_path / "out").splits["train"].rejected == 1


@every_format
def test_failing_on_bad_files_stops_at_the_first_and_names_it(to: str, source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "source")
    (tmp_path / "source" / "class 0" / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(SourceError, match=r"class 0/bad\.jpg cannot be stored: not_an_image"):
        convert(tmp_path / "source", tmp_path / "out", options(to), fail_on_bad=True)
