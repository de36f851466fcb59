"""A plain folder of pictures, read as if it had been converted: the same candidates, decisions, labels and
indices."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dataio.converters.blocks import read_blocks
from dataio.converters.candidates import Candidates
from dataio.converters.format import Format
from dataio.converters.imaging import Rejected, decide, ordinary_header
from dataio.converters.names import as_text, printable
from dataio.converters.outcome import Outcome
from dataio.converters.picture import MAX_FILE_BYTES
from dataio.converters.scan import Scan, scan_folder
from dataio.data import Data, Order, Read, Shard, Split
from dataio.errors import DataDamaged, DataNotFound
from dataio.machine import usable_cores

if TYPE_CHECKING:
    import tensorflow as tf

#: Bytes read from the beginning of a file to find its header. Source: our measurement on photographs: headers
#: end within 1 KiB without and 16 KiB with EXIF thumbnails; the few with more are read whole.
_HEAD_BYTES = 16 << 10

#: Files that one thread checks before it takes the next lot.
_LOT = 256

#: Threads that check files for each core: they wait for the disk more than they compute.
_THREADS_A_CORE = 4


class FolderData(Data):
    """A picture folder. Files that conversion would reject are left out of it; others become JPEGs when they
    are read.

    Counts are exact, so the first use of `splits` looks at the beginning and end of every file; opening does
    not.
    """

    format = "folder"
    encoding = "jpeg"
    random_access = True

    def __init__(self, scan: Scan) -> None:
        self.path = scan.root
        self.class_names = scan.class_names
        self._scan = scan
        self._root = os.fsencode(scan.root.resolve()) + b"/"

    @cached_property
    def splits(self) -> Mapping[str, Split]:  # type: ignore[override]
        """The splits by name; see the class about what the first use costs."""
        return {
            name: Split(len(kept), len(kept), int(self._scan.splits[name].sizes[kept].sum()))
            for name, (kept, _) in self._checked.items()
        }

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The files that are left out or read as something else than they are, in path order."""
        return tuple(outcome for _, outcomes in self._checked.values() for outcome in outcomes)

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """SHA-256 over the paths, sizes and times of all candidates."""
        total = hashlib.sha256()
        for name, candidates in self._scan.splits.items():
            total.update(f"{name}/{len(candidates)}/".encode())
            for path in candidates.paths():
                total.update(path + b"\0")
            total.update(candidates.sizes.tobytes() + candidates.mtimes_ns.tobytes())
        return total.hexdigest()

    def records(
        self, split: str, *, read: Read | None = None, order: Order | None = None, shard: Shard | None = None
    ) -> tf.data.Dataset:
        """As `Data.records`."""
        if not self.split(split).records:
            raise DataNotFound(f"{self.path}: no picture in split {split!r}")
        kept, _ = self._checked[split]
        candidates = self._scan.splits[split]

        def read_block(positions: npt.NDArray[np.int64]) -> Sequence[np.ndarray]:
            return self._read(candidates, kept[positions])

        return read_blocks(len(kept), read_block, read=read, order=order, shard=shard)

    @cached_property
    def _checked(self) -> dict[str, tuple[npt.NDArray[np.int64], list[Outcome]]]:
        """For each split the indices of the candidates that can be read, and what became of the unusual
        ones."""
        checked = {}
        with ThreadPoolExecutor(_THREADS_A_CORE * usable_cores()) as pool:
            for name, candidates in self._scan.splits.items():
                lots = [range(first, min(first + _LOT, len(candidates))) for first in range(0, len(candidates), _LOT)]
                results = list(pool.map(lambda lot, of=candidates: self._check(of, lot), lots))
                kept = np.array([index for accepted, _ in results for index in accepted], np.int64)
                outcomes = [outcome for _, some in results for outcome in some]
                if len(candidates) and not len(kept):
                    first = outcomes[0]
                    raise DataDamaged(
                        f"{self.path}: none of the {len(candidates)} files of split {name!r} can be read as a picture; "
                        f"the first, {first.path}, is {first.reason}"
                    )
                checked[name] = (kept, outcomes)
        return checked

    def _check(self, candidates: Candidates, lot: range) -> tuple[list[int], list[Outcome]]:
        accepted, outcomes = [], []
        for index in lot:
            path = candidates.path(index)
            try:
                if _is_ordinary(self._root + path):
                    accepted.append(index)
                    continue
                content = _content(self._root + path)
            except OSError:
                outcomes.append(Outcome(path=as_text(path), outcome="rejected", reason="unreadable"))
                continue
            decided = decide(content)
            if isinstance(decided, Rejected):
                outcomes.append(Outcome(path=as_text(path), outcome="rejected", reason=decided.reason))
                continue
            accepted.append(index)
            if decided.transcoded:
                outcomes.append(Outcome(path=as_text(path), outcome="transcoded", reason=decided.transcoded))
        return accepted, outcomes

    def _read(self, candidates: Candidates, indices: npt.NDArray[np.int64]) -> Sequence[np.ndarray]:
        """The records of these candidates, a column a field."""
        images = np.empty(len(indices), object)
        numbers = np.empty((3, len(indices)), np.int64)
        for row, index in enumerate(indices.tolist()):
            path = candidates.path(index)
            try:
                decided = decide(_content(self._root + path))
            except OSError as problem:
                raise DataDamaged(f"{self.path}: cannot read {printable(path)} any more: {problem}") from problem
            if isinstance(decided, Rejected):
                raise DataDamaged(
                    f"{self.path}: {printable(path)} was a picture when the folder was opened and is now "
                    f"{decided.reason}: {decided.detail}"
                )
            images[row] = decided.image
            numbers[:, row] = decided.orientation, decided.height, decided.width
        return images, candidates.labels[indices].astype(np.int64), indices, *numbers


def _is_ordinary(path: bytes) -> bool:
    """Whether the file is a JPEG that is read as it is, as far as its beginning and end tell."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, _HEAD_BYTES, 0)
        tail = head[-2:] if len(head) == size else os.pread(descriptor, 2, max(0, size - 2))
    finally:
        os.close(descriptor)
    return ordinary_header(head, tail, size) is not None


def _content(path: bytes) -> bytes:
    with open(path, "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
            return file.read(MAX_FILE_BYTES + 1)  # as much as is needed to refuse it
        return file.read()


class FolderFormat(Format):
    """Any folder of pictures; asked last, because every dataset is a folder too."""

    name = "folder"

    def recognises(self, path: Path) -> bool:
        """Whether `path` is a folder."""
        return path.is_dir()

    def open(self, path: Path) -> FolderData:
        """The folder as a dataset.

        Raises:
            SourceError: it holds no pictures in a layout that is known.
        """
        return FolderData(scan_folder(path))
