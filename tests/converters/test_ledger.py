"""Ledgers of more shards than a process may have files open."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dataio.converters.conversion import ConversionOptions, convert
from dataio.converters.format import stored_image
from dataio.converters.formats.example import StoredRecord
from dataio.converters.ledger import Ledger, LedgerBuilder, join_ledgers
from dataio.converters.mapping import map_file
from dataio.converters.registry import WRITABLE, open_data
from dataio.converters.stored import LedgerData, StoredData, most_open
from dataio.errors import DataDamaged

#: More shards than the lowered limit allows files.
SHARDS = 160


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@contextmanager
def limit_of_open_files(soft: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def ledger_with(path: Path, number: int) -> Path:
    builder = LedgerBuilder()
    builder.add(StoredRecord(b"picture", number, b"class/%d.jpg" % number, number, 1, 4, 4), offset=8, length=7, crc=1)
    builder.save(path)
    return path


@pytest.mark.parametrize(("soft", "expected"), [(20, 5), (256, 64), (1024, 256), (1 << 19, 256), (2, 1)])
def test_a_quarter_of_the_files_that_may_be_open_are_shards_and_256_at_most(
    soft: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, soft))
    assert most_open() == expected


def test_without_a_limit_256_shards_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert most_open() == 256


@pytest.mark.parametrize("to", WRITABLE)
def test_a_dataset_of_more_shards_than_files_may_be_open_is_made_and_read(
    to: str, tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    content = make_jpeg(np.zeros((8, 8, 3), np.uint8))
    (tmp_path / "source" / "class").mkdir(parents=True)
    for number in range(SHARDS):
        (tmp_path / "source" / "class" / f"{number}.jpg").write_bytes(content)
    gc.collect()
    before = open_files()
    with limit_of_open_files(before + 64):
        shards = None if to == "lmdb" else SHARDS
        unit_bytes = len(content)  # a picture is a batch
        convert(tmp_path / "source", tmp_path / "out", ConversionOptions(to=to, shards=shards, unit_bytes=unit_bytes))
        data = open_data(tmp_path / "out")
        assert isinstance(data, StoredData)
        entries = data.manifest.splits["train"].shards
        assert len(entries) == (1 if to == "lmdb" else SHARDS)
        ledgers = [data.ledger(entry) for entry in entries]
        for entry, ledger in zip(entries, ledgers, strict=True):
            images = np.empty(len(ledger), object)
            positions = list(range(len(ledger)))
            if isinstance(data, LedgerData):
                data._read_images(entry.file, ledger, positions, positions, images)
            else:
                descriptor = os.open(data.path / entry.file.name, os.O_RDONLY)
                images[:] = [stored_image(descriptor, data.path, ledger, position) for position in positions]
                os.close(descriptor)
            assert all(image == content for image in images)
        assert open_files() <= before + most_open()


def test_ledgers_of_more_parts_than_files_may_be_open_are_joined(tmp_path: Path) -> None:
    parts = [ledger_with(tmp_path / f"{number}", number) for number in range(SHARDS)]
    with limit_of_open_files(open_files() + 8):
        join_ledgers(parts, tmp_path / "joined", offsets=np.arange(SHARDS, dtype=np.int64) * 100)
    joined = Ledger.load(tmp_path / "joined")
    assert joined.rows["offset"].tolist() == [100 * number for number in range(SHARDS)]
    assert joined.rows["label"].tolist() == list(range(SHARDS))
    assert [joined.path(position) for position in range(SHARDS)] == [
        b"class/%d.jpg" % number for number in range(SHARDS)
    ]


def test_a_ledger_that_is_loaded_keeps_no_file_open_and_its_rows_outlive_it(tmp_path: Path) -> None:
    before = open_files()
    ledger = Ledger.load(ledger_with(tmp_path / "ledger", 5))
    rows = ledger.rows
    assert open_files() == before
    del ledger
    gc.collect()
    assert (rows["label"].tolist(), rows["index"].tolist()) == ([5], [5])
    with pytest.raises(ValueError, match="read-only"):
        rows["label"] = 0


def test_memory_is_given_back_with_the_last_array_on_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5000)
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    array = map_file(descriptor, 5000)
    os.close(descriptor)
    part = array[4990:]
    del array
    assert part.tobytes() == b"x" * 10
    assert str(tmp_path / "file") in Path("/proc/self/maps").read_text()
    del part
    gc.collect()
    assert str(tmp_path / "file") not in Path("/proc/self/maps").read_text()


def test_what_cannot_be_mapped_is_an_error_of_the_system(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="No such device"):
        map_file(descriptor, 10)
    os.close(descriptor)


@pytest.mark.parametrize("size", [0, 10, 24, 90])
def test_a_cut_ledger_is_refused(size: int, tmp_path: Path) -> None:
    content = ledger_with(tmp_path / "ledger", 1).read_bytes()
    (tmp_path / "ledger").write_bytes(content[:size])
    with pytest.raises(DataDamaged, match=f"not a whole ledger .{size} bytes"):
        Ledger.load(tmp_path / "ledger")
