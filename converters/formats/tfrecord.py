"""TFRecord: shards of framed tf.train.Examples in the folder layout of TensorFlow Datasets.

A frame is the length (uint64, little-endian), its masked CRC-32C, the data, and their masked CRC-32C. Source:
tensorflow.org, "TFRecord and tf.train.Example", section "TFRecords format details". It is framed here and not by
tf.io.TFRecordWriter, which needs TensorFlow in every worker and reports no error on a full disk.

`tfds.builder_from_directory(DST).as_dataset(as_supervised=True)` reads the result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataio.converters.appending import AppendingFile
from dataio.converters.checksums import crc32c, extend_crc32c, masked_crc32c
from dataio.converters.format import Damage, Finished, Placed, ShardWriter, WritableFormat, damaged_records
from dataio.converters.formats.example import StoredRecord, example_crc32c, example_prefix
from dataio.converters.ledger import Ledger
from dataio.converters.manifest import Manifest
from dataio.converters.sequential import RecordFile, read_files
from dataio.converters.stored import StoredData
from dataio.data import RECORD_FIELDS, Order, Read, Shard

if TYPE_CHECKING:
    import tensorflow as tf

#: Name and version of the dataset in TFDS's words. Fixed, so that where a dataset lies changes none of its bytes.
_DATASET, _VERSION = "images", "1.0.0"

_HEADER_BYTES, _FOOTER_BYTES = 12, 4


class TFRecordWriter(ShardWriter):
    """Writes one TFRecord file."""

    def __init__(self, path: Path) -> None:
        self._file = AppendingFile(path)

    def add(self, record: StoredRecord) -> Placed:
        """Appends the record's frame."""
        prefix, image = example_prefix(record), record.image
        length = len(prefix) + len(image)
        crc = extend_crc32c(crc32c(prefix), image)
        offset = self._file.offset
        self._file.append(_header(length) + prefix, image, _footer(crc))
        return Placed(offset + _HEADER_BYTES, length, crc)

    def finish(self) -> Finished:
        """Flushes the file."""
        return Finished(self._file.close(), self._file.offset, self._file.crc)

    def abandon(self) -> None:
        """Removes the file."""
        self._file.abandon()


class TFRecordData(StoredData):
    """A converted TFRecord dataset."""

    random_access = False

    def records(
        self, split: str, *, read: Read | None = None, order: Order | None = None, shard: Shard | None = None
    ) -> tf.data.Dataset:
        """As `Data.records`: shards in an order of their own each epoch, then a buffer of `order.buffer` records."""
        import tensorflow as tf

        self.split(split)
        read = read or Read()
        files = [
            RecordFile(str(self.path / entry.file.name), entry.records) for entry in self.manifest.splits[split].shards
        ]
        stored = read_files(files, read=read, order=order, shard=shard)
        raw = self.raw_height_width
        features: dict[str, Any] = {"image": tf.io.FixedLenFeature([], tf.string)}
        for name in ("label", "index", "orientation", "height", "width"):
            features[name] = tf.io.FixedLenFeature([], tf.int64)

        def parse(content: tf.Tensor, position: tf.Tensor) -> dict[str, tf.Tensor]:
            record: dict[str, tf.Tensor] = tf.io.parse_single_example(content, features)
            if raw is not None:
                record["image"] = tf.reshape(tf.io.decode_raw(record["image"], tf.uint8), (*raw, 3))
            return {name: record[name] for name in RECORD_FIELDS}

        if read.cycle_length == 1:
            parsed = stored.map(parse)
        else:
            calls: Any = read.cycle_length or tf.data.AUTOTUNE
            parsed = stored.map(parse, num_parallel_calls=calls, deterministic=read.deterministic)
        return parsed.apply(tf.data.experimental.assert_cardinality(stored.cardinality()))


