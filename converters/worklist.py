"""What is to be done, decided before anything is written: the stored order, and its cut into units of work.

The order of a split is a permutation keyed by (seed, split name) alone, its cuts depend on sizes and counts alone, so
that nothing about the run (workers, speed, directory order, library versions) can change a byte of the output.

A worklist lies in the work folder while a conversion is unfinished: workers read their unit's candidates from it
without keeping millions of names in memory, and a rerun tells from it what changed in the source.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dataio.converters.candidates import Candidate, Candidates
from dataio.errors import RecordError
from dataio.records import write_whole

#: Bytes of source files that a unit holds where no number of shards is asked for.
#: Source: 100 to 200 MB is what TensorFlow's performance guide and TFDS recommend for a TFRecord shard.
SHARD_BYTES = 128 << 20

_HEADER_BYTES = 4096
_COLUMNS = (("order", "<i8"), ("ends", "<i8"), ("sizes", "<i8"), ("mtimes_ns", "<i8"), ("labels", "<i4"))


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a split that one worker writes in one go: a shard, or for LMDB a batch."""

    split: str
    """Name of the split."""
    number: int
    """Which unit of the split, from 0."""
    first: int
    """First position in stored order."""
    end: int
    """Position after the last."""


def stored_order(count: int, *, seed: int, split: str, shuffle: bool = True) -> npt.NDArray[np.int64]:
    """int64[count]: the candidates' indices in the order in which they are stored.

    Sorts by splitmix64(base + index), base the first 8 bytes of SHA-256 of "seed/split": integer arithmetic that is
    defined to the last bit, so that no version of NumPy changes it. Source: Steele, Lea and Flood 2014, "Fast
    splittable pseudorandom number generators", the finaliser with Stafford's variant 13.
    """
    if not shuffle:
        return np.arange(count, dtype=np.int64)
    base = int.from_bytes(hashlib.sha256(f"{seed}/{split}".encode()).digest()[:8], "little")
    with np.errstate(over="ignore"):
        mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(base)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return np.argsort(mixed, kind="stable").astype(np.int64)


def cut_evenly(weights: npt.NDArray[np.int64], parts: int) -> list[tuple[int, int]]:
    """Consecutive ranges whose weights differ by at most about one item, none of them empty.

    Args:
        weights: of each item in order, such as bytes; not negative.
        parts: how many ranges; no more are made than there are items.
    """
    count = len(weights)
    parts = max(1, min(parts, count))
    if not count:
        return []
    sums = np.concatenate([[0], np.cumsum(weights, dtype=np.int64)])
    cuts = [0]
    for part in range(1, parts):
        target = int(sums[-1]) * part // parts
        cut = int(np.searchsorted(sums, target))
        if cut and target - int(sums[cut - 1]) <= int(sums[cut]) - target:
            cut -= 1
        cuts.append(min(max(cut, cuts[-1] + 1), count - (parts - part)))
    cuts.append(count)
    return list(itertools.pairwise(cuts))


