"""Scanning: which files are candidates, in which class, split and order, and which layouts are refused."""

from __future__ import annotations

import inspect
import os
import random
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataio.converters.candidates import Candidate, CandidatesBuilder
from dataio.converters.scan import Scan, scan_folder
from dataio.errors import SourceError

JPEG = b"\xff\xd8\xff\xe0"


def plant(root: Path, *paths: str | bytes, content: bytes = JPEG) -> Path:
    """Makes files below `root`; returns `root`."""
    for path in paths:
        file = root / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return root


def found(scan: Scan, split: str = "train") -> list[bytes]:
    return list(scan.splits[split].paths())


def test_classes_are_the_top_folders_in_bytewise_order(tmp_path: Path) -> None:
    scan = scan_folder(plant(tmp_path, "b/1.jpg", "a/1.jpg", "B/1.jpg", "ä/1.jpg", "10/1.jpg", "9/1.jpg"))
    assert scan.class_names == ("10", "9", "B", "a", "b", "ä")
    assert list(scan.splits) == ["train"]
    assert [candidate.label for candidate in scan.splits["train"]] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("names", [("train", "val"), ("train", "valid", "test"), ("validation",), ("Train", "Test")])
def test_top_folders_that_are_all_named_as_splits_are_splits(tmp_path: Path, names: tuple[str, ...]) -> None:
    scan = scan_folder(plant(tmp_path, *(f"{name}/{cat}/1.jpg" for name in names for cat in ("x", "y"))))
    assert sorted(scan.splits) == sorted(name.lower() for name in names)
    assert scan.class_names == ("x", "y")
    for name in names:
        assert found(scan, name.lower()) == [f"{name}/x/1.jpg".encode(), f"{name}/y/1.jpg".encode()]


def test_split_folders_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="differ in case only"):
        scan_folder(plant(tmp_path, "train/a/1.jpg", "Train/a/1.jpg"))


def test_one_top_folder_that_is_no_split_makes_all_of_them_classes(tmp_path: Path) -> None:
    scan = scan_folder(plant(tmp_path, "train/a/1.jpg", "extra/a/1.jpg"))
    assert scan.class_names == ("extra", "train")


def test_labels_agree_between_splits_when_one_lacks_a_class(tmp_path: Path) -> None:
    scan = scan_folder(plant(tmp_path, "train/a/1.jpg", "train/c/1.jpg", "val/b/1.jpg", "val/c/1.jpg"))
    assert scan.class_names == ("a", "b", "c")
    assert scan.splits["train"].labels.tolist() == [0, 2]
    assert scan.splits["val"].labels.tolist() == [1, 2]
    assert any("split val" in warning and "a" in warning for warning in scan.warnings)


def test_paths_come_in_bytewise_order_whatever_the_folders_look_like(tmp_path: Path) -> None:
    paths = ["a/x.jpg", "a.b/x.jpg", "a/x/y.jpg", "a/x.z/y.jpg", "a/x-1.jpg", "a/X.jpg", "a0/x.jpg", "a/é.jpg"]
    random.Random(0).shuffle(paths)
    scan = scan_folder(plant(tmp_path, *paths))
    assert found(scan) == sorted(path.encode() for path in paths)
    assert [candidate.index for candidate in scan.splits["train"]] == list(range(len(paths)))


