"""The disk under a cache: what it is and how fast it gives bytes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataio.bench import cache_disk
from dataio.bench.cache_disk import FILE_BYTES_PER_SECOND, cache_bytes_per_second, lies_in_memory


def test_a_disk_is_told_from_a_folder_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "dataio.bench.storage._mount", lambda path: ("tmpfs", "tmpfs") if "memory" in path.parts else ("ext4", "/dev/x")
    )
    assert lies_in_memory(tmp_path / "memory" / "not yet there")
    assert not lies_in_memory(tmp_path / "disk")


def test_the_rate_is_that_of_reading_a_file_that_the_page_cache_forgot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forgotten: list[Path] = []
    monkeypatch.setattr(cache_disk, "forget_pages", lambda path: forgotten.append(path) is None)
    times = iter([10.0, 10.5])
    assert cache_bytes_per_second(tmp_path, probe_bytes=4 << 20, clock=lambda: next(times)) == (4 << 20) / 0.5
    assert [path.parent for path in forgotten] == [tmp_path]
    assert list(tmp_path.iterdir()) == []


def test_no_disk_gives_more_than_the_one_thread_that_reads_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cache_disk, "forget_pages", lambda path: True)
    assert cache_bytes_per_second(tmp_path, probe_bytes=4 << 20, clock=lambda: 0.0) == FILE_BYTES_PER_SECOND


def test_where_nothing_can_be_written_or_forgotten_there_is_no_rate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cache_bytes_per_second(tmp_path / "missing") == 0.0
    monkeypatch.setattr(cache_disk, "forget_pages", lambda path: False)
    assert cache_bytes_per_second(tmp_path, probe_bytes=1 << 20) == 0.0
