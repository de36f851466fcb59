"""Which plans a search may try."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dataio.bench.candidates import decoded_once
from dataio.data import Split
from dataio.recipe import Recipe

from .test_bounds import Pictures

RECIPE = Recipe(image_size=32, batch_size=4, dtype="uint8")
#: Memory that holds a pipeline of these pictures, and not what is cached of a hundred thousand.
LITTLE = 10**9


def many() -> Pictures:
    data = Pictures()
    data.splits = {"train": Split(100_000, 1, 100_000 * 20_000)}
    return data


def caches(data: Pictures, *, free_bytes: int, disk: Callable[[], float], cores: int = 2) -> list[str]:
    plans = decoded_once(data, RECIPE, cores, free_bytes=free_bytes, disk_bytes_per_second=disk)
    return [plan.cache for plan in plans]


@pytest.fixture(autouse=True)
def roomy_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATAIO_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("dataio.bench.footprint.lies_in_memory", lambda folder: False)
    monkeypatch.setattr("dataio.bench.footprint.cache_room_bytes", lambda folder: 10**12)


def never() -> float:
    raise AssertionError("the disk was measured although the answer was known")


def test_pictures_that_fit_into_memory_are_kept_there_and_the_disk_is_not_touched() -> None:
    assert caches(Pictures(), free_bytes=10**10, disk=never) == ["decoded"]


def test_pictures_that_do_not_fit_may_lie_on_a_disk_that_is_faster_than_decoding() -> None:
    assert caches(many(), free_bytes=LITTLE, disk=lambda: 1.5e9) == ["decoded", "decoded_disk"]


def test_a_disk_that_is_slower_than_decoding_on_all_cores_is_not_proposed() -> None:
    assert caches(many(), free_bytes=LITTLE, disk=lambda: 0.5e9) == ["decoded"]
    assert caches(many(), free_bytes=LITTLE, disk=lambda: 1.5e9, cores=8) == ["decoded"]


def test_a_disk_without_room_is_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataio.bench.footprint.cache_room_bytes", lambda folder: 10**9)
    assert caches(many(), free_bytes=LITTLE, disk=never) == ["decoded"]


def test_a_folder_for_caches_that_lies_in_memory_is_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataio.bench.footprint.lies_in_memory", lambda folder: True)
    assert caches(many(), free_bytes=LITTLE, disk=never) == ["decoded"]
