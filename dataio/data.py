"""Data: an opened dataset, whatever its format. The contract between a format and the pipeline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dataio.errors import DataNotFound

if TYPE_CHECKING:
    import tensorflow as tf

#: Names and meaning of a record's fields, the same from every format. All scalars are int64.
RECORD_FIELDS = ("image", "label", "index", "orientation", "height", "width")


@dataclass(frozen=True)
class Split:
    """One split of a dataset."""

    records: int
    """Pictures that can be read; files that were rejected are not among them."""
    shards: int
    """Files that hold them (for a folder: the number of picture files)."""
    bytes: int
    """Bytes of those files on disk."""


@dataclass(frozen=True)
class Read:
    """How to read, as the plan says."""

    cycle_length: int | None = None
    """Readers at once; None leaves it to AUTOTUNE."""
    block_length: int | None = None
    """Consecutive records a reader gives at a time; None takes the format's default."""
    deterministic: bool = True
    """Whether the order must be the same every time."""


@dataclass(frozen=True)
class Order:
    """In which order to read, and the epoch that this depends on."""

    seed: int | None = None
    """None: stored order. Otherwise a new order for every (seed, epoch)."""
    epoch: tf.data.Dataset | None = None
    """A dataset of exactly one int64[]: the number of the epoch that an iterator belongs to. Needed with `seed`:
    formats write `epoch.flat_map(lambda number: ...)`. None in stored order."""
    buffer: int = 2048
    """Records held for shuffling by formats that can only be read in sequence."""


@dataclass(frozen=True)
class Shard:
    """The part of a split that one of several replicas reads; each record goes to exactly one, in every epoch."""

    count: int = 1
    """Replicas."""
    index: int = 0
    """Which of them, from 0."""

    def size(self, records: int) -> int:
        """How many of `records` this part holds; parts differ by at most one."""
        return self.bounds(records)[1] - self.bounds(records)[0]

    def bounds(self, records: int) -> tuple[int, int]:
        """(first, end) of this part when `records` positions are cut into consecutive parts."""
        return records * self.index // self.count, records * (self.index + 1) // self.count


class Data(ABC):
    """An opened dataset. Formats subclass it; users get one from `dataio.open`."""

    path: Path
    """Where it lies."""
    format: str
    """`folder`, `tfrecord`, `hdf5`, `lmdb` or `tfds`."""
    encoding: Literal["jpeg", "png", "raw"]
    """What `image` holds: a JPEG file, a file that only tf.io.decode_image's family reads, or pixels."""
    raw_height_width: tuple[int, int] | None = None
    """(height, width) of every picture when `encoding` is raw, else None."""
    random_access: bool
    """Whether any record can be read without those before it: a global shuffle then needs no buffer."""
    class_names: tuple[str, ...]
    """Names of the classes; a label is a position in it."""
    splits: Mapping[str, Split]
    """The splits by name."""
    fingerprint: str
    """Changes when the stored data change; kept in tuned.json to notice that."""

    @abstractmethod
    def records(
        self, split: str, *, read: Read | None = None, order: Order | None = None, shard: Shard | None = None
    ) -> tf.data.Dataset:
        """The records of a split, one at a time, each exactly once a pass.

        Returns:
            A dataset of dicts: `image` string[] (encoded file) or uint8[height, width, 3] (raw); `label` int64[];
            `index` int64[], the rank of the file among all candidates of its split in bytewise path order, the
            same in every format, never a position; `orientation` int64[], EXIF 1..8 (1: upright); `height` and
            `width` int64[], pixels as stored, before orientation. Nothing is cached, batched or prefetched.

        Raises:
            DataNotFound: no such split.
        """

    def split(self, name: str) -> Split:
        """The split called `name`. Raises DataNotFound, naming the splits there are."""
        if name not in self.splits:
            known = ", ".join(self.splits) or "none"
            raise DataNotFound(f"{self.path}: no split named {name!r}; this dataset has: {known}")
        return self.splits[name]

    def describe(self) -> dict[str, Any]:
        """What `dataio inspect --json` prints: format, splits and classes as plain JSON values."""
        return {
            "format": self.format,
            "encoding": self.encoding,
            "splits": {
                name: {"records": split.records, "shards": split.shards, "bytes": split.bytes}
                for name, split in self.splits.items()
            },
            "classes": list(self.class_names),
        }
