"""How a source becomes units: sizes of shards, and enough of them to keep several cores busy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dataio.converters.candidates import CandidatesBuilder
from dataio.converters.picture import ImageOptions
from dataio.converters.planning import plan_units
from dataio.converters.scan import Scan
from dataio.converters.worklist import SHARD_BYTES
from dataio.errors import SourceError

RAW = ImageOptions(encoding="raw", size=(8, 8))


def scan(files: int, each: int, split: str = "train") -> Scan:
    builder = CandidatesBuilder(split)
    for number in range(files):
        builder.add(b"a/%06d.jpg" % number, 0, each, 1)
    return Scan(Path("nowhere"), ("a",), {split: builder.build()}, {}, ())


def units(found: Scan, image: ImageOptions | None = None, *, shards: int | None = None) -> list[int]:
    planned = plan_units(found, image or ImageOptions(), seed=0, shuffle=True, shards=shards, unit_bytes=SHARD_BYTES)
    return [unit.end - unit.first for unit in planned.units]


@pytest.mark.parametrize(("files", "expected"), [(10, 1), (128, 1), (129, 2), (300, 4), (1280, 10), (1281, 12)])
def test_shards_hold_128_mib_and_are_an_even_number(files: int, expected: int) -> None:
    assert len(units(scan(files, 1 << 20))) == expected


def test_small_outputs_are_cut_so_that_several_cores_share_the_decoding() -> None:
    assert len(units(scan(100, 100_000), RAW)) == 1
    assert len(units(scan(2_000, 100_000), RAW)) == 7
    assert len(units(scan(50_000, 100_000), RAW)) == 16
    assert len(units(scan(2_000, 100_000), RAW, shards=2)) == 2


def test_units_are_cut_by_count_where_bytes_are_not_known() -> None:
    sizes = units(scan(2_000, 100_000), RAW)
    assert max(sizes) - min(sizes) <= 1


def test_expected_bytes_are_those_of_the_pictures_as_stored() -> None:
    planned = plan_units(scan(1000, 50_000), RAW, seed=0, shuffle=True, shards=None, unit_bytes=SHARD_BYTES)
    assert planned.source_bytes == 50_000_000
    assert planned.store_bytes == 1000 * (8 * 8 * 3 + 300)


@pytest.mark.parametrize("name", ["../up", "a/b", "", "with space"])
def test_a_split_name_that_would_leave_the_folder_is_refused(name: str) -> None:
    with pytest.raises(SourceError, match="cannot be named"):
        units(scan(3, 10, split=name))


def test_the_plan_holds_every_candidate_once() -> None:
    planned = plan_units(scan(1000, 1 << 20), ImageOptions(), seed=3, shuffle=True, shards=7, unit_bytes=1)
    worklist = planned.worklists["train"]
    seen = [candidate.index for unit in planned.units for candidate in worklist.candidates(unit.first, unit.end)]
    assert sorted(seen) == list(range(1000))
    assert seen != sorted(seen)
    assert np.array_equal(worklist.sizes_in_order(), np.full(1000, 1 << 20))
