"""LMDB's own library reads what is written, and what the store checks before it is taken for whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import lmdb
import pytest

from dataio.converters.conversion import ConversionOptions, Progress, convert
from dataio.converters.formats import lmdb as lmdb_format
from dataio.converters.formats.example import parse_record
from dataio.converters.lmdb_pages import write_tree
from dataio.converters.manifest import WORK_FOLDER
from dataio.errors import DataDamaged
from tests.converters.conversions import options, stored


def test_lmdb_s_own_library_reads_the_environment_and_every_key_is_a_sample(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", options("lmdb"))
    path = tmp_path / "out" / "train.lmdb"
    size = (path / "data.mdb").stat().st_size
    with lmdb.open(str(path), readonly=True, lock=False, map_size=0) as environment, environment.begin() as transaction:
        entries = list(transaction.cursor())
        info, stat = environment.info(), environment.stat()
    assert [key for key, _ in entries] == [b"%08d" % number for number in range(120)]
    records = {record.path: record for record in (parse_record(value) for _, value in entries)}
    assert {path: hashlib.sha256(record.image).digest() for path, record in records.items()} == {
        path: digest for path, (_, _, digest) in stored(tmp_path / "out").items()
    }
    used = (info["last_pgno"] + 1) * stat["psize"]
    assert info["map_size"] == size and used <= size <= 1.05 * used


@pytest.mark.parametrize("lost", [1, 3])
def test_entries_that_lmdb_does_not_count_are_an_error_and_nothing_is_published(
    lost: int, tmp_path: Path, make_jpeg: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def losing(descriptor: int, pages: Sequence[int], lengths: Sequence[int], page: int) -> int:
        return write_tree(descriptor, pages[:-lost], lengths[:-lost], page)

    (tmp_path / "source" / "a").mkdir(parents=True)
    for number in range(5):
        (tmp_path / "source" / "a" / f"{number}.jpg").write_bytes(make_jpeg())
    monkeypatch.setattr(lmdb_format, "write_tree", losing)
    with pytest.raises(DataDamaged, match=f"holds {5 - lost} entries where 5 were put in"):
        convert(tmp_path / "source", tmp_path / "out", ConversionOptions(to="lmdb"), workers=1)
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_a_run_that_fails_leaves_no_file_open(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> None:
    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.files > 10:
            raise Stop

    (tmp_path / "source" / "a").mkdir(parents=True)
    for number in range(20):
        (tmp_path / "source" / "a" / f"{number}.jpg").write_bytes(make_jpeg())
    with pytest.raises(Stop):
        convert(
            tmp_path / "source", tmp_path / "out", ConversionOptions(to="lmdb", unit_bytes=4000), workers=1, report=stop
        )
    assert (tmp_path / "out" / WORK_FOLDER / "train.store" / "data.mdb").stat().st_size > 0
    targets = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    assert not [target for target in targets if target.startswith(str(tmp_path))]
