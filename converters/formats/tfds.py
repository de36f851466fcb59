"""Folders that TensorFlow Datasets prepared: any dataset of TFRecord files with one image and one label
feature.

The description is read from TFDS's own JSON files, without importing TFDS or TensorFlow. Source: the JSON
form of tensorflow_datasets/core/proto/dataset_info.proto and feature.proto, as TFDS 4.9 writes them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dataio.converters.blocks import BLOCK_RECORDS
from dataio.converters.format import Format
from dataio.converters.imaging import Rejected, decide
from dataio.converters.sequential import RecordFile, read_files
from dataio.data import RECORD_FIELDS, Data, Order, Read, Shard, Split
from dataio.errors import DataDamaged, DataioError, DataNotFound

if TYPE_CHECKING:
    import tensorflow as tf

INFO_NAME, FEATURES_NAME = "dataset_info.json", "features.json"

#: How shards are called unless the description says otherwise. Source: tensorflow_datasets/core/naming.py,
#: DEFAULT_FILENAME_TEMPLATE; numbers have five digits.
_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


#: Signature of a PNG with the length and name of its first chunk. Source: PNG (W3C) 5.2 and 11.2.2.
_PNG_START = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"

#: Bytes of the first shard that are searched for the beginning of a picture.
_LOOKED_AT_BYTES = 1 << 20


#: More classes than any dataset has; a description that claims more is not believed.
_MOST_CLASSES = 10_000_000


class TfdsData(Data):
    """A dataset that TFDS prepared.

    Nothing in it says which file a record came from, so `index` is the record's position in stored order.
    Pictures of datasets that hold JPEGs pass the converter's own decision, so that orientations are known and
    what is no JPEG in truth becomes one; PNG datasets stay PNG.
    """

    format = "tfds"
    random_access = False

    def __init__(
        self,
        path: Path,
        *,
        image_feature: str,
        label_feature: str,
        encoding: Literal["jpeg", "png"],
        class_names: tuple[str, ...],
        files: Mapping[str, Sequence[RecordFile]],
    ) -> None:
        self.path = path
        self.encoding = encoding
        self.class_names = class_names
        self._image_feature = image_feature
        self._label_feature = label_feature
        self._files = files
        sizes = {file.path: Path(file.path).stat().st_size for some in files.values() for file in some}
        self.splits = {
            name: Split(sum(file.records for file in some), len(some), sum(sizes[file.path] for file in some))
            for name, some in files.items()
        }
        described = json.dumps([[Path(file).name, size] for file, size in sizes.items()]).encode()
        self.fingerprint = hashlib.sha256((path / INFO_NAME).read_bytes() + described).hexdigest()

    def records(
        self, split: str, *, read: Read | None = None, order: Order | None = None, shard: Shard | None = None
    ) -> tf.data.Dataset:
        """As `Data.records`: shards in an order of their own each epoch, then a buffer of `order.buffer`
        records."""
        import tensorflow as tf

        self.split(split)
        read = read or Read()
        features = {
            self._image_feature: tf.io.FixedLenFeature([], tf.string),
            self._label_feature: tf.io.FixedLenFeature([], tf.int64),
        }
        kinds = [tf.string, tf.int64, tf.int64, tf.int64]

        def parse(content: tf.Tensor, position: tf.Tensor) -> dict[str, tf.Tensor]:
            found = tf.io.parse_example(content, features)
            values = tf.numpy_function(self._pictures, [found[self._image_feature], position], kinds)
            for value in values:
                value.set_shape([None])
            image, *numbers = values
            columns = (image, found[self._label_feature], position, *numbers)
            return dict(zip(RECORD_FIELDS, columns, strict=True))

        stored = read_files(self._files[split], read=read, order=order, shard=shard)
        blocks = stored.batch(read.block_length or BLOCK_RECORDS)
        if read.cycle_length == 1:
            parsed = blocks.map(parse)
        else:
            calls: Any = read.cycle_length or tf.data.AUTOTUNE
            parsed = blocks.map(parse, num_parallel_calls=calls, deterministic=read.deterministic)
        return parsed.unbatch().apply(tf.data.experimental.assert_cardinality(stored.cardinality()))

    def _pictures(self, images: npt.NDArray[np.object_], positions: npt.NDArray[np.int64]) -> list[np.ndarray]:
        """`image`, `orientation`, `height` and `width` of a block of stored pictures."""
        stored = np.empty(len(images), object)
        numbers = np.empty((3, len(images)), np.int64)
        for row, image in enumerate(images):
            if self.encoding == "png" and image[:16] == _PNG_START and len(image) >= 24:
                # Source: PNG (W3C) 11.2.2: IHDR is the first chunk, width and height its first fields,
                # big-endian.
                height, width = int.from_bytes(image[20:24], "big"), int.from_bytes(image[16:20], "big")
                stored[row], numbers[:, row] = image, (1, height, width)
                continue
            decided = decide(image)
            if isinstance(decided, Rejected):
                raise DataDamaged(
                    f"{self.path}: the picture of record {positions[row]} is {decided.reason}: {decided.detail}"
                )
            stored[row] = decided.image
            numbers[:, row] = decided.orientation, decided.height, decided.width
        return [stored, *numbers]


class TfdsFormat(Format):
    """Recognises and opens what TFDS prepared."""

    name = "tfds"

    def recognises(self, path: Path) -> bool:
        """Whether TFDS's two descriptions lie in the folder."""
        return (path / INFO_NAME).is_file() and (path / FEATURES_NAME).is_file()

    def open(self, path: Path) -> TfdsData:
        """The dataset whose version folder is `path`.

        Raises:
            DataNotFound: not TFRecord files, or not one image and one label a record.
            DataDamaged: a description that cannot be read, or a missing shard.
        """
        info, features = _json(path / INFO_NAME), _json(path / FEATURES_NAME)
        try:
            image, label, said, classes = _features(path, info, features)
            files = _files(path, info)
        except DataioError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as problem:
            raise DataDamaged(
                f"{path}: {INFO_NAME} or {FEATURES_NAME} is not as TFDS writes it: {problem}"
            ) from problem
        return TfdsData(
            path,
            image_feature=image,
            label_feature=label,
            encoding="png" if said == "png" or (said is None and _begins_with_png(files)) else "jpeg",
            class_names=_class_names(path / f"{label}.labels.txt", classes),
            files=files,
        )


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise DataDamaged(f"{path}: cannot be read as JSON: {problem}") from problem
    if not isinstance(content, dict):
        raise DataDamaged(f"{path}: holds {type(content).__name__}, not an object")
    return content


