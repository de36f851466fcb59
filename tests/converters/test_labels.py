"""Labels from a CSV file: by path, strict, with line numbers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dataio.converters.labels import class_order, read_labels, scan_labelled
from dataio.errors import SourceError

JPEG = b"\xff\xd8\xff\xe0"


def plant(root: Path, *paths: str | bytes) -> Path:
    for path in paths:
        file = root / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(JPEG)
    return root


def written(folder: Path, *lines: str | bytes, ending: bytes = b"\n") -> Path:
    path = folder / "labels.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(ending.join(line if isinstance(line, bytes) else line.encode() for line in lines) + ending)
    return path


def test_labels_are_found_by_path_and_classes_sorted_by_name(tmp_path: Path) -> None:
    source = plant(tmp_path / "source", "2.jpg", "10.jpg", "deep/er/1.jpg", "1.JPG")
    csv = written(tmp_path, "path,label", "2.jpg,dog", "deep/er/1.jpg,Cat", "10.jpg,dog", "1.JPG,ant")
    scan = scan_labelled(source, read_labels(csv))
    assert scan.class_names == ("Cat", "ant", "dog")
    assert [(candidate.path, candidate.label) for candidate in scan.splits["train"]] == [
        (b"1.JPG", 1),
        (b"10.jpg", 2),
        (b"2.jpg", 2),
        (b"deep/er/1.jpg", 0),
    ]
    assert not scan.warnings and not scan.skipped


@pytest.mark.parametrize(
    "names, order",
    [
        (["b", "a", "B", "ä"], ("B", "a", "b", "ä")),
        (["10", "9", "0"], ("0", "9", "10")),
        (["10", "9", "x"], ("10", "9", "x")),
        (["10", "09"], ("09", "10")),
        (["2", "-1"], ("-1", "2")),
    ],
)
def test_classes_are_ordered_bytewise_or_as_the_whole_numbers_they_all_are(
    names: list[str], order: tuple[str, ...]
) -> None:
    assert class_order(names) == order


def test_numbers_from_zero_keep_their_value_as_label(tmp_path: Path) -> None:
    source = plant(tmp_path / "source", *(f"{number}.jpg" for number in range(12)))
    csv = written(tmp_path, "path,label", *(f"{number}.jpg,{number}" for number in range(12)))
    for candidate in scan_labelled(source, read_labels(csv)).splits["train"]:
        assert candidate.path == b"%d.jpg" % candidate.label


def test_quotes_byte_order_mark_windows_lines_and_blank_last_lines_are_understood(tmp_path: Path) -> None:
    source = plant(tmp_path / "source", "with, comma.jpg", 'with "quotes".jpg', "new\nline.jpg", "last.jpg")
    csv = written(
        tmp_path,
        b"\xef\xbb\xbfpath,label",
        '"with, comma.jpg",a',
        '"with ""quotes"".jpg",b',
        '"new\nline.jpg",a',
        "last.jpg,b",
        "",
        "",
        ending=b"\r\n",
    )
    scan = scan_labelled(source, read_labels(csv))
    assert {candidate.path: candidate.label for candidate in scan.splits["train"]} == {
        b"with, comma.jpg": 0,
        b'with "quotes".jpg': 1,
        b"new\nline.jpg": 0,
        b"last.jpg": 1,
    }


def test_names_that_are_not_utf8_are_matched_bytewise(tmp_path: Path) -> None:
    source = plant(tmp_path / "source", b"caf\xe9.jpg", "café.jpg")
    csv = written(tmp_path, "path,label", b"caf\xe9.jpg,latin", "café.jpg,utf")
    scan = scan_labelled(source, read_labels(csv))
    assert [scan.class_names[candidate.label] for candidate in scan.splits["train"]] == ["utf", "latin"]


@pytest.mark.parametrize(
    "lines, said",
    [
        ([""], "line 1: the header is ''"),
        (["file,class", "1.jpg,a"], "line 1: the header is 'file,class', not 'path,label'"),
        (["1.jpg,a"], "line 1: the header is '1.jpg,a'"),
        (["path,label"], "no labels after the header"),
        (["path,label", "1.jpg,a", "2.jpg"], "line 3: 1 columns, not 2"),
        (["path,label", "1.jpg,a,b"], "line 2: 3 columns, not 2"),
        (["path,label", "1.jpg,a", "  "], "line 3: 1 columns, not 2"),
        (["path,label", "1.jpg,a "], "line 2: the label 'a ' of 1.jpg has blanks around it"),
        (["path,label", "1.jpg, a"], "line 2: the label ' a' of 1.jpg has blanks around it"),
        (["path,label", "1.jpg,"], "line 2: the label '' of 1.jpg is empty"),
        (["path,label", '"a\nb.jpg",a', "1.jpg,"], "line 4: the label '' of 1.jpg is empty"),
        (["path,label", b"1.jpg,caf\xe9"], "line 2: the label of 1.jpg is not UTF-8"),
        (["path,label", "1.jpg,a", "2.jpg,b", "1.jpg,a"], "line 4: 1.jpg already has a label, in line 2"),
        (["path,label", "../1.jpg,a"], "line 2: '../1.jpg' is not a path below the source folder"),
        (["path,label", "/etc/passwd,a"], "line 2: '/etc/passwd' is not a path below the source folder"),
        (["path,label", "./1.jpg,a"], "line 2: './1.jpg' is not a path below the source folder"),
        (["path,label", "a//1.jpg,a"], "line 2: 'a//1.jpg' is not a path below the source folder"),
        (["path,label", ",a"], "line 2: '' is not a path below the source folder"),
        (["path,label", "1.jpg,a", '"2.jpg,b'], "line 3: not CSV"),
    ],
)
def test_rows_that_are_not_right_are_refused_with_their_line(
    tmp_path: Path, lines: list[str | bytes], said: str
) -> None:
    with pytest.raises(SourceError) as refused:
        read_labels(written(tmp_path, *lines))
    assert said in str(refused.value)
    assert "labels.csv" in str(refused.value)


def test_a_labels_file_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"labels\.csv: cannot be read"):
        read_labels(tmp_path / "labels.csv")


def test_paths_without_a_file_are_named_with_their_lines(tmp_path: Path) -> None:
    source = plant(tmp_path / "source", "1.jpg", "a/2.jpg", "._3.jpg")
    rows = [f"gone{number}.jpg,a" for number in range(4)]
    csv = written(tmp_path, "path,label", "1.jpg,a", "1.jpg ,a", "a\\2.jpg,a", "._3.jpg,a", *rows)
    with pytest.raises(SourceError) as refused:
        scan_labelled(source, read_labels(csv))
    said = str(refused.value)
    assert "7 paths have no file below" in said and "and 2 more" in said
    assert "line 3: 1.jpg  (a file without the blanks around it exists)" in said
    assert "line 4: a\\2.jpg (write / instead of \\)" in said
    assert "line 5: ._3.jpg (hidden files and litter are not read)" in said
    assert "line 6: gone0.jpg;" in said


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.binary(max_size=12), st.sampled_from([b"1.jpg,a", b'"', b"\r", b"\0,a", b"n" * 300 + b",a"])))
)
@example([b"n" * 5000 + b",a"])
@example([b"n" * 140_000 + b",a"])
@example([b"1.jpg,a", b'"1.jpg'])
def test_any_bytes_are_labels_or_a_clear_error(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = plant(Path(folder) / "source", "1.jpg")
        csv = written(Path(folder), "path,label", *lines)
        try:
            scan = scan_labelled(source, read_labels(csv))
        except SourceError as refused:
            assert "labels.csv" in str(refused)
        else:
            assert list(scan.splits["train"].paths()) == [b"1.jpg"]


def test_pictures_without_a_label_are_left_out_counted_and_said(tmp_path: Path) -> None:
    source = plant(tmp_path / "source", "1.jpg", "2.jpg", "3.jpg")
    (source / "notes.txt").write_text("text")
    scan = scan_labelled(source, read_labels(written(tmp_path, "path,label", "2.jpg,a")))
    assert list(scan.splits["train"].paths()) == [b"2.jpg"]
    assert scan.skipped == {"not_a_picture": 1, "unlabelled": 2}
    assert "2 pictures have no label" in scan.warnings[0] and "1.jpg" in scan.warnings[0]


def test_a_labelled_file_is_a_candidate_whatever_it_holds(tmp_path: Path) -> None:
    source = plant(tmp_path / "source", "1.jpg")
    (source / "notes.txt").write_text("text")
    scan = scan_labelled(source, read_labels(written(tmp_path, "path,label", "1.jpg,a", "notes.txt,a")))
    assert list(scan.splits["train"].paths()) == [b"1.jpg", b"notes.txt"]


def test_top_folders_named_as_splits_are_splits(tmp_path: Path) -> None:
    source = plant(tmp_path / "source", "train/1.jpg", "train/2.jpg", "val/1.jpg")
    csv = written(source, "path,label", "train/1.jpg,b", "train/2.jpg,a", "val/1.jpg,b")
    scan = scan_labelled(source, read_labels(csv))
    assert {name: part.labels.tolist() for name, part in scan.splits.items()} == {"train": [1, 0], "val": [1]}
    assert [candidate.index for candidate in scan.splits["val"]] == [0]


def test_the_labels_file_may_lie_in_the_folder(tmp_path: Path) -> None:
    source = plant(tmp_path, "1.jpg")
    scan = scan_labelled(source, read_labels(written(source, "path,label", "1.jpg,a")))
    assert len(scan.splits["train"]) == 1
