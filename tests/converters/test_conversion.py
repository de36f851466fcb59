"""What a conversion stores, over every format, and what its options change."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dataio.converters.conversion import ConversionOptions, Converted, convert
from dataio.converters.ledger import Ledger
from dataio.converters.manifest import Manifest
from dataio.converters.registry import get_writable_format
from dataio.errors import DataioError
from tests.converters.conversions import every_format, options, stored


@every_format
def test_every_file_is_stored_byte_for_byte_with_its_class_and_rank(to: str, source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", options(to))
    files = sorted(os.fsencode(path.relative_to(source)) for path in source.rglob("*.jpg"))
    expected = {
        path: (int(path[6:7]), rank, hashlib.sha256((source / os.fsdecode(path)).read_bytes()).digest())
        for rank, path in enumerate(files)
    }
    assert stored(tmp_path / "out") == expected


def test_another_seed_is_another_order_and_no_shuffle_is_path_order(source: Path, tmp_path: Path) -> None:
    def order(name: str, **changes: object) -> list[int]:
        convert(source, tmp_path / name, ConversionOptions(to="tfrecord", **changes))
        (shard,) = Manifest.open(tmp_path / name).splits["train"].shards
        return [int(index) for index in Ledger.load(tmp_path / name / shard.ledger.name).rows["index"]]

    assert order("plain", shuffle=False) == list(range(120))
    first, second = order("first", seed=1), order("second", seed=2)
    assert first != second and sorted(first) == sorted(second) == list(range(120))


@every_format
def test_names_are_bytes_from_end_to_end(to: str, make_jpeg: Callable[..., bytes], tmp_path: Path) -> None:
    names = ["ä.jpg", "two words.JPG", "line\nbreak.jpeg", "many.dots.in.it.jpg", "x" * 251 + ".jpg", "bad\udcff.jfif"]
    for folder in ("a", "b"):
        (tmp_path / "source" / folder).mkdir(parents=True)
        for name in names:
            (tmp_path / "source" / folder / name).write_bytes(make_jpeg())
    convert(tmp_path / "source", tmp_path / "out", options(to))
    assert set(stored(tmp_path / "out")) == {os.fsencode(f"{folder}/{name}") for folder in "ab" for name in names}


@every_format
def test_a_line_break_in_a_class_name_shifts_no_label(to: str, make_jpeg: Callable[..., bytes], tmp_path: Path) -> None:
    for name in ("a", "b\nc", "d"):
        (tmp_path / "source" / name).mkdir(parents=True)
        (tmp_path / "source" / name / "1.jpg").write_bytes(make_jpeg())
    convert(tmp_path / "source", tmp_path / "out", options(to))
    assert Manifest.open(tmp_path / "out").class_names == ("a", "b\nc", "d")
    if to == "tfrecord":
        assert len((tmp_path / "out" / "label.labels.txt").read_text().splitlines()) == 3


@pytest.mark.parametrize("to", ["tfrecord", "hdf5"])
def test_no_shard_is_empty_when_more_are_asked_than_there_are_pictures(to: str, source: Path, tmp_path: Path) -> None:
    few = tmp_path / "few" / "a"
    few.mkdir(parents=True)
    for path in sorted(source.rglob("*.jpg"))[:3]:
        shutil.copy(path, few)
    convert(tmp_path / "few", tmp_path / "out", ConversionOptions(to=to, shards=10))
    assert [shard.records for shard in Manifest.open(tmp_path / "out").splits["train"].shards] == [1, 1, 1]


@pytest.mark.parametrize("shards", [2, 5, 7, 13])
def test_shards_are_balanced_by_bytes_within_one_record(shards: int, source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", ConversionOptions(to="tfrecord", shards=shards))
    manifest = Manifest.open(tmp_path / "out")
    largest = max(path.stat().st_size for path in source.rglob("*.jpg"))
    sizes = [shard.file.bytes for shard in manifest.splits["train"].shards]
    assert len(sizes) == shards
    mean = sum(sizes) / shards
    assert all(abs(size - mean) <= max(0.05 * mean, largest + 400) for size in sizes), sizes


def test_the_manifest_says_what_is_in_each_class(source: Path, tmp_path: Path) -> None:
    converted: Converted = convert(source, tmp_path / "out", options("hdf5"))
    split = converted.manifest.splits["train"]
    assert [entry.records for entry in split.classes] == [30] * 4
    for label, entry in enumerate(split.classes):
        assert entry.bytes == sum(path.stat().st_size for path in (source / f"class {label}").iterdir())


def test_every_error_of_a_conversion_is_one_of_ours(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataioError, match="does not exist"):
        convert(tmp_path / "nowhere", tmp_path / "out", options("tfrecord"))
    assert get_writable_format("hdf5").name == "hdf5"