def _features(path: Path, info: dict[str, Any], features: dict[str, Any]) -> tuple[str, str, str | None, int]:
    """(image feature, label feature, encoding where it is said, number of classes)."""
    found = features["featuresDict"]["features"]
    supervised = [item.get("featureKey") for item in info.get("supervisedKeys", {}).get("tuple", {}).get("items", [])]
    image = _only(path, "image", [name for name, feature in found.items() if "image" in feature], supervised[:1])
    label = _only(path, "label", [name for name, feature in found.items() if "classLabel" in feature], supervised[1:2])
    described = found[image]["image"]
    if described.get("dtype", "uint8") != "uint8":
        raise DataNotFound(f"{path}: feature {image!r} holds {described['dtype']} samples; only uint8 can be read")
    return image, label, described.get("encodingFormat"), int(found[label]["classLabel"]["numClasses"])


def _only(path: Path, what: str, names: list[str], supervised: list[str]) -> str:
    """The one feature of a kind: that of as_supervised where there are several."""
    chosen = [name for name in names if name in supervised] or names
    if len(chosen) != 1:
        found = ", ".join(names) or "none"
        raise DataNotFound(f"{path}: needs one {what} feature a record, found {found}")
    return chosen[0]


def _files(path: Path, info: dict[str, Any]) -> dict[str, list[RecordFile]]:
    kind = info.get("fileFormat", "tfrecord")
    if kind != "tfrecord":
        raise DataNotFound(f"{path}: holds {kind} files; prepare it with file_format='tfrecord'")
    files = {}
    for split in info["splits"]:
        lengths = [int(length) for length in split.get("shardLengths", [])]
        if any(length < 0 for length in lengths):
            raise DataDamaged(f"{path}: a shard of split {split['name']!r} has {min(lengths)} records")
        files[split["name"]] = [
            RecordFile(str(path / _shard_name(info["name"], split, number, len(lengths))), length)
            for number, length in enumerate(lengths)
        ]
    for file in (file for some in files.values() for file in some):
        if not Path(file.path).is_file():
            raise DataDamaged(f"{path}: the shard {Path(file.path).name} is missing; prepare the dataset again")
    return files


def _shard_name(dataset: str, split: Mapping[str, Any], number: int, count: int) -> str:
    name = split.get("filepathTemplate") or _TEMPLATE
    values = {
        "DATASET": dataset,
        "SPLIT": split["name"],
        "FILEFORMAT": "tfrecord",
        "SHARD_INDEX": f"{number:05}",
        "NUM_SHARDS": f"{count:05}",
        "SHARD_X_OF_Y": f"{number:05}-of-{count:05}",
    }
    for key, value in values.items():
        name = name.replace("{" + key + "}", value)
    # A description is input like any other: it names files in its own folder and no others.
    return Path(name).name


def _begins_with_png(files: Mapping[str, Sequence[RecordFile]]) -> bool:
    """Whether the first record holds a PNG: where a dataset says nothing of its encoding, TFDS made PNGs of
    arrays and stored files as they were.
    """
    first = next((file for some in files.values() for file in some if file.records), None)
    if first is None:
        return False
    with open(first.path, "rb") as shard:
        record = shard.read(_LOOKED_AT_BYTES)
    png, jpeg = record.find(_PNG_START), record.find(b"\xff\xd8\xff")
    return png >= 0 and (jpeg < 0 or png < jpeg)


def _class_names(path: Path, count: int) -> tuple[str, ...]:
    """Names of the classes: a line each in the file beside the features, else their numbers."""
    if not 0 < count <= _MOST_CLASSES:
        raise DataDamaged(f"{path.parent}: {FEATURES_NAME} claims {count} classes")
    if not path.is_file():
        return tuple(str(label) for label in range(count))
    names = tuple(line.strip() for line in path.read_text("utf-8", "backslashreplace").split("\n") if line.strip())
    if len(names) != count:
        raise DataDamaged(f"{path}: names {len(names)} classes, {FEATURES_NAME} says {count}")
    return names
