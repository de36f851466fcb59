"""Candidates: files that may become records, kept in columns so that millions of them fit in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Candidate:
    """One file that may become a record."""

    path: bytes
    """Path below the source root, parts separated by `/`."""
    split: str
    """Name of the split."""
    label: int
    """Position of the class in `Scan.class_names`."""
    index: int
    """Rank among all candidates of the split in bytewise path order, from 0."""
    bytes: int
    """Size of the file; 0 for a broken link."""
    mtime_ns: int
    """Time of the last change, nanoseconds since 1970; 0 for a broken link."""


class Candidates:
    """The candidates of one split in bytewise path order: `len()`, `[i]`, iteration, and the columns
    themselves."""

    __slots__ = ("_ends", "_paths", "labels", "mtimes_ns", "sizes", "split")

    split: str
    """Name of the split."""
    labels: npt.NDArray[np.int32]
    """int32[candidates]: class of each."""
    sizes: npt.NDArray[np.int64]
    """int64[candidates]: bytes of each file."""
    mtimes_ns: npt.NDArray[np.int64]
    """int64[candidates]: time of each file's last change, nanoseconds since 1970."""

    def __init__(
        self,
        split: str,
        paths: bytes,
        ends: npt.NDArray[np.int64],
        labels: npt.NDArray[np.int32],
        sizes: npt.NDArray[np.int64],
        mtimes_ns: npt.NDArray[np.int64],
    ) -> None:
        """Takes the columns; `paths` holds all paths without separators, `ends` where each of them ends."""
        self.split = split
        self._paths = paths
        self._ends = ends
        self.labels = labels
        self.sizes = sizes
        self.mtimes_ns = mtimes_ns

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Candidate:
        if not -len(self) <= index < len(self):
            raise IndexError(f"candidate {index} of {len(self)}")
        index %= len(self)
        return Candidate(
            self.path(index),
            self.split,
            int(self.labels[index]),
            index,
            int(self.sizes[index]),
            int(self.mtimes_ns[index]),
        )

    def __iter__(self) -> Iterator[Candidate]:
        return (self[index] for index in range(len(self)))

    def path(self, index: int) -> bytes:
        """Path of one candidate, `0 <= index < len()`."""
        return self._paths[int(self._ends[index - 1]) if index else 0 : int(self._ends[index])]

    def paths(self) -> Iterator[bytes]:
        """All paths, in order; the quick way through them."""
        start = 0
        for end in self._ends.tolist():
            yield self._paths[start:end]
            start = end

    def select(self, positions: npt.NDArray[np.int64], *, split: str) -> Candidates:
        """The candidates at `positions`, as a split of their own: they get new indices in the order of
        `positions`."""
        builder = CandidatesBuilder(split)
        for position in positions.tolist():
            builder.add(
                self.path(position),
                int(self.labels[position]),
                int(self.sizes[position]),
                int(self.mtimes_ns[position]),
            )
        return builder.build()


class CandidatesBuilder:
    """Collects candidates one by one, in bytewise path order."""

    def __init__(self, split: str) -> None:
        self._split = split
        self._paths = bytearray()
        self._ends = array("q")
        self._labels = array("i")
        self._sizes = array("q")
        self._mtimes = array("q")

    def add(self, path: bytes, label: int, size: int, mtime_ns: int) -> None:
        """Appends one candidate; its index is the number of those before it."""
        self._paths += path
        self._ends.append(len(self._paths))
        self._labels.append(label)
        self._sizes.append(size)
        self._mtimes.append(mtime_ns)

    def build(self) -> Candidates:
        """The candidates added so far; the builder is spent."""
        return Candidates(
            self._split,
            bytes(self._paths),
            np.frombuffer(self._ends, np.int64),
            np.frombuffer(self._labels, np.int32),
            np.frombuffer(self._sizes, np.int64),
            np.frombuffer(self._mtimes, np.int64),
        )