class Worklist:
    """The candidates of one split with their stored order: columns, or a file of them that is mapped, not read."""

    def __init__(self, split: str, paths: npt.NDArray[np.uint8], columns: dict[str, npt.NDArray[np.int64]]) -> None:
        self.split = split
        self._paths = paths
        self._columns = columns

    @classmethod
    def of(cls, candidates: Candidates, order: npt.NDArray[np.int64]) -> Worklist:
        """The worklist of a scanned split in the given order."""
        blob = b"".join(candidates.paths())
        ends = np.cumsum(np.fromiter((len(path) for path in candidates.paths()), np.int64, len(candidates)))
        columns = {
            "order": order,
            "ends": ends.astype(np.int64),
            "sizes": candidates.sizes,
            "mtimes_ns": candidates.mtimes_ns,
            "labels": candidates.labels,
        }
        return cls(candidates.split, np.frombuffer(blob, np.uint8), columns)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._columns["order"])

    def reordered(self, order: npt.NDArray[np.int64]) -> Worklist:
        """The same candidates in another stored order."""
        return Worklist(self.split, self._paths, self._columns | {"order": order})

    def sizes_in_order(self) -> npt.NDArray[np.int64]:
        """int64[candidates]: bytes of the files, in stored order."""
        return self._columns["sizes"][self._columns["order"]]

    def path(self, index: int) -> bytes:
        """Path of the candidate with this index."""
        ends = self._columns["ends"]
        return self._paths[int(ends[index - 1]) if index else 0 : int(ends[index])].tobytes()

    def candidates(self, first: int, end: int) -> Iterator[Candidate]:
        """The candidates at positions `first` to `end` of the stored order."""
        for index in self._columns["order"][first:end].tolist():
            yield self.candidate(index)

    def candidate(self, index: int) -> Candidate:
        """The candidate with this index."""
        columns = self._columns
        return Candidate(
            self.path(index),
            self.split,
            int(columns["labels"][index]),
            index,
            int(columns["sizes"][index]),
            int(columns["mtimes_ns"][index]),
        )

    def content_sum(self, *, with_times: bool) -> str:
        """SHA-256 over paths, sizes and labels, with or without times of change: two sources compared in one string."""
        total = hashlib.sha256(self.split.encode())
        names = ["ends", "sizes", "labels", *(["mtimes_ns"] if with_times else [])]
        for name in names:
            total.update(np.ascontiguousarray(self._columns[name]).view(np.uint8).data)
        total.update(np.ascontiguousarray(self._paths).data)
        return total.hexdigest()

    def save(self, path: Path) -> None:
        """Writes the worklist to `path`, whole or not at all."""
        header = json.dumps({"worklist": 1, "split": self.split, "count": len(self), "paths": len(self._paths)})
        pieces = [header.encode().ljust(_HEADER_BYTES)]
        pieces += [np.ascontiguousarray(self._columns[name]).astype(kind).tobytes() for name, kind in _COLUMNS]
        write_whole(path, b"".join([*pieces, self._paths.tobytes()]))

    @classmethod
    def load(cls, path: Path) -> Worklist:
        """The worklist in a file, its columns mapped from it.

        Raises:
            RecordError: the file is no worklist.
        """
        with open(path, "rb") as file:
            header_bytes = file.read(_HEADER_BYTES)
        try:
            header = json.loads(header_bytes)
            count, path_bytes = int(header["count"]), int(header["paths"])
            columns: dict[str, npt.NDArray[np.int64]] = {}
            offset = _HEADER_BYTES
            for name, kind in _COLUMNS:
                columns[name] = _mapped(path, kind, offset, count)
                offset += count * np.dtype(kind).itemsize
            return cls(header["split"], _mapped(path, "u1", offset, path_bytes), columns)
        except (ValueError, KeyError, TypeError) as problem:
            raise RecordError(f"{path}: not a worklist: {problem}") from None


def _mapped(path: Path, kind: str, offset: int, count: int) -> npt.NDArray:  # type: ignore[type-arg]
    if not count:
        return np.empty(0, kind)
    return np.asarray(np.memmap(path, kind, "r", offset, (count,)))


def differences(old: Worklist, new: Worklist, *, most: int = 5) -> list[str]:
    """What changed from one scan of a split to another, a phrase each, at most `most` files named."""
    before = {old.path(index): index for index in range(len(old))}
    changes: list[str] = []
    total = 0
    for index in range(len(new)):
        now = new.candidate(index)
        was_at = before.pop(now.path, None)
        was = None if was_at is None else old.candidate(was_at)
        if was is None:
            change = "added"
        elif (was.bytes, was.mtime_ns) != (now.bytes, now.mtime_ns):
            change = "edited"
        elif was.label != now.label:
            change = "relabelled"
        else:
            continue
        total += 1
        if len(changes) < most:
            changes.append(f"{_shown(now.path)} ({change})")
    for path in before:
        total += 1
        if len(changes) < most:
            changes.append(f"{_shown(path)} (removed)")
    if total > len(changes):
        changes.append(f"{total - len(changes)} more")
    return changes


def _shown(path: bytes) -> str:
    from dataio.converters.names import printable

    return printable(path)
