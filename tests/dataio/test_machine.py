from __future__ import annotations

import os
from pathlib import Path

import pytest

from dataio import machine


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cgroup v2 tree with this process in its root."""
    monkeypatch.setattr(machine, "_own_cgroups", lambda root: [root / "job", root])
    (tmp_path / "job").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 8), ("150000 100000", 2), ("100000 100000", 1), ("5000 100000", 1)]
)
def test_cores_obey_the_quota_of_the_cgroup(
    cgroup: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    (cgroup / "job/cpu.max").write_text(quota + "\n")
    assert machine.usable_cores(cgroup) == cores


def test_cores_obey_the_affinity(cgroup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 9})
    (cgroup / "cpu.max").write_text("900000 100000\n")
    assert machine.usable_cores(cgroup) == 3


def test_memory_obeys_the_tightest_limit_and_counts_page_cache_as_free(cgroup: Path) -> None:
    gigabyte = 1 << 30
    (cgroup / "memory.max").write_text("max\n")
    (cgroup / "memory.current").write_text(f"{gigabyte}\n")
    (cgroup / "job/memory.max").write_text(f"{gigabyte}\n")
    (cgroup / "job/memory.current").write_text(f"{gigabyte - 1000}\n")
    (cgroup / "job/memory.stat").write_text("anon 5\nfile 400\ninactive_file 300\nactive_file 100\n")
    assert machine.usable_memory_bytes(cgroup) == 1400


def test_without_limits_the_machine_itself_is_the_limit(tmp_path: Path) -> None:
    assert machine.usable_cores(tmp_path) == len(os.sched_getaffinity(0))
    assert machine.usable_memory_bytes(tmp_path) > 0


def test_anonymous_memory_grows_with_what_the_process_takes_and_not_with_mapped_files(tmp_path: Path) -> None:
    import mmap

    path = tmp_path / "mapped"
    path.write_bytes(b"x" * (64 << 20))
    before = machine.anonymous_memory_bytes()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[at] for at in range(0, len(mapped), 4096)) > 0
        assert machine.anonymous_memory_bytes() - before < 16 << 20
        held = bytearray(os.urandom(1)) * (64 << 20)
        assert machine.anonymous_memory_bytes() - before > 48 << 20
        assert held
