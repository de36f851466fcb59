"""How a scanned source becomes units of work: decided from sizes, counts and options alone, never from the run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dataio.converters.imaging import ImageOptions, Picture, Rejected, decide
from dataio.converters.scan import Scan
from dataio.converters.worklist import Unit, Worklist, cut_evenly, stored_order
from dataio.converters.writing import read_source
from dataio.errors import SourceError

#: Files that are made smaller beforehand to learn how small they become, where shards are to have a certain size.
#: Source: our corpora of photographs have a relative spread of 0.5 in bytes a file, so 32 files give 10 %, enough to
#: choose a number of shards.
_SAMPLE_FILES = 32

#: Where pictures are made smaller, decoding takes the time and little is written: one shard would keep one core
#: busy. So there are up to this many units, of at least so many files. Source: a core makes some 300 pictures a second
#: smaller, so that a unit takes it about a second.
_SHARED_UNITS, _SHARED_FILES = 16, 256

#: Bytes of a record beside its picture: Example's framing and names, path, TFRecord frame, ledger row.
RECORD_OVERHEAD_BYTES = 300


@dataclass(frozen=True, slots=True)
class Planned:
    """A conversion before it begins."""

    worklists: Mapping[str, Worklist]
    """Candidates and stored order by split; splits without candidates are not among them."""
    units: tuple[Unit, ...]
    """What is to be written, in order."""
    source_bytes: int
    """Bytes of all candidates."""
    store_bytes: int
    """Bytes that the output is expected to take, about: exact for stored files, from a sample for smaller ones."""

    @property
    def candidates(self) -> int:
        """Candidate files."""
        return sum(len(worklist) for worklist in self.worklists.values())


def plan_units(
    scan: Scan, image: ImageOptions, *, seed: int, shuffle: bool, shards: int | None, unit_bytes: int
) -> Planned:
    """The worklists and units of a conversion.

    Where files are stored as they are, units are cut by bytes; where they are made smaller, by count, because bytes are
    not known beforehand, and into more of them.

    Args:
        scan: the source.
        image: how pictures are stored.
        seed: of the stored order.
        shuffle: False keeps path order.
        shards: units a split; None cuts units of about `unit_bytes`. Never more than there are candidates.
        unit_bytes: bytes of a unit, where `shards` is None.
    """
    worklists: dict[str, Worklist] = {}
    units: list[Unit] = []
    store_bytes = 0
    for split, candidates in scan.splits.items():
        if not len(candidates):
            continue
        _check_split_name(split)
        worklist = Worklist.of(candidates, stored_order(len(candidates), seed=seed, split=split, shuffle=shuffle))
        worklists[split] = worklist
        weights = _weights(scan, worklist, image)
        total = int(weights.sum())
        store_bytes += total + RECORD_OVERHEAD_BYTES * len(worklist)
        count = shards or _count(total, unit_bytes)
        if shards is None and image.encoding != "source":
            count = max(count, min(_SHARED_UNITS, len(worklist) // _SHARED_FILES))
        for number, (first, end) in enumerate(cut_evenly(weights, count)):
            units.append(Unit(split, number, first, end))
    if not worklists:
        raise SourceError(f"{scan.root}: no candidates in any split")
    source_bytes = sum(int(worklist.sizes_in_order().sum()) for worklist in worklists.values())
    return Planned(worklists, tuple(units), source_bytes, store_bytes)


def _count(total: int, unit_bytes: int) -> int:
    """Units of at most about `unit_bytes`; an even number, so that two workers or readers share them evenly."""
    count = max(1, -(-total // unit_bytes))
    return count if count == 1 else count + count % 2


def _weights(scan: Scan, worklist: Worklist, image: ImageOptions) -> npt.NDArray[np.int64]:
    sizes = worklist.sizes_in_order()
    if image.encoding == "source":
        return sizes
    each = _raw_bytes(image) if image.size is not None else _sampled_bytes(scan, worklist, image)
    return np.full(len(sizes), each, np.int64)


def _raw_bytes(image: ImageOptions) -> int:
    assert image.size is not None
    return image.size[0] * image.size[1] * 3


def _sampled_bytes(scan: Scan, worklist: Worklist, image: ImageOptions) -> int:
    """Mean bytes of a picture made smaller, from files spread evenly over the split."""
    positions: Sequence[int] = np.linspace(0, len(worklist) - 1, min(_SAMPLE_FILES, len(worklist))).astype(int).tolist()
    root = os.open(scan.root, os.O_RDONLY | os.O_DIRECTORY)
    sizes = []
    try:
        for position in positions:
            (candidate,) = worklist.candidates(position, position + 1)
            content = read_source(root, candidate)
            picture = content if isinstance(content, Rejected) else decide(content, image)
            if isinstance(picture, Picture):
                sizes.append(len(picture.image))
    finally:
        os.close(root)
    return max(1, sum(sizes) // len(sizes)) if sizes else 1


def _check_split_name(split: str) -> None:
    # It becomes part of file names.
    if not split or not all(letter.isalnum() or letter in "_-" for letter in split):
        raise SourceError(f"a split cannot be named {split!r}: letters, digits, _ and - only")
