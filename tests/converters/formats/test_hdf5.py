"""HDF5's own library reads what is written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import h5py

from dataio.converters.conversion import ConversionOptions, convert
from tests.converters.conversions import options, stored


def test_hdf5_s_own_library_reads_the_shards(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", options("hdf5"))
    expected, found = stored(tmp_path / "out"), {}
    for path in sorted((tmp_path / "out").glob("*.h5")):
        with h5py.File(path) as file:
            assert [name.decode() for name in file["class_names"]] == [f"class {number}" for number in range(4)]
            offsets, ends = file["offsets"][:], file["path_offsets"][:]
            for number in range(len(file["label"])):
                image = file["images"][offsets[number] : offsets[number + 1]].tobytes()
                name = file["paths"][ends[number] : ends[number + 1]].tobytes()
                found[name] = (int(file["label"][number]), int(file["index"][number]), hashlib.sha256(image).digest())
    assert found == expected


def test_ten_thousand_class_names_fit_into_every_shard(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> None:
    for number in range(10_000):
        (tmp_path / "source" / f"a class with a long name {number:05d}").mkdir(parents=True)
    (tmp_path / "source" / "a class with a long name 07777" / "1.jpg").write_bytes(make_jpeg())
    convert(tmp_path / "source", tmp_path / "out", ConversionOptions(to="hdf5"))
    with h5py.File(tmp_path / "out" / "train-00000-of-00001.h5") as file:
        assert len(file["class_names"]) == 10_000
        assert file["class_names"][file["label"][0]] == b"a class with a long name 07777"