class TFRecordFormat(WritableFormat):
    """TFRecord shards that TFDS reads too."""

    name = "tfrecord"

    def recognises(self, path: Path) -> bool:
        """Whether a manifest in the folder says so; the registry reads it."""
        return _is_ours(path)

    def open(self, path: Path) -> TFRecordData:
        """The dataset in the folder `path`."""
        return TFRecordData(path, Manifest.open(path))

    def writer(
        self, path: Path, *, class_names: Sequence[str], raw_height_width: tuple[int, int] | None
    ) -> TFRecordWriter:
        """A writer of one shard."""
        return TFRecordWriter(path)

    def shard_name(self, split: str, number: int, count: int) -> str:
        """As TFDS names shards."""
        return f"{_DATASET}-{split}.tfrecord-{number:05d}-of-{count:05d}"

    def companions(self, manifest: Manifest) -> Mapping[str, bytes]:
        """`dataset_info.json`, `features.json` and the class names, as TFDS 4.9 writes them."""
        info = {
            "description": "Images with class labels, converted by dataio.",
            "fileFormat": "tfrecord",
            "moduleName": "dataio",
            "name": _DATASET,
            "splits": [
                {
                    "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
                    "name": name,
                    "numBytes": str(
                        sum(
                            shard.file.bytes - (_HEADER_BYTES + _FOOTER_BYTES) * shard.records for shard in split.shards
                        )
                    ),
                    "shardLengths": [str(shard.records) for shard in split.shards],
                }
                for name, split in manifest.splits.items()
            ],
            "supervisedKeys": {"tuple": {"items": [{"featureKey": "image"}, {"featureKey": "label"}]}},
            "version": _VERSION,
        }
        features = {
            "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
            "featuresDict": {"features": _tfds_features(manifest)},
        }
        # One name a line is TFDS's form; a name with a line break in it would shift all labels after it.
        labels = "\n".join(
            name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
            if "\n" in name or "\r" in name
            else name
            for name in manifest.class_names
        )
        return {
            "dataset_info.json": (json.dumps(info, indent=2) + "\n").encode(),
            "features.json": (json.dumps(features, indent=2) + "\n").encode(),
            "label.labels.txt": (labels + "\n").encode(),
        }

    def stored_crc(self, record: StoredRecord) -> int:
        """CRC-32C of the record's Example."""
        return example_crc32c(record)

    def damages(self, path: Path, name: str, ledger: Ledger) -> Iterator[Damage]:
        """Records that differ, frames around whole records that differ, and bytes after the last frame."""
        broken = {damage.record: damage for damage in damaged_records(path, name, ledger)}
        end = 0
        with open(path, "rb", buffering=0) as file:
            for position, row in enumerate(ledger.rows):
                if position in broken:
                    yield broken[position]
                start, length = int(row["offset"]), int(row["length"])
                end = start + length + _FOOTER_BYTES
                if position in broken:
                    continue
                if os.pread(file.fileno(), _HEADER_BYTES, start - _HEADER_BYTES) != _header(length):
                    what = "the length in front of the record is wrong"
                    yield Damage(name, start - _HEADER_BYTES, what, position, ledger.path(position))
                if os.pread(file.fileno(), _FOOTER_BYTES, start + length) != _footer(int(row["crc32c"])):
                    what = "the checksum behind the record is wrong"
                    yield Damage(name, start + length, what, position, ledger.path(position))
        if (surplus := path.stat().st_size - end) > 0:
            yield Damage(name, end, f"{surplus} bytes after the last record")


def _header(length: int) -> bytes:
    size = length.to_bytes(8, "little")
    return size + masked_crc32c(crc32c(size)).to_bytes(4, "little")


def _footer(crc: int) -> bytes:
    return masked_crc32c(crc).to_bytes(4, "little")


def _tfds_features(manifest: Manifest) -> dict[str, Any]:
    if manifest.raw_height_width is None:
        image: dict[str, Any] = {
            "pythonClassName": "tensorflow_datasets.core.features.image_feature.Image",
            "image": {"dtype": "uint8", "encodingFormat": "jpeg", "shape": {"dimensions": ["-1", "-1", "3"]}},
        }
    else:
        height, width = manifest.raw_height_width
        image = {
            "pythonClassName": "tensorflow_datasets.core.features.tensor_feature.Tensor",
            "tensor": {
                "dtype": "uint8",
                "encoding": "bytes",
                "shape": {"dimensions": [str(height), str(width), "3"]},
            },
        }
    scalar = {
        "pythonClassName": "tensorflow_datasets.core.features.scalar.Scalar",
        "tensor": {"dtype": "int64", "encoding": "none", "shape": {}},
    }
    return {
        "image": image,
        "image/filename": {
            "pythonClassName": "tensorflow_datasets.core.features.text_feature.Text",
            "text": {},
        },
        "label": {
            "pythonClassName": "tensorflow_datasets.core.features.class_label_feature.ClassLabel",
            "classLabel": {"numClasses": str(len(manifest.class_names))},
        },
        "index": scalar,
        "orientation": scalar,
        "height": scalar,
        "width": scalar,
    }


def _is_ours(path: Path) -> bool:
    return (path / "dataset.json").is_file() and (path / "dataset_info.json").is_file()
