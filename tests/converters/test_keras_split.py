"""The division like Keras's, compared with Keras itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dataio.converters.scan import Scan, scan_folder
from dataio.converters.source import scan_source
from dataio.errors import SourceError


@pytest.fixture
def folder(tmp_path: Path, make_jpeg: Any) -> Path:
    """Classes of several sizes with nested folders, broken files, litter, and names that sort in surprising
    ways."""
    content = make_jpeg()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "1.jpg").write_bytes(content)
    root = tmp_path / "source"
    for name, count in (("b", 11), ("a", 7), ("a.x", 5), ("B", 3), ("ä", 4)):
        for number in range(count):
            for path in (root / name / f"{number}.jpg", root / name / "deep" / f"{number}.PNG"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        (root / name / "deep-er").mkdir()
        (root / name / "deep-er" / "x.jpeg").write_bytes(content)
        (root / name / "broken.jpg").write_bytes(b"text")
        (root / name / "._1.jpg").write_bytes(b"litter")
        (root / name / "not.listed.webp").write_bytes(content)
        (root / name / "linked").symlink_to(elsewhere)
    (root / "empty").mkdir()
    (root / ".hidden").mkdir()
    (root / ".hidden" / "1.jpg").write_bytes(content)
    return root


def by_keras(root: Path, validation_split: float, seed: int) -> tuple[list[str], dict[str, dict[bytes, int]]]:
    """Class names, and by part the label of each file."""
    import keras

    parts = {}
    for subset in ("training", "validation"):
        dataset = keras.utils.image_dataset_from_directory(
            str(root), validation_split=validation_split, subset=subset, seed=seed, label_mode="int", verbose=False
        )
        labels = [int(label) for label in keras_labels(root, validation_split, subset, seed)]
        paths = [path.removeprefix(f"{root}/").encode() for path in dataset.file_paths]
        parts[subset] = dict(zip(paths, labels, strict=True))
        names = list(dataset.class_names)
    return names, parts


def keras_labels(root: Path, validation_split: float, subset: str, seed: int) -> list[int]:
    """The labels that Keras pairs with `file_paths`: the dataset itself does not show them without
    decoding."""
    from keras.src.utils import dataset_utils

    formats = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
    paths, labels, _ = dataset_utils.index_directory(str(root), "inferred", formats, seed=seed, verbose=False)
    return list(dataset_utils.get_training_or_validation_split(paths, labels, validation_split, subset)[1])


def ours(scan: Scan, part: str) -> dict[bytes, int]:
    return {candidate.path: candidate.label for candidate in scan.splits[part]}


@pytest.mark.parametrize("seed", [0, 123, 2**32 - 1])
@pytest.mark.parametrize("share", ["0.1", "0.25", "0.5"])
def test_both_parts_hold_the_files_that_keras_puts_there(folder: Path, seed: int, share: str) -> None:
    text = f"train={1 - float(share)},val={share}"
    scan = scan_source(folder, split=text, split_like="keras", seed=seed)
    names, parts = by_keras(folder, float(share), seed)
    assert list(scan.class_names) == names
    litter = {path for part in parts.values() for path in part if b"/._" in path}
    assert len(litter) == 5
    for ours_name, theirs_name in (("train", "training"), ("val", "validation")):
        expected = {path: label for path, label in parts[theirs_name].items() if path not in litter}
        assert ours(scan, ours_name) == expected
        assert expected


def test_what_keras_does_not_list_is_left_out_and_said(folder: Path) -> None:
    scan = scan_source(folder, split="train=0.8,val=0.2", split_like="keras", seed=1)
    assert scan.skipped["not_listed_by_keras"] == 10
    assert any("not in the list that Keras makes" in warning for warning in scan.warnings)
    without = sum(len(part) for part in scan_folder(folder).splits.values())
    assert sum(len(part) for part in scan.splits.values()) == without - 10


def test_a_part_that_keras_would_leave_empty_is_an_error(tmp_path: Path, make_jpeg: Any) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").write_bytes(make_jpeg())
    with pytest.raises(SourceError, match="would put 0 of 2 files into val"):
        scan_source(tmp_path, split="train=0.9,val=0.1", split_like="keras", seed=1)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"split_like": "keras"}, "needs the shares too"),
        ({"split_like": "keras", "split": "a=0.5,b=0.25,c=0.25"}, "makes two parts"),
        ({"split_like": "keras", "split": "a=0.5,b=0.5", "seed": -1}, "seeds from 0"),
        ({"split_like": "keras", "split": "a=0.5,b=0.5", "labels": Path("labels.csv")}, "--labels"),
    ],
)
def test_options_that_do_not_go_together_are_refused(folder: Path, options: Any, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        scan_source(folder, **options)


def test_a_source_with_splits_is_not_divided_again(tmp_path: Path, make_jpeg: Any) -> None:
    for split in ("train", "val"):
        (tmp_path / split / "a").mkdir(parents=True)
        (tmp_path / split / "a" / "1.jpg").write_bytes(make_jpeg())
    for like in (None, "keras"):
        with pytest.raises(SourceError, match="found train, val"):
            scan_source(tmp_path, split="a=0.5,b=0.5", split_like=like)