parts = st.text(st.sampled_from("aB.-0é "), min_size=1, max_size=3).filter(lambda name: name[0] != ".")
trees = st.lists(st.lists(parts, min_size=2, max_size=4), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(tree=trees)
def test_any_tree_is_listed_once_and_in_bytewise_path_order(tree: list[list[str]]) -> None:
    # Folders end in "+", files in ".jpg": no name is both.
    paths = {"+/".join(path) + ".jpg" for path in tree} | {"other+/1.jpg"}
    with tempfile.TemporaryDirectory() as folder:
        scan = scan_folder(plant(Path(folder), "direct+/1.jpg", *paths))
    assert found(scan) == sorted(path.encode() for path in paths | {"direct+/1.jpg"})


@pytest.mark.parametrize(
    "litter",
    [
        ".DS_Store",
        "._1.jpg",
        "Thumbs.db",
        "thumbs.DB",
        "desktop.ini",
        "__MACOSX/1.jpg",
        "@eaDir/1.jpg/thumb.jpg",
        ".ipynb_checkpoints/1-checkpoint.jpg",
    ],
)
@pytest.mark.parametrize("place", ["", "a/"])
def test_litter_is_skipped_and_counted_once(tmp_path: Path, litter: str, place: str) -> None:
    scan = scan_folder(plant(tmp_path, "a/1.jpg", place + litter, *([place + litter + "2"] if "/" in litter else [])))
    assert found(scan) == [b"a/1.jpg"]
    assert scan.skipped == {"junk": 1}
    assert scan.class_names == ("a",)


def test_hidden_files_and_folders_are_left_out_and_counted(tmp_path: Path) -> None:
    scan = scan_folder(plant(tmp_path, "a/1.jpg", "a/.1.jpg.part", ".git/objects/1.jpg"))
    assert found(scan) == [b"a/1.jpg"]
    assert scan.skipped == {"hidden": 2}


@pytest.mark.parametrize(
    "suffix", ["JPEG", "JPG", "jpe", "jfif", "jPg", "PNG", "webp", "bmp", "tif", "TIFF", "gif", "ppm"]
)
def test_a_picture_suffix_of_either_case_makes_a_candidate_whatever_the_file_holds(tmp_path: Path, suffix: str) -> None:
    scan = scan_folder(plant(tmp_path, f"a/1.{suffix}", content=b"text"))
    assert found(scan) == [f"a/1.{suffix}".encode()]


def test_other_names_are_candidates_when_their_first_bytes_are_a_picture_s(tmp_path: Path) -> None:
    plant(tmp_path, "a/no_suffix", "a/1.dat", "a/2.jpg.bak")
    plant(tmp_path, "a/labels.csv", "a/README", "a/empty", content=b"text of some length")
    plant(tmp_path, "a/nothing", content=b"")
    scan = scan_folder(tmp_path)
    assert found(scan) == [b"a/1.dat", b"a/2.jpg.bak", b"a/no_suffix"]
    assert scan.skipped == {"not_a_picture": 4}


HOSTILE_NAMES = [
    b"caf\xe9.jpg",
    "cafe\u0301 \U0001f431.jpg".encode(),
    b"two words.jpg",
    b"new\nline.jpg",
    b"dots.in.the.stem.jpg",
    b"tab\there.jpg",
    b"back\\slash.jpg",
    b"quote'\".jpg",
    b"-rf.jpg",
    b"%s%n{0}.jpg",
    b"n" * 251 + b".jpg",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_are_bytes_from_end_to_end(tmp_path: Path, name: bytes) -> None:
    scan = scan_folder(plant(tmp_path, b"a/" + name, b"b/" + name))
    assert found(scan) == [b"a/" + name, b"b/" + name]
    assert [candidate.label for candidate in scan.splits["train"]] == [0, 1]


def test_class_names_that_are_not_utf8_are_text_that_can_be_printed(tmp_path: Path) -> None:
    scan = scan_folder(plant(tmp_path, b"\xff\xfe/1.jpg", b"ok/1.jpg"))
    assert scan.class_names == ("ok", "\\xff\\xfe")
    for name in scan.class_names:
        name.encode()


def test_an_empty_class_keeps_its_label_with_a_warning(tmp_path: Path) -> None:
    plant(tmp_path, "a/1.jpg", "c/1.jpg", "d/notes.txt", content=b"text")
    (tmp_path / "b").mkdir()
    scan = scan_folder(tmp_path)
    assert scan.class_names == ("a", "b", "c", "d")
    assert scan.splits["train"].labels.tolist() == [0, 2]
    assert len(scan.warnings) == 1 and "b, d" in scan.warnings[0]


def test_pictures_beside_class_folders_are_counted_and_said(tmp_path: Path) -> None:
    scan = scan_folder(plant(tmp_path, "a/1.jpg", "b/1.jpg", "stray.jpg", "other"))
    assert found(scan) == [b"a/1.jpg", b"b/1.jpg"]
    assert scan.skipped == {"outside_class": 2}
    assert "2 pictures lie beside the class folders" in scan.warnings[0]


@pytest.mark.parametrize(
    "paths, said",
    [
        (["1.jpg", "2.jpg"], "2 pictures directly in it, and no class folders"),
        (["train/1.jpg", "val/1.jpg"], "2 pictures directly in the split folders"),
        (["a/notes.txt"], "1 class folders (a) without any picture"),
        (["notes.txt"], "no class folders and no pictures"),
        (["set/a/1.jpg", "set/b/1.jpg"], "one level too many"),
        (["train/set/a/1.jpg", "train/set/b/1.jpg"], "one level too many"),
    ],
)
def test_a_layout_without_usable_pictures_is_an_error_that_names_it(
    tmp_path: Path, paths: list[str], said: str
) -> None:
    for path in paths:
        plant(tmp_path, path, content=JPEG if path.endswith("jpg") else b"text")
    with pytest.raises(SourceError) as refused:
        scan_folder(tmp_path)
    assert said in str(refused.value)
    assert "expected SRC/<class>/<pictures>" in str(refused.value)


def test_a_source_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        scan_folder(tmp_path / "nowhere")
    plant(tmp_path, "file")
    with pytest.raises(SourceError, match="is not a folder"):
        scan_folder(tmp_path / "file")
    with pytest.raises(SourceError, match="no class folders and no pictures"):
        scan_folder(plant(tmp_path / "empty", ".hidden"))


def test_links_are_followed_and_the_class_is_the_folder_of_the_link(tmp_path: Path) -> None:
    elsewhere = plant(tmp_path / "elsewhere", "1.jpg", "more/2.jpg")
    source = plant(tmp_path / "source", "a/0.jpg")
    (source / "a" / "linked.jpg").symlink_to(elsewhere / "1.jpg")
    (source / "b").symlink_to(elsewhere)
    scan = scan_folder(source)
    assert found(scan) == [b"a/0.jpg", b"a/linked.jpg", b"b/1.jpg", b"b/more/2.jpg"]
    assert scan.splits["train"].labels.tolist() == [0, 0, 1, 1]


def test_loops_of_links_end(tmp_path: Path) -> None:
    plant(tmp_path, "a/1.jpg", "b/2.jpg")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(".")
    (tmp_path / "b" / "across").symlink_to(tmp_path / "a")
    scan = scan_folder(tmp_path)
    assert found(scan) == [b"a/1.jpg", b"b/2.jpg", b"b/across/1.jpg"]
    assert scan.skipped["link_loop"] == 4


def test_folders_that_all_link_to_each_other_are_refused_instead_of_walked_for_ever(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(14)]
    plant(tmp_path, *(f"{name}/1.jpg" for name in names))
    for name in names:
        for other in names:
            (tmp_path / name / f"to_{other}").symlink_to(tmp_path / other)
    with pytest.raises(SourceError, match="links lead from more than 1,000 places"):
        scan_folder(tmp_path)


def test_a_broken_link_with_a_picture_s_name_is_a_candidate_so_that_it_is_not_lost(tmp_path: Path) -> None:
    plant(tmp_path, "a/1.jpg")
    (tmp_path / "a" / "2.jpg").symlink_to(tmp_path / "gone.jpg")
    (tmp_path / "a" / "notes").symlink_to(tmp_path / "gone")
    scan = scan_folder(tmp_path)
    assert found(scan) == [b"a/1.jpg", b"a/2.jpg"]
    assert scan.splits["train"][1].bytes == 0
    assert scan.skipped == {"not_a_picture": 1}


def test_pipes_are_never_opened(tmp_path: Path) -> None:
    plant(tmp_path, "a/1.jpg")
    os.mkfifo(tmp_path / "a" / "2.jpg")
    os.mkfifo(tmp_path / "a" / "pipe")
    scan = scan_folder(tmp_path)
    assert found(scan) == [b"a/1.jpg"]
    assert scan.skipped == {"special": 2}


def test_a_folder_that_cannot_be_listed_is_an_error_and_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, "a/1.jpg", "b/1.jpg")
    scandir = os.scandir

    def refusing(path: bytes) -> object:  # a mode of 0 would not stop root
        if path.endswith(b"/b/"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(SourceError, match=r"cannot list the folder .*/b/: Permission denied"):
        scan_folder(tmp_path)


def test_a_tree_deeper_than_python_s_stack_is_walked(tmp_path: Path) -> None:
    deep = "a/" + "d/" * 250 + "1.jpg"
    plant(tmp_path, deep)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack()) + 100)
        scan = scan_folder(tmp_path)
    finally:
        sys.setrecursionlimit(limit)
    assert found(scan) == [deep.encode()]


