"""The journal says nothing before the disk has what it says, and nothing after a line that failed."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from dataio.converters.journal import Journal


def lines(path: Path) -> list[object]:
    journal = Journal(path)
    try:
        return [values["gathered"] for values in journal.lines()]
    finally:
        journal.close()


def test_a_line_is_added_once_what_it_says_is_on_the_disk_and_then_the_rest_is_done(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    synced = threading.Event()
    seen: list[bytes] = []
    journal.append_after(synced.wait, lambda: seen.append(path.read_bytes()), gathered=1)
    assert path.read_bytes() == b""
    assert not seen
    synced.set()
    journal.settle()
    assert seen == [b'{"gathered": 1}\n']
    journal.close()


def test_lines_that_wait_keep_their_order_and_are_added_before_the_journal_closes(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    for number in range(30):
        journal.append_after(lambda: None, lambda: None, gathered=number)
    journal.close()
    assert lines(tmp_path / "journal") == list(range(30))


def test_after_a_line_that_failed_none_is_added_and_nothing_removed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    may_fail = threading.Event()
    removed: list[int] = []

    def fail() -> None:
        may_fail.wait()
        raise OSError(errno.EIO, "the disk is broken")

    journal.append_after(lambda: None, lambda: removed.append(0), gathered=0)
    journal.append_after(fail, lambda: removed.append(1), gathered=1)
    journal.append_after(lambda: None, lambda: removed.append(2), gathered=2)
    may_fail.set()
    with pytest.raises(OSError, match="the disk is broken"):
        journal.settle()
    journal.close()
    assert removed == [0]
    assert lines(tmp_path / "journal") == [0]


def test_no_more_than_a_few_lines_wait(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    may_go = threading.Event()
    threading.Timer(0.2, may_go.set).start()
    for number in range(9):
        journal.append_after(may_go.wait, lambda: None, gathered=number)
    assert may_go.is_set()
    journal.close()
