"""The storage under a dataset."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataio.bench import storage
from dataio.bench.storage import describe_storage, forget_pages


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        (tmp_path / f"{number}.bin").write_bytes(bytes(1 << 20))
    return tmp_path


def test_both_rates_rest_on_the_bytes_that_were_read(folder: Path) -> None:
    found = describe_storage(folder, seconds=5)
    assert found.sampled_bytes == 3 << 20
    assert found.warm_bytes_per_second is not None and found.warm_bytes_per_second > 0


def test_reading_stops_when_its_time_is_up(folder: Path) -> None:
    now = iter(range(1000))
    found = describe_storage(folder, seconds=1, clock=lambda: float(next(now)))
    assert 0 < found.sampled_bytes < 3 << 20


def test_an_empty_folder_has_no_rates(tmp_path: Path) -> None:
    found = describe_storage(tmp_path)
    assert found.sampled_bytes == 0
    assert found.cold_bytes_per_second is None
    assert found.warm_bytes_per_second is None


def test_a_link_to_nothing_is_passed_over(folder: Path) -> None:
    (folder / "gone.bin").symlink_to(folder / "nowhere")
    assert describe_storage(folder, seconds=5).sampled_bytes == 3 << 20


def test_a_memory_filesystem_is_never_cold(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_mount", lambda path: ("tmpfs", "tmpfs"))
    assert not forget_pages(folder)
    found = describe_storage(folder)
    assert found.kind == "memory"
    assert found.cold_bytes_per_second is None


@pytest.mark.parametrize(
    ("filesystem", "device", "kind"),
    [("nfs4", "server:/export", "network"), ("ext4", "/dev/vda1", "virtual"), ("overlay", "overlay", "unknown")],
)
def test_the_kind_comes_from_filesystem_and_device(filesystem: str, device: str, kind: str) -> None:
    assert storage._kind(filesystem, device) == kind
