"""The same source gives the same bytes, over every format."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from dataio.converters.conversion import convert
from tests.converters.conversions import contents, every_format, options


@every_format
@pytest.mark.parametrize("workers", [2, 7])
def test_the_output_is_the_same_bytes_for_any_number_of_workers(
    to: str, workers: int, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    convert(source, tmp_path / "out", options(to), workers=workers)
    assert contents(tmp_path / "out") == reference[to]


@every_format
def test_the_output_is_the_same_bytes_for_a_copy_whose_folders_list_in_another_order(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    copy = tmp_path / "copy"
    for path in sorted(source.rglob("*.jpg"), key=lambda path: hashlib.md5(str(path.name).encode()).digest()):
        target = copy / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    convert(copy, tmp_path / "out", options(to))
    assert contents(tmp_path / "out") == reference[to]
