"""Datasets that TFDS prepared, read without TFDS."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from dataio.converters.formats.tfds import TfdsData, TfdsFormat
from dataio.data import Order, Read, Shard
from dataio.errors import DataDamaged, DataNotFound

COUNT = 23


def opened(path: Path) -> TfdsData:
    return TfdsFormat().open(path)


def listed(dataset: tf.data.Dataset) -> list[dict[str, Any]]:
    return list(dataset.as_numpy_iterator())


def epoch(number: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(tf.constant(number, tf.int64))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, make_picture: Any) -> dict[str, Path]:
    """Two datasets that TFDS itself prepared, one of JPEGs and one of PNGs: pictures of growing width."""
    import tensorflow_datasets as tfds

    class Pictures(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
        VERSION = tfds.core.Version("1.0.0")
        BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in ("jpeg", "png")]
        code_path = None  # TFDS would look for files beside this module

        def _info(self) -> Any:
            image = tfds.features.Image(shape=(None, None, 3), encoding_format=self.builder_config.name)
            names = tfds.features.ClassLabel(names=["cat", "dog"])
            features = tfds.features.FeaturesDict({"picture": image, "text": tfds.features.Text(), "kind": names})
            return tfds.core.DatasetInfo(builder=self, features=features, supervised_keys=("picture", "kind"))

        def _split_generators(self, _: Any) -> Any:
            return {"train": self._generate_examples(COUNT), "test": self._generate_examples(2)}

        def _generate_examples(self, count: int) -> Any:
            for number in range(count):
                yield number, {"picture": make_picture(20, 30 + number), "text": "x", "kind": number % 2}

    folder = tmp_path_factory.mktemp("tfds")
    paths = {}
    for name in ("jpeg", "png"):
        builder = Pictures(data_dir=folder, config=name)
        builder.download_and_prepare()
        paths[name] = Path(builder.data_dir)
    return paths


@pytest.mark.parametrize("encoding", ["jpeg", "png"])
def test_a_prepared_dataset_is_read_as_tfds_reads_it(prepared: dict[str, Path], encoding: str) -> None:
    import tensorflow_datasets as tfds

    path = prepared[encoding]
    assert TfdsFormat().recognises(path)
    data = opened(path)
    assert (data.encoding, data.class_names) == (encoding, ("cat", "dog"))
    assert {name: split.records for name, split in data.splits.items()} == {"train": COUNT, "test": 2}
    builder = tfds.builder_from_directory(str(path))
    truth = list(builder.as_dataset(split="train", as_supervised=True, shuffle_files=False).as_numpy_iterator())
    records = listed(data.records("train"))
    assert len(records) == len(truth) == COUNT
    for position, (record, (image, label)) in enumerate(zip(records, truth, strict=True)):
        assert (record["index"], record["label"], record["orientation"]) == (position, label, 1)
        assert (record["height"], record["width"]) == image.shape[:2]
        assert np.array_equal(tf.io.decode_image(record["image"]), image)


def write_dataset(
    path: Path, images: list[bytes], *, shards: int = 1, info: Any = None, features: Any = None, classes: int = 3
) -> Path:
    """A folder as TFDS would have left it, with pictures that TFDS would not have encoded so."""
    path.mkdir(parents=True, exist_ok=True)
    cuts = [len(images) * number // shards for number in range(shards + 1)]
    for number in range(shards):
        name = f"made-train.tfrecord-{number:05}-of-{shards:05}"
        with tf.io.TFRecordWriter(str(path / name)) as writer:
            for position in range(cuts[number], cuts[number + 1]):
                feature = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[images[position]])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[position % classes])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())
    lengths = [str(cuts[number + 1] - cuts[number]) for number in range(shards)]
    described = {"name": "made", "splits": [{"name": "train", "shardLengths": lengths}], "fileFormat": "tfrecord"}
    image = {"image": {"dtype": "uint8", "shape": {"dimensions": ["-1", "-1", "3"]}, "encodingFormat": "jpeg"}}
    known = {"image": image, "label": {"classLabel": {"numClasses": str(classes)}}}
    (path / "dataset_info.json").write_text(json.dumps(described | (info or {})))
    (path / "features.json").write_text(json.dumps({"featuresDict": {"features": known | (features or {})}}))
    return path


def test_orientations_of_stored_jpegs_are_found_and_other_kinds_become_jpegs(tmp_path: Path, odd_files: Any) -> None:
    good = [file for file in odd_files if file.outcome != "reject"]
    data = opened(write_dataset(tmp_path, [file.content for file in good]))
    records = listed(data.records("train"))
    assert [record["orientation"] for record in records] == [file.orientation for file in good]
    for record, file in zip(records, good, strict=True):
        assert record["image"][:2] == b"\xff\xd8"
        assert (record["image"] == file.content) is (file.outcome == "accept")


def test_without_a_stated_encoding_the_first_picture_decides(
    tmp_path: Path, odd_files: Any, make_jpeg: Callable[..., bytes]
) -> None:
    png = next(file.content for file in odd_files if file.name == "png_16_bit")
    unsaid = {"image": {"image": {"dtype": "uint8", "shape": {"dimensions": ["-1", "-1", "3"]}}}}
    lossless = opened(write_dataset(tmp_path / "png", [png, make_jpeg()], features=unsaid))
    assert lossless.encoding == "png"
    records = listed(lossless.records("train"))
    assert [record["image"] for record in records] == [png, make_jpeg()]
    assert [(record["height"], record["width"]) for record in records] == [(48, 72), (48, 72)]
    assert opened(write_dataset(tmp_path / "jpeg", [make_jpeg(), png], features=unsaid)).encoding == "jpeg"


def test_a_broken_picture_is_named_by_its_position(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> None:
    data = opened(write_dataset(tmp_path, [make_jpeg(), make_jpeg()[:400]]))
    with pytest.raises(tf.errors.OpError, match="record 1 is truncated"):
        listed(data.records("train"))


def test_classes_without_names_are_called_by_their_numbers(tmp_path: Path, make_jpeg: Any) -> None:
    assert opened(write_dataset(tmp_path, [make_jpeg()])).class_names == ("0", "1", "2")


@pytest.mark.parametrize("read", [Read(), Read(cycle_length=1), Read(cycle_length=3, block_length=2)])
@pytest.mark.parametrize("shards", [1, 4])
def test_every_epoch_has_each_record_once_and_shards_split_them(
    tmp_path: Path, make_jpeg: Any, read: Read, shards: int
) -> None:
    data = opened(write_dataset(tmp_path, [make_jpeg()] * 30, shards=shards))
    stored = listed(data.records("train", read=read))
    assert [record["index"] for record in stored] == list(range(30))
    assert [record["label"] for record in stored] == [position % 3 for position in range(30)]
    orders = []
    for number in (0, 1, 0):
        order = Order(seed=5, epoch=epoch(number), buffer=8)
        dataset = data.records("train", read=read, order=order)
        assert dataset.cardinality().numpy() == 30
        orders.append([int(record["index"]) for record in listed(dataset)])
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(30))
    assert orders[0] == orders[2] != orders[1]
    order = Order(seed=5, epoch=epoch(0), buffer=8)
    parts = [listed(data.records("train", read=read, order=order, shard=Shard(4, part))) for part in range(4)]
    assert sorted(int(record["index"]) for part in parts for record in part) == list(range(30))


def test_labels_stay_with_their_pictures_when_shuffled(tmp_path: Path, make_jpeg: Any, make_picture: Any) -> None:
    images = [make_jpeg(make_picture(16, 20 + position)) for position in range(12)]
    data = opened(write_dataset(tmp_path, images, shards=3))
    for record in listed(data.records("train", order=Order(seed=1, epoch=epoch(0)))):
        assert record["width"] == 20 + record["index"]
        assert record["label"] == record["index"] % 3


@pytest.mark.parametrize(
    "info, features, error, said",
    [
        ({"fileFormat": "array_record"}, {}, DataNotFound, "array_record"),
        ({}, {"mask": {"image": {}}}, DataNotFound, "one image feature a record, found image, mask"),
        ({}, {"label": {}}, DataNotFound, "one label feature a record, found none"),
        ({}, {"image": {"image": {"dtype": "uint16"}}}, DataNotFound, "uint16"),
        ({"splits": [{"name": "train", "shardLengths": ["1", "1"]}]}, {}, DataDamaged, "is missing"),
        ({"splits": None}, {}, DataDamaged, "not as TFDS writes it"),
        ({"splits": [{"name": "train", "shardLengths": ["many"]}]}, {}, DataDamaged, "not as TFDS writes it"),
        ({"splits": [{"name": "train", "shardLengths": ["-1"]}]}, {}, DataDamaged, "has -1 records"),
        ({}, {"label": {"classLabel": {"numClasses": "10000000000"}}}, DataDamaged, "claims 10000000000 classes"),
        ({}, {"label": {"classLabel": {"numClasses": "0"}}}, DataDamaged, "claims 0 classes"),
        ({"supervisedKeys": 3}, {}, DataDamaged, "not as TFDS writes it"),
    ],
)
def test_what_cannot_be_read_is_said(
    tmp_path: Path, make_jpeg: Any, info: Any, features: Any, error: type[Exception], said: str
) -> None:
    path = write_dataset(tmp_path, [make_jpeg()], info=info, features=features)
    with pytest.raises(error, match=said):
        opened(path)


def test_of_several_features_those_for_supervised_training_are_taken(tmp_path: Path, make_jpeg: Any) -> None:
    keys = {"tuple": {"items": [{"featureKey": "image"}, {"featureKey": "label"}]}}
    path = write_dataset(
        tmp_path,
        [make_jpeg()],
        info={"supervisedKeys": keys},
        features={"mask": {"image": {}}, "breed": {"classLabel": {"numClasses": "37"}}},
    )
    assert len(listed(opened(path).records("train"))) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(
    key=st.sampled_from(["name", "splits", "fileFormat", "supervisedKeys", "image", "label", "featuresDict"]),
    value=json_values,
)
def test_any_description_is_read_or_a_clear_error(key: str, value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        image = {"image": {"dtype": "uint8", "encodingFormat": "jpeg"}}
        features: dict[str, Any] = {"image": image, "label": {"classLabel": {"numClasses": "2"}}}
        info: dict[str, Any] = {"name": "made", "splits": [], "fileFormat": "tfrecord"}
        (features if key in features else info)[key] = value
        described = {"featuresDict": value if key == "featuresDict" else {"features": features}}
        (Path(folder) / "features.json").write_text(json.dumps(described))
        (Path(folder) / "dataset_info.json").write_text(json.dumps(info))
        try:
            opened(Path(folder))
        except (DataDamaged, DataNotFound) as problem:
            assert folder in str(problem)


@pytest.mark.parametrize("name", ["dataset_info.json", "features.json"])
def test_a_description_that_is_no_json_is_damage(tmp_path: Path, make_jpeg: Any, name: str) -> None:
    path = write_dataset(tmp_path, [make_jpeg()])
    (path / name).write_text("{")
    with pytest.raises(DataDamaged, match=name):
        opened(path)


def test_a_description_cannot_name_files_of_other_folders(tmp_path: Path, make_jpeg: Any) -> None:
    path = write_dataset(tmp_path / "inner", [make_jpeg()])
    (tmp_path / "outer").write_bytes(b"")
    template = {"name": "train", "shardLengths": ["1"], "filepathTemplate": "../outer"}
    write_dataset(path, [make_jpeg()], info={"splits": [template]})
    with pytest.raises(DataDamaged, match="outer is missing"):
        opened(path)


def test_the_fingerprint_changes_with_the_shards(tmp_path: Path, make_jpeg: Any) -> None:
    before = opened(write_dataset(tmp_path, [make_jpeg()] * 3)).fingerprint
    assert opened(tmp_path).fingerprint == before
    assert opened(write_dataset(tmp_path, [make_jpeg(quality=50)] * 3)).fingerprint != before
