"""Sums of several files by several threads: those of their bytes, in order, whatever is among them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dataio.converters import file_sums
from dataio.converters.checksums import crc32c
from dataio.converters.file_sums import sum_files


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Twelve files: empty, small, and of several stripes."""
    for number in range(12):
        size = (0, 1, 70_000, 40_000_001)[number % 4 if number < 8 else 2]
        (tmp_path / f"{number}").write_bytes(bytes([number + 1, 7, 9]) * (size // 3) + b"x" * (size % 3))
    return [tmp_path / f"{number}" for number in range(12)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_sums_are_those_of_the_bytes_in_order_for_any_number_of_threads(files: list[Path], threads: int) -> None:
    counts: list[int] = []
    contents = [path.read_bytes() for path in files]
    expected = [(crc32c(content), len(content)) for content in contents]
    assert list(sum_files(files, threads=threads, report=counts.append)) == expected
    assert sum(counts) == sum(map(len, contents))


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_no_file_has_its_error_in_its_place(files: list[Path], threads: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "2").unlink()
    first, missing, folder, pipe, last = sum_files(
        [files[1], files[2], tmp_path, tmp_path / "pipe", files[4]], threads=threads
    )
    assert isinstance(missing, FileNotFoundError)
    assert isinstance(folder, OSError) and isinstance(pipe, OSError)
    assert folder.strerror == pipe.strerror == "is not a file"
    assert not isinstance(first, OSError) and not isinstance(last, OSError)


def test_a_file_that_cannot_be_read_to_its_end_is_an_error_and_the_next_is_summed(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataio.converters.checksums import part_crc32c

    victim = files[3].stat().st_ino

    def failing(descriptor: int, start: int, *rest: object) -> tuple[int, int]:
        if start and os.fstat(descriptor).st_ino == victim:
            raise OSError(5, "Input/output error")
        return part_crc32c(descriptor, start, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(file_sums, "part_crc32c", failing)
    *_, broken, last = sum_files(files[:5], threads=2)
    assert isinstance(broken, OSError) and broken.strerror == "Input/output error"
    assert last == (crc32c(files[4].read_bytes()), files[4].stat().st_size)


def test_no_file_stays_open_whether_all_are_summed_or_not(files: list[Path]) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    list(sum_files(files, threads=2))
    some = sum_files(files, threads=2)
    next(some)
    some.close()  # type: ignore[attr-defined]
    assert set(Path("/proc/self/fd").iterdir()) == before
