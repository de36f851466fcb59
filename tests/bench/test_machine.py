"""The machine that a measurement was made on."""

from __future__ import annotations

from pathlib import Path

from dataio.bench.machine import describe_machine, versions
from dataio.machine import usable_cores


def test_the_description_names_processor_cores_and_the_storage_of_each_dataset(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    machine = describe_machine([tmp_path], gpus=False)
    assert machine.cpu
    assert machine.cores == usable_cores() <= machine.logical_cores
    assert 0 < machine.memory_bytes <= machine.total_memory_bytes
    assert [storage.path for storage in machine.storage] == [str(tmp_path)]


def test_versions_name_what_is_installed_and_this_package() -> None:
    found = versions()
    assert found["tensorflow"].startswith("2.")
    assert found["dataio-tf"]
