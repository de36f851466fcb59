"""HDF5: shards with all pictures in one contiguous block of bytes, and arrays beside it.

    images        uint8[bytes]: the files one after the other; raw: uint8[records, height, width, 3]
    offsets       int64[records + 1]: where each file begins in `images` (not for raw)
    label, index, orientation, height, width     int64[records]
    crc32c        uint32[records], of each picture's bytes
    paths         uint8[bytes], path_offsets int64[records + 1]: source paths, as bytes
    class_names   string[classes]

One block and not variable-length strings: those lose what follows a NUL, cost a heap entry a record and cannot be
mapped. Contiguous and unfiltered: a picture is one read at a known place, and raw pixels can be read by
tf.data.FixedLengthRecordDataset. No attribute holds class names, because attributes end at 64 KiB.

Pictures are streamed to the place in the file where HDF5 will look for them, before HDF5 has written anything: the
first dataset of a new file starts behind the root group, wherever its size ends. The structure is made last, in
memory, when all sizes are known, and laid around the pictures. So no picture is held in memory or written twice, a
killed run leaves no HDF5 file that looks whole, and HDF5's library, which cannot bear a full disk, never writes to one.
"""

from __future__ import annotations

import io
import os
from array import array
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dataio.converters.appending import AppendingFile
from dataio.converters.checksums import crc32c, join_crc32c
from dataio.converters.format import Finished, Placed, ShardWriter, WritableFormat
from dataio.converters.formats.example import StoredRecord
from dataio.converters.manifest import Manifest
from dataio.converters.stored import LedgerData
from dataio.data import RECORD_FIELDS, Order, Read, Shard

if TYPE_CHECKING:
    import tensorflow as tf

_NUMBERS = ("label", "index", "orientation", "height", "width")


class HDF5Writer(ShardWriter):
    """Writes one HDF5 file."""

    def __init__(self, path: Path, class_names: Sequence[str], raw_height_width: tuple[int, int] | None) -> None:
        self._path = path
        self._class_names = class_names
        self._raw = raw_height_width
        self._start = _first_dataset_offset()
        self._file = AppendingFile(path, start=self._start)
        self._ends = array("q", [0])
        self._numbers = array("q")
        self._crcs = array("I")
        self._paths = bytearray()
        self._path_ends = array("q", [0])

    def add(self, record: StoredRecord) -> Placed:
        """Appends the picture; the rest of the record is kept for the end."""
        offset, crc = self._file.offset, crc32c(record.image)
        self._file.append(record.image)
        self._ends.append(self._file.offset - self._start)
        self._numbers.extend((record.label, record.index, record.orientation, record.height, record.width))
        self._crcs.append(crc)
        self._paths += record.path
        self._path_ends.append(len(self._paths))
        return Placed(offset, len(record.image), crc)

    def finish(self) -> Finished:
        """Lays HDF5's structure around the pictures."""
        blob_bytes = self._ends[-1]
        structure = _Surroundings(self._start, self._start + blob_bytes)
        self._make_structure(structure)
        head, tail = bytes(structure.head), bytes(structure.tail)
        self._file.overwrite(0, head)
        self._file.overwrite(self._start + blob_bytes, tail)
        crc = join_crc32c(join_crc32c(crc32c(head), self._file.crc, blob_bytes), crc32c(tail), len(tail))
        return Finished(self._file.close(), self._start + blob_bytes + len(tail), crc)

    def abandon(self) -> None:
        """Removes the file."""
        self._file.abandon()

    def _make_structure(self, target: _Surroundings) -> None:
        import h5py

        records = len(self._crcs)
        shape = (self._ends[-1],) if self._raw is None else (records, *self._raw, 3)
        numbers = np.array(self._numbers, np.int64).reshape(records, len(_NUMBERS))
        with _new_file(target) as file:
            start = _contiguous(file, shape)
            if start != self._start:
                raise RuntimeError(
                    f"HDF5 placed the pictures at byte {start} and not {self._start} as in the file before"
                )
            if self._raw is None:
                _array(file, "offsets", np.array(self._ends, np.int64))
            for column, name in enumerate(_NUMBERS):
                _array(file, name, numbers[:, column])
            _array(file, "crc32c", np.array(self._crcs, np.uint32))
            _array(file, "paths", np.frombuffer(bytes(self._paths), np.uint8))
            _array(file, "path_offsets", np.array(self._path_ends, np.int64))
            names = np.array(list(self._class_names), object)
            file.create_dataset("class_names", data=names, dtype=h5py.string_dtype("utf-8"), track_times=False)


