"""LMDB's own library reads, copies and extends the trees that are written here page by page."""

from __future__ import annotations

import os
from pathlib import Path

import lmdb
import pytest

from dataio.converters.lmdb_pages import HEAD_PAGES, PAGE_BYTES, value_head, value_pages, write_tree
from dataio.converters.lmdb_tree import read_tree


@pytest.mark.parametrize("count", [1, 156, 157, 500, 156 * 226 + 1])
def test_lmdb_s_own_library_reads_copies_and_extends_trees_of_any_size(count: int, tmp_path: Path) -> None:
    values = [b"value %d " % number * (1 + number % 3 * 200) for number in range(count)]
    pages, page = [], HEAD_PAGES
    with open(tmp_path / "data.mdb", "w+b", buffering=0) as file:
        for value in values:
            pages.append(page)
            os.pwrite(file.fileno(), value_head(page, len(value)) + value, page * PAGE_BYTES)
            page += value_pages(len(value))
        size = write_tree(file.fileno(), pages, [len(value) for value in values], page)
    assert (tmp_path / "data.mdb").stat().st_size == size
    expected = [(b"%08d" % number, value) for number, value in enumerate(values)]
    assert [entry.key for entry in read_tree(tmp_path / "data.mdb")] == [key for key, _ in expected]
    (tmp_path / "copy").mkdir()
    with lmdb.open(str(tmp_path), map_size=size + (64 << 20)) as environment:
        with environment.begin() as transaction:
            assert list(transaction.cursor()) == expected
            assert all(transaction.get(key) == value for key, value in expected[:: max(1, count // 50)])
        environment.copy(str(tmp_path / "copy"), compact=True)
        with environment.begin(write=True) as transaction:
            transaction.put(b"99999999", b"new")
            transaction.delete(b"00000000")
            transaction.put(b"%08d" % (count - 1), b"x" * 9000)
        with environment.begin() as transaction:
            kept = dict(transaction.cursor())
    changed = dict(expected) | {b"%08d" % (count - 1): b"x" * 9000, b"99999999": b"new"}
    if count > 1:
        del changed[b"00000000"]
    assert kept == changed
    with lmdb.open(str(tmp_path / "copy"), readonly=True, map_size=0) as copy, copy.begin() as transaction:
        assert list(transaction.cursor()) == expected
