"""Verifying and repairing, over every format: each flipped bit is found and named, and mended to the same bytes."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dataio.converters.conversion import ConversionOptions, convert
from dataio.converters.inspection import inspect
from dataio.converters.ledger import Ledger
from dataio.converters.manifest import Manifest
from dataio.converters.registry import WRITABLE, open_data
from dataio.converters.repair import repair
from dataio.converters.verification import describe, verify
from dataio.errors import DataDamaged, DataNotFound, DestinationError, SourceChanged
from tests.converters.conversions import every_format


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, make_jpeg: Callable[..., bytes]) -> Path:
    """A folder with `source` (24 pictures and one bad file in two splits) and a dataset of it in each format."""
    folder = tmp_path_factory.mktemp("made")
    chance = np.random.default_rng(0)
    for number in range(24):
        file = folder / "source" / ("train" if number % 4 else "val") / f"class {number % 3}" / f"{number:02d}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(make_jpeg(chance.integers(0, 256, (40, 50, 3), np.uint8)))
    (folder / "source" / "train" / "class 0" / "bad.jpg").write_bytes(b"no picture")
    for to in WRITABLE:
        convert(folder / "source", folder / to, ConversionOptions(to=to, unit_bytes=30_000))
    return folder


@pytest.fixture
def dataset(to: str, made: Path, tmp_path: Path) -> Path:
    """A copy of the dataset that may be broken."""
    shutil.copytree(made / to, tmp_path / "dataset")
    return tmp_path / "dataset"


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flip(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


@every_format
def test_a_whole_dataset_is_what_was_written(dataset: Path, made: Path) -> None:
    verified = verify(dataset, source=made / "source")
    assert not verified.damages
    assert verified.records == 24


@every_format
def test_any_flipped_bit_in_any_file_is_found_and_the_file_named(dataset: Path) -> None:
    chance = random.Random(0)
    names = [entry.name for entry in Manifest.open(dataset).all_files() if entry.bytes]
    for name in names:
        size = (dataset / name).stat().st_size
        for position in [0, size - 1, *(chance.randrange(size) for _ in range(12))]:
            bit = chance.randrange(8)
            flip(dataset / name, position, bit)
            found = {damage.file for damage in verify(dataset).damages}
            assert found == {name}, (name, position)
            flip(dataset / name, position, bit)
    assert not verify(dataset).damages


@every_format
def test_any_flipped_bit_of_the_manifest_is_found(dataset: Path) -> None:
    size = (dataset / "dataset.json").stat().st_size
    for position in range(0, size, 7):
        flip(dataset / "dataset.json", position)
        with pytest.raises((DataDamaged, DataNotFound)):
            verify(dataset)
        flip(dataset / "dataset.json", position)


@every_format
def test_a_flipped_bit_in_a_picture_names_shard_record_offset_and_source_file(dataset: Path) -> None:
    shard = Manifest.open(dataset).splits["train"].shards[0]
    ledger = Ledger.load(dataset / shard.ledger.name)
    for position in range(len(ledger)):
        row = ledger.rows[position]
        flip(dataset / shard.file.name, int(row["offset"]) + int(row["length"]) - 5)
        (damage,) = verify(dataset).damages
        assert (damage.file, damage.record, damage.offset) == (shard.file.name, position, int(row["offset"]))
        assert damage.source == ledger.path(position)
        assert ledger.path(position).decode() in describe(damage)
        flip(dataset / shard.file.name, int(row["offset"]) + int(row["length"]) - 5)


@every_format
def test_a_cut_tail_and_a_missing_file_are_found(dataset: Path) -> None:
    shard = Manifest.open(dataset).splits["val"].shards[0]
    path = dataset / shard.file.name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    damages = verify(dataset).damages
    assert any(damage.record is not None and damage.source for damage in damages)
    assert any("bytes where" in damage.what for damage in damages)
    path.unlink()
    (damage,) = verify(dataset).damages
    assert (damage.file, damage.what) == (shard.file.name, "is missing")


def test_tfrecord_damage_in_the_frame_around_a_record_is_told_from_damage_in_it(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "tfrecord", tmp_path / "dataset")
    shard = Manifest.open(tmp_path / "dataset").splits["train"].shards[0]
    row = Ledger.load(tmp_path / "dataset" / shard.ledger.name).rows[1]
    flip(tmp_path / "dataset" / shard.file.name, int(row["offset"]) - 12)
    (damage,) = verify(tmp_path / "dataset").damages
    assert (damage.record, damage.what) == (1, "the length in front of the record is wrong")


@every_format
def test_a_source_file_that_was_edited_is_named(dataset: Path, made: Path, tmp_path: Path, to: str) -> None:
    shutil.copytree(made / "source", tmp_path / "source")
    victim = tmp_path / "source" / "train" / "class 1" / "01.jpg"
    victim.write_bytes(victim.read_bytes() + b"tail")
    (damage,) = verify(dataset, source=tmp_path / "source").damages
    assert damage.source == b"train/class 1/01.jpg"
    victim.unlink()
    (damage,) = verify(dataset, source=tmp_path / "source").damages
    assert "cannot be read" in damage.what


@every_format
def test_a_file_that_came_to_the_source_is_noticed(dataset: Path, made: Path, tmp_path: Path, to: str) -> None:
    shutil.copytree(made / "source", tmp_path / "source")
    shutil.copy(
        tmp_path / "source" / "train" / "class 1" / "01.jpg", tmp_path / "source" / "train" / "class 1" / "new.jpg"
    )
    (damage,) = verify(dataset, source=tmp_path / "source").damages
    assert "holds 26 files" in damage.what and "where 25" in damage.what


@every_format
def test_repair_mends_every_kind_of_damage_to_the_same_bytes_and_touches_nothing_else(
    dataset: Path, made: Path
) -> None:
    whole = everything(dataset)
    names = [entry.name for entry in Manifest.open(dataset).all_files()]
    for name in names:
        if whole[name]:
            flip(dataset / name, len(whole[name]) // 2)
        else:
            (dataset / name).unlink()
        others = {other: (dataset / other).stat().st_mtime_ns for other in names if other != name}
        repaired = repair(dataset, made / "source")
        assert repaired.files == (name,)
        assert everything(dataset) == whole
        assert {other: (dataset / other).stat().st_mtime_ns for other in others} == others


@every_format
def test_repair_mends_several_files_at_once(dataset: Path, made: Path) -> None:
    whole = everything(dataset)
    for name in whole:
        if name != "dataset.json":
            (dataset / name).unlink()
    assert set(repair(dataset, made / "source").files) == set(whole) - {"dataset.json"}
    assert everything(dataset) == whole
    assert repair(dataset, made / "source").files == ()


@every_format
def test_repair_refuses_a_source_that_is_not_the_one(dataset: Path, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "source", tmp_path / "source")
    (tmp_path / "source" / "train" / "class 1" / "01.jpg").unlink()
    shard = Manifest.open(dataset).splits["val"].shards[0]
    flip(dataset / shard.file.name, 100)
    broken = everything(dataset)
    with pytest.raises(SourceChanged, match="is not the source of"):
        repair(dataset, tmp_path / "source")
    assert {name: content for name, content in everything(dataset).items() if "partial" not in name} == broken


@every_format
def test_repair_refuses_a_source_whose_bytes_differ_and_replaces_nothing(
    dataset: Path, made: Path, tmp_path: Path
) -> None:
    shutil.copytree(made / "source", tmp_path / "source")
    for victim in (tmp_path / "source").rglob("*.jpg"):
        content = bytearray(victim.read_bytes())
        content[-3] ^= 1
        victim.write_bytes(content)
    shard = Manifest.open(dataset).splits["val"].shards[0]
    flip(dataset / shard.file.name, 100)
    broken = (dataset / shard.file.name).read_bytes()
    with pytest.raises(DataDamaged, match="written anew it is not what it was"):
        repair(dataset, tmp_path / "source")
    assert (dataset / shard.file.name).read_bytes() == broken


def test_a_manifest_that_points_outside_its_folder_is_refused(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "hdf5", tmp_path / "dataset")
    manifest = Manifest.open(tmp_path / "dataset")
    outside = manifest.files[0].replace(name="../../etc/passwd")
    (tmp_path / "dataset" / "dataset.json").write_text(manifest.replace(files=(outside,)).sealed().to_json())
    with pytest.raises(DataDamaged, match="names a file outside the dataset"):
        verify(tmp_path / "dataset")


@every_format
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_whatever_takes_a_files_place_is_damage_and_is_replaced(dataset: Path, made: Path, kind: str) -> None:
    whole = everything(dataset)
    names = [entry.name for entry in Manifest.open(dataset).all_files()]
    for name in names:
        (dataset / name).unlink()
        (dataset / name).mkdir() if kind == "folder" else os.mkfifo(dataset / name)
    assert {(damage.file, damage.what) for damage in verify(dataset).damages} == {
        (name, "is not a file") for name in names
    }
    assert set(repair(dataset, made / "source").files) == set(names)
    assert everything(dataset) == whole


@every_format
def test_a_folder_with_something_in_it_is_not_removed_by_repair(dataset: Path, made: Path) -> None:
    shard = Manifest.open(dataset).splits["val"].shards[0].file.name
    (dataset / shard).unlink()
    (dataset / shard).mkdir()
    (dataset / shard / "notes.txt").write_text("mine")
    with pytest.raises(DestinationError, match="move away what is there"):
        repair(dataset, made / "source")
    assert (dataset / shard / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_manifest_that_is_no_file_is_damage(tmp_path: Path, kind: str) -> None:
    manifest = tmp_path / "dataset.json"
    manifest.mkdir() if kind == "folder" else os.mkfifo(manifest)
    for look in (verify, open_data, inspect):
        with pytest.raises(DataDamaged, match=r"dataset\.json: is not a file"):
            look(tmp_path)
