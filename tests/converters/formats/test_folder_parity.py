"""A folder gives what keras.utils.image_dataset_from_directory gives, and names the files that Keras fails on."""

from __future__ import annotations

import io
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import dataio
from dataio.converters.formats.folder import FolderData
from dataio.data import Data
from dataio.errors import DataNotFound, SourceError


def jpeg(number: int) -> bytes:
    """A picture like no other."""
    pixels = np.random.default_rng(number).integers(0, 255, (20, 24, 3), np.uint8)
    stored = io.BytesIO()
    Image.fromarray(pixels).save(stored, "JPEG")
    return stored.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Classes of several sizes whose names sort in surprising ways, with files below them and one that is broken."""
    root = tmp_path_factory.mktemp("source")
    number = 0
    for name, count in (("b", 11), ("a", 7), ("a.x", 5), ("B", 4)):
        for place in range(count):
            path = root / name / ("deep" if place % 3 == 0 else ".") / f"{place}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg(number))
            number += 1
    (root / "a" / "broken.jpg").write_bytes(b"this is text")
    return root


def contents(data: Data, split: str) -> dict[bytes, int]:
    """The label of every stored picture."""
    return {one["image"].numpy(): int(one["label"]) for one in data.records(split)}


def by_keras(folder: Path, **options: object) -> tuple[list[str], dict[bytes, int]]:
    """Class names, and the label of every picture by its content; Keras labels a file by its first folder."""
    dataset = keras.utils.image_dataset_from_directory(
        str(folder), label_mode="int", batch_size=None, image_size=(20, 24), verbose=False, **options
    )
    names = list(dataset.class_names)
    paths = [Path(path) for path in dataset.file_paths]
    return names, {path.read_bytes(): names.index(path.relative_to(folder).parts[0]) for path in paths}


def test_classes_and_labels_are_those_of_keras(folder: Path) -> None:
    data = dataio.open(folder)
    (split,) = data.splits
    names, labels = by_keras(folder)
    assert list(data.class_names) == names
    assert contents(data, split) == {content: label for content, label in labels.items() if content != b"this is text"}


@pytest.mark.parametrize("seed", [1, 1337])
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_the_sides_of_a_split_are_those_of_keras(folder: Path, seed: int, share: float) -> None:
    data = dataio.open(folder, split=f"train={1 - share},val={share}", split_like="keras", seed=seed)
    for ours, theirs in (("train", "training"), ("val", "validation")):
        _, labels = by_keras(folder, validation_split=share, subset=theirs, seed=seed)
        assert contents(data, ours) == {one: label for one, label in labels.items() if one != b"this is text"}


def test_a_file_that_keras_fails_on_is_left_out_and_reported(folder: Path) -> None:
    dataset = keras.utils.image_dataset_from_directory(str(folder), image_size=(20, 24), verbose=False)
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(dataset)
    data = dataio.open(folder)
    assert isinstance(data, FolderData)
    (outcome,) = data.outcomes
    assert (outcome.path, outcome.outcome) == ("a/broken.jpg", "rejected")
    assert outcome.reason in {"not_an_image", "corrupt"}
    assert data.split(next(iter(data.splits))).records == 27


def test_pictures_resized_whole_are_those_of_keras_within_rounding(folder: Path) -> None:
    recipe = dataio.Recipe(image_size=(16, 16), batch_size=27, crop="resize", dtype="float32", normalisation="none")
    data = dataio.open(folder)
    ((images, labels),) = list(dataio.build(data, recipe, split=next(iter(data.splits)), training=False))
    _, theirs = by_keras(folder)
    ours = dict(zip(contents(data, next(iter(data.splits))), images, strict=True))
    for content in theirs:
        if content == b"this is text":
            continue
        expected = tf.image.resize(tf.io.decode_image(content, channels=3, expand_animations=False), (16, 16))
        assert np.abs(ours[content] - expected).mean() < 2  # another transform of the JPEG, and whole levels
    assert sorted(labels.numpy().tolist()) == sorted(label for one, label in theirs.items() if one != b"this is text")


def test_a_folder_may_be_divided_by_shares_alone(folder: Path) -> None:
    data = dataio.open(folder, split="train=0.75,val=0.25", seed=5)
    assert set(data.splits) == {"train", "val"}
    assert sum(split.records for split in data.splits.values()) == 27


def test_only_folders_of_pictures_are_divided(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match="nothing is there"):
        dataio.open(tmp_path / "missing", split="train=0.9,val=0.1")
    for name in ("dataset_info.json", "features.json"):  # what TFDS leaves beside its shards
        (tmp_path / name).write_text("{}")
    with pytest.raises(SourceError, match="keeps the splits"):
        dataio.open(tmp_path, split="train=0.9,val=0.1")
