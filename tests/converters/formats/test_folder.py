"""A plain folder as a dataset: what it holds, in which order, and what happens when files change under it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from dataio.converters.formats.folder import FolderData, FolderFormat
from dataio.converters.imaging import Picture, decide
from dataio.data import Order, Read, Shard, Split
from dataio.errors import DataDamaged, DataNotFound, SourceError


def opened(root: Path) -> FolderData:
    return FolderFormat().open(root)


def listed(dataset: tf.data.Dataset) -> list[dict[str, Any]]:
    return list(dataset.as_numpy_iterator())


def epoch(number: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(tf.constant(number, tf.int64))


@pytest.fixture
def odd_folder(tmp_path: Path, odd_files: Any) -> Path:
    """Every odd file, in two classes by turns."""
    for number, file in enumerate(odd_files):
        path = tmp_path / "ab"[number % 2] / f"{file.name}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(file.content)
    return tmp_path


def test_a_folder_gives_the_records_that_conversion_would_store(odd_folder: Path) -> None:
    data = opened(odd_folder)
    paths = sorted(path for path in odd_folder.rglob("*.jpg"))
    expected = []
    for index, path in enumerate(paths):
        decided = decide(path.read_bytes())
        if isinstance(decided, Picture):
            expected.append((decided, "ab".index(path.parent.name), index))
    records = listed(data.records("train"))
    assert data.splits["train"].records == len(records) == len(expected)
    for record, (picture, label, index) in zip(records, expected, strict=True):
        assert record["image"] == picture.image
        assert (record["label"], record["index"]) == (label, index)
        assert (record["orientation"], record["height"], record["width"]) == (
            picture.orientation,
            picture.height,
            picture.width,
        )


def test_the_outcomes_name_what_is_left_out_and_what_is_remade(odd_folder: Path, odd_files: Any) -> None:
    outcomes = {Path(outcome.path).stem: outcome for outcome in opened(odd_folder).outcomes}
    unusual = {file.name: file for file in odd_files if file.outcome != "accept"}
    assert outcomes.keys() == unusual.keys()
    for name, outcome in outcomes.items():
        assert outcome.outcome == unusual[name].outcome.replace("ject", "jected").replace("code", "coded")
        assert outcome.reason == unusual[name].reason


def test_counts_are_those_of_the_readable_files(tmp_path: Path, make_jpeg: Any) -> None:
    content = make_jpeg()
    for split, count in (("train", 5), ("val", 2)):
        for number in range(count):
            path = tmp_path / split / "only" / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    (tmp_path / "train" / "only" / "broken.jpg").write_bytes(content[:300])
    data = opened(tmp_path)
    assert data.splits == {"train": Split(5, 5, 5 * len(content)), "val": Split(2, 2, 2 * len(content))}
    dataset = data.records("train")
    assert dataset.cardinality().numpy() == 5
    assert [record["index"] for record in listed(dataset)] == [0, 1, 2, 3, 4]


def many(root: Path, content: bytes, count: int = 120) -> FolderData:
    (root / "a").mkdir()
    for number in range(count):
        (root / "a" / f"{number:04}.jpg").write_bytes(content)
    return opened(root)


def test_every_epoch_has_each_record_once_in_an_order_of_its_own(tmp_path: Path, make_jpeg: Any) -> None:
    data = many(tmp_path, make_jpeg())
    orders = [
        [int(record["index"]) for record in listed(data.records("train", order=Order(seed=7, epoch=epoch(number))))]
        for number in (0, 1, 0)
    ]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(120))
    assert orders[0] == orders[2] != orders[1]
    assert orders[0] != list(range(120))


@pytest.mark.parametrize("seed", [None, 3])
def test_shards_split_the_records_between_them(tmp_path: Path, make_jpeg: Any, seed: int | None) -> None:
    data = many(tmp_path, make_jpeg())
    order = Order() if seed is None else Order(seed=seed, epoch=epoch(2))
    seen = [
        [int(record["index"]) for record in listed(data.records("train", order=order, shard=Shard(7, part)))]
        for part in range(7)
    ]
    assert sorted(index for part in seen for index in part) == list(range(120))
    assert {len(part) for part in seen} == {17, 18}


def test_reading_in_parallel_gives_the_same_records(tmp_path: Path, make_jpeg: Any) -> None:
    data = many(tmp_path, make_jpeg())
    serial = listed(data.records("train", read=Read(cycle_length=1, block_length=1)))
    parallel = listed(data.records("train", read=Read(cycle_length=4, block_length=16)))
    assert serial == parallel


def test_a_split_that_does_not_exist_or_is_empty_is_named(tmp_path: Path, make_jpeg: Any) -> None:
    (tmp_path / "train" / "a").mkdir(parents=True)
    (tmp_path / "val" / "a").mkdir(parents=True)
    (tmp_path / "train" / "a" / "1.jpg").write_bytes(make_jpeg())
    data = opened(tmp_path)
    with pytest.raises(DataNotFound, match="no split named 'test'"):
        data.records("test")
    assert data.splits["val"].records == 0
    with pytest.raises(DataNotFound, match="no picture in split 'val'"):
        data.records("val")


def test_a_folder_of_nothing_but_broken_files_is_an_error_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(b"<html>")
    with pytest.raises(DataDamaged, match=r"none of the 1 files .* a/1\.jpg, is not_an_image"):
        _ = opened(tmp_path).splits


def test_a_folder_without_pictures_is_an_error(tmp_path: Path) -> None:
    assert FolderFormat().recognises(tmp_path)
    assert not FolderFormat().recognises(tmp_path / "nowhere")
    with pytest.raises(SourceError):
        opened(tmp_path)


@pytest.mark.parametrize("change", ["remove", "break"])
def test_a_file_that_changes_under_the_reader_is_named(tmp_path: Path, make_jpeg: Any, change: str) -> None:
    data = many(tmp_path, make_jpeg(), 3)
    dataset = data.records("train")
    if change == "remove":
        (tmp_path / "a" / "0001.jpg").unlink()
    else:
        (tmp_path / "a" / "0001.jpg").write_bytes(b"text")
    with pytest.raises(tf.errors.OpError, match=r"0001\.jpg"):
        listed(dataset)


def test_a_file_that_cannot_be_read_is_left_out_and_named(tmp_path: Path, make_jpeg: Any) -> None:
    many(tmp_path, make_jpeg(), 3)
    (tmp_path / "a" / "0001x.jpg").symlink_to(tmp_path / "gone.jpg")
    data = opened(tmp_path)
    assert [record["index"] for record in listed(data.records("train"))] == [0, 1, 3]
    assert [(outcome.path, outcome.reason) for outcome in data.outcomes] == [("a/0001x.jpg", "unreadable")]


def test_the_fingerprint_changes_when_a_file_does(tmp_path: Path, make_jpeg: Any) -> None:
    before = many(tmp_path, make_jpeg(), 3).fingerprint
    assert opened(tmp_path).fingerprint == before
    (tmp_path / "a" / "0001.jpg").write_bytes(make_jpeg(quality=50))
    edited = opened(tmp_path).fingerprint
    (tmp_path / "a" / "0003.jpg").write_bytes(make_jpeg())
    assert len({before, edited, opened(tmp_path).fingerprint}) == 3


def test_an_opened_folder_can_be_sent_to_another_process(tmp_path: Path, make_jpeg: Any) -> None:
    data = many(tmp_path, make_jpeg(), 3)
    copy = pickle.loads(pickle.dumps(data))
    assert listed(copy.records("train")) == listed(data.records("train"))


def test_labels_and_class_names_of_the_photographs_agree(photos: Path) -> None:
    data = opened(photos)
    assert np.bincount([record["label"] for record in listed(data.records("train"))]).sum() == 47
    assert data.describe()["splits"]["train"]["records"] == 47
    assert len(data.class_names) == 19