class _Surroundings(io.RawIOBase):
    """A file in memory but for one stretch in the middle, where nothing is written."""

    def __init__(self, gap_start: int, gap_end: int) -> None:
        super().__init__()
        self.head = bytearray(gap_start)
        """What lies before the gap."""
        self.tail = bytearray()
        """What lies behind the gap."""
        self._gap_end = gap_end
        self._position = 0
        self._size = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def flush(self) -> None:
        """Nothing to do: everything is in memory."""

    def tell(self) -> int:
        return self._position

    def truncate(self, size: int | None = None) -> int:
        size = self._size = self._position if size is None else size
        length = max(0, size - self._gap_end)
        self.tail[length:] = bytes(max(0, length - len(self.tail)))
        return size

    def write(self, content: Any) -> int:
        piece = bytes(content)
        part, start = self._part(len(piece))
        if len(part) < start:
            part.extend(bytes(start - len(part)))
        part[start : start + len(piece)] = piece
        self._position += len(piece)
        self._size = max(self._size, self._position)
        return len(piece)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if len(self.head) <= self._position < self._gap_end:
            piece = b""  # HDF5 looks for the head of an older file at powers of two
        else:
            part, start = self._part(len(view))
            piece = bytes(part[start : start + len(view)])
        view[:] = piece.ljust(len(view), b"\0")
        self._position += len(view)
        return len(view)

    def _part(self, size: int) -> tuple[bytearray, int]:
        """The side of the gap where `size` bytes at the position lie, and where in it."""
        if self._position + size <= len(self.head):
            return self.head, self._position
        if self._position >= self._gap_end:
            return self.tail, self._position - self._gap_end
        raise RuntimeError(f"HDF5 touched {size} bytes at {self._position}, among the pictures")


def _new_file(target: _Surroundings) -> Any:
    import h5py

    # The oldest form that holds what we need: every HDF5 since 1.8 reads it.
    return h5py.File(target, "w", libver=("earliest", "v108"))


def _contiguous(file: Any, shape: tuple[int, ...]) -> int:
    """Makes `images` without writing to it; returns where its bytes begin."""
    import h5py

    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    space = h5py.h5s.create_simple(shape)
    return int(h5py.h5d.create(file.id, b"images", h5py.h5t.STD_U8LE, space, properties).get_offset())


def _array(file: Any, name: str, values: npt.NDArray[Any]) -> None:
    file.create_dataset(name, data=values, track_times=False)


@cache
def _first_dataset_offset() -> int:
    """Where the first dataset of a new file begins, asked of this HDF5."""
    with _new_file(_Surroundings(1 << 16, 1 << 16)) as file:
        return _contiguous(file, (1,))


class HDF5Data(LedgerData):
    """A converted HDF5 dataset: pictures are read at their places in the file, HDF5's library is not needed."""

    def records(
        self, split: str, *, read: Read | None = None, order: Order | None = None, shard: Shard | None = None
    ) -> tf.data.Dataset:
        """As `Data.records`; raw pixels in stored order come from TensorFlow's own FixedLengthRecordDataset."""
        if self.raw_height_width is None or (order is not None and order.seed is not None):
            return super().records(split, read=read, order=order, shard=shard)
        first, end = (shard or Shard()).bounds(self.split(split).records)
        return self._fixed_length(split, first, end, self.raw_height_width)

    def _fixed_length(self, split: str, first: int, end: int, height_width: tuple[int, int]) -> tf.data.Dataset:
        import tensorflow as tf

        height, width = height_width
        picture_bytes = height * width * 3
        parts: tf.data.Dataset | None = None
        start = 0
        for entry in self.manifest.splits[split].shards:
            low, high = max(first, start) - start, min(end, start + entry.records) - start
            start += entry.records
            if low >= high:
                continue
            rows = self.ledger(entry).rows
            header = int(rows["offset"][low])
            pixels = tf.data.FixedLengthRecordDataset(
                str(self.path / entry.file.name),
                picture_bytes,
                header_bytes=header,
                footer_bytes=entry.file.bytes - header - (high - low) * picture_bytes,
                buffer_size=1 << 20,
            )
            numbers = {name: rows[name][low:high].astype(np.int64) for name in _NUMBERS}
            part = tf.data.Dataset.zip((pixels, tf.data.Dataset.from_tensor_slices(numbers)))
            parts = part if parts is None else parts.concatenate(part)
        if parts is None:
            raise ValueError(f"an empty part of split {split!r}")

        def shaped(pixels: tf.Tensor, numbers: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            image = tf.reshape(tf.io.decode_raw(pixels, tf.uint8), (height, width, 3))
            return {"image": image, **{name: numbers[name] for name in RECORD_FIELDS[1:]}}

        return parts.map(shaped).apply(tf.data.experimental.assert_cardinality(end - first))


class HDF5Format(WritableFormat):
    """HDF5 shards."""

    name = "hdf5"

    def recognises(self, path: Path) -> bool:
        """Whether a manifest in the folder says so; the registry reads it."""
        return (path / "dataset.json").is_file() and any(path.glob("*.h5"))

    def open(self, path: Path) -> HDF5Data:
        """The dataset in the folder `path`."""
        return HDF5Data(path, Manifest.open(path))

    def writer(self, path: Path, *, class_names: Sequence[str], raw_height_width: tuple[int, int] | None) -> HDF5Writer:
        """A writer of one shard."""
        return HDF5Writer(path, class_names, raw_height_width)

    def shard_name(self, split: str, number: int, count: int) -> str:
        """`train-00000-of-00002.h5`"""
        return f"{split}-{number:05d}-of-{count:05d}.h5"

    def companions(self, manifest: Manifest) -> Mapping[str, bytes]:
        """None: each shard has the class names inside."""
        return {}

    def stored_crc(self, record: StoredRecord) -> int:
        """CRC-32C of the picture's bytes."""
        return crc32c(record.image)