def test_size_and_time_of_each_file_are_kept(tmp_path: Path) -> None:
    plant(tmp_path, "a/1.jpg", content=JPEG + b"12345")
    os.utime(tmp_path / "a" / "1.jpg", ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    assert scan_folder(tmp_path).splits["train"][0] == Candidate(
        b"a/1.jpg", "train", 0, 0, 9, 1_700_000_000_123_456_789
    )


def test_progress_is_told_while_scanning(tmp_path: Path) -> None:
    plant(tmp_path, *(f"a/{number}.jpg" for number in range(2500)), content=b"")
    seen: list[int] = []
    scan_folder(tmp_path, progress=seen.append)
    assert seen == [1000, 2000]


def test_candidates_are_a_sequence_and_can_be_selected() -> None:
    builder = CandidatesBuilder("train")
    for number in range(5):
        builder.add(b"a/%d.jpg" % number, number % 2, 10 * number, number)
    candidates = builder.build()
    assert len(candidates) == 5
    assert candidates[-1] == candidates[4] == Candidate(b"a/4.jpg", "train", 0, 4, 40, 4)
    assert [candidate.path for candidate in candidates] == list(candidates.paths())
    with pytest.raises(IndexError):
        candidates[5]
    import numpy as np

    chosen = candidates.select(np.array([1, 4]), split="val")
    assert list(chosen) == [Candidate(b"a/1.jpg", "val", 1, 0, 10, 1), Candidate(b"a/4.jpg", "val", 0, 1, 40, 4)]


def test_the_photographs_are_all_found(photos: Path) -> None:
    scan = scan_folder(photos)
    assert (len(scan.splits["train"]), len(scan.class_names)) == (47, 19)


def test_suffixes_in_mixed_case_are_each_found_once(shared_data: Path) -> None:
    scan = scan_folder(shared_data / "odd")
    assert b"mixed_case_510/SHIp-1083562_640.jPG" in found(scan)
    assert len(set(found(scan))) == len(found(scan))
