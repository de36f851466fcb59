"""What the world puts into folders of pictures, over every format: from the folder to the records."""

from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dataio.converters.conversion import ConversionOptions, convert
from dataio.converters.format import stored_image
from dataio.converters.imaging import ImageOptions
from dataio.converters.inspection import inspect
from dataio.converters.ledger import Ledger
from dataio.converters.manifest import Manifest
from dataio.converters.registry import open_data
from dataio.converters.stored import StoredData
from dataio.converters.verification import verify
from dataio.errors import SourceError
from tests.converters.conversions import every_format


@pytest.fixture(scope="module")
def picture_bytes(make_jpeg: Callable[..., bytes]) -> bytes:
    return make_jpeg()


def plant(root: Path, content: bytes, *paths: str) -> Path:
    """Writes `content` under each path below `root`."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


def labels(dataset: Path, split: str = "train") -> dict[bytes, int]:
    """Path to label of every record of a split, in path order."""
    found = {}
    for shard in Manifest.open(dataset).splits[split].shards:
        ledger = Ledger.load(dataset / shard.ledger.name)
        found.update({ledger.path(position): int(row["label"]) for position, row in enumerate(ledger.rows)})
    return dict(sorted(found.items()))


@every_format
def test_litter_and_other_files_are_no_records_and_each_suffix_of_a_jpeg_is_one(
    to: str, picture_bytes: bytes, tmp_path: Path
) -> None:
    names = ["1.JPEG", "2.JPG", "3.jpe", "4.jfif", "5.JpG"]
    litter = [".DS_Store", "._1.jpg", "Thumbs.db", "desktop.ini", "__MACOSX/1.jpg", "@eaDir/1.jpg"]
    source = plant(tmp_path / "source", picture_bytes, *(f"a/{name}" for name in names))
    plant(source, picture_bytes, *litter, *(f"a/{name}" for name in litter), "a/.ipynb_checkpoints/1.jpg")
    plant(source, b"some notes", "a/notes.txt")
    convert(source, tmp_path / "out", ConversionOptions(to=to), workers=1)
    manifest = Manifest.open(tmp_path / "out")
    assert list(labels(tmp_path / "out")) == sorted(f"a/{name}".encode() for name in names)
    assert manifest.class_names == ("a",)
    assert manifest.splits["train"].seen == len(names)


@every_format
def test_classes_are_in_bytewise_order_from_zero_and_an_empty_one_keeps_its_label(
    to: str, picture_bytes: bytes, tmp_path: Path
) -> None:
    source = plant(tmp_path / "source", picture_bytes, "train/b/1.jpg", "train/B/1.jpg", "val/ä/1.jpg", "val/b/1.jpg")
    (source / "train" / "a").mkdir()
    converted = convert(source, tmp_path / "out", ConversionOptions(to=to), workers=1)
    assert converted.manifest.class_names == open_data(tmp_path / "out").class_names == ("B", "a", "b", "ä")
    assert labels(tmp_path / "out") == {b"train/B/1.jpg": 0, b"train/b/1.jpg": 2}
    assert labels(tmp_path / "out", "val") == {b"val/b/1.jpg": 2, "val/ä/1.jpg".encode(): 3}
    assert any("a" in warning for warning in converted.warnings)


@every_format
@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["1.jpg", "2.jpg"], "2 pictures directly in it, and no class folders"),
        (["set/a/1.jpg", "set/b/1.jpg"], "one level too many"),
        ([], "no class folders and no pictures"),
    ],
)
def test_a_layout_without_usable_pictures_is_an_error_and_leaves_no_dataset(
    to: str, paths: list[str], said: str, picture_bytes: bytes, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    plant(tmp_path / "source", picture_bytes, *paths)
    with pytest.raises(SourceError, match=f"{said}.*expected SRC/<class>/<pictures>"):
        convert(tmp_path / "source", tmp_path / "out", ConversionOptions(to=to), workers=1)
    assert not (tmp_path / "out").exists()


@every_format
def test_links_are_followed_into_the_class_of_the_link_and_loops_end(
    to: str, picture_bytes: bytes, tmp_path: Path
) -> None:
    elsewhere = plant(tmp_path / "elsewhere", picture_bytes, "1.jpg")
    source = plant(tmp_path / "source", picture_bytes, "a/0.jpg")
    (source / "a" / "linked.jpg").symlink_to(elsewhere / "1.jpg")
    (source / "a" / "up").symlink_to(source)
    (source / "b").symlink_to(elsewhere)
    convert(source, tmp_path / "out", ConversionOptions(to=to), workers=1)
    assert labels(tmp_path / "out") == {b"a/0.jpg": 0, b"a/linked.jpg": 0, b"b/1.jpg": 1}
    assert not verify(tmp_path / "out", source=source).damages


@every_format
def test_labels_of_a_csv_file_belong_to_paths_and_never_to_positions(
    to: str, picture_bytes: bytes, tmp_path: Path
) -> None:
    source = plant(tmp_path / "source", picture_bytes, "z.jpg", "a.jpg", "deep/m.jpg")
    csv = tmp_path / "labels.csv"
    csv.write_text("path,label\nz.jpg,ant\ndeep/m.jpg,cat\na.jpg,bee\n\n")
    convert(source, tmp_path / "out", ConversionOptions(to=to), labels=csv, workers=1)
    assert Manifest.open(tmp_path / "out").class_names == ("ant", "bee", "cat")
    assert labels(tmp_path / "out") == {b"a.jpg": 1, b"deep/m.jpg": 2, b"z.jpg": 0}
    for lines, said in (("z.jpg,ant\nz.jpg,bee\n", "line 3"), ("z.jpg,ant\ngone.jpg,bee\n", "line 3")):
        csv.write_text("path,label\n" + lines)
        with pytest.raises(SourceError, match=said):
            convert(source, tmp_path / "other", ConversionOptions(to=to), labels=csv, workers=1)


@every_format
def test_a_twentieth_of_ten_files_is_one_and_the_rest_is_for_training(
    to: str, picture_bytes: bytes, tmp_path: Path
) -> None:
    source = plant(tmp_path / "source", picture_bytes, *(f"a/{number}.jpg" for number in range(10)))
    convert(source, tmp_path / "out", ConversionOptions(to=to, split="train=0.95,val=0.05"), workers=1)
    splits = Manifest.open(tmp_path / "out").splits
    assert (splits["train"].records, splits["val"].records) == (9, 1)
    assert not set(labels(tmp_path / "out")) & set(labels(tmp_path / "out", "val"))


@every_format
def test_records_are_shuffled_over_all_classes_and_the_same_for_one_seed(
    to: str, picture_bytes: bytes, tmp_path: Path
) -> None:
    source = plant(
        tmp_path / "source", picture_bytes, *(f"{name}/{number}.jpg" for name in "ab" for number in range(40))
    )

    def order(name: str, seed: int) -> list[int]:
        convert(source, tmp_path / name, ConversionOptions(to=to, seed=seed), workers=1)
        (shard,) = Manifest.open(tmp_path / name).splits["train"].shards
        rows = Ledger.load(tmp_path / name / shard.ledger.name).rows
        assert 8 < rows["label"][:40].sum() < 32  # folder order has 0
        return [int(index) for index in rows["index"]]

    first, again, other = order("first", 1), order("again", 1), order("other", 2)
    assert first == again != other
    assert sorted(first) == sorted(other) == list(range(80))


@pytest.mark.parametrize("to", ["tfrecord", "hdf5"])
@pytest.mark.parametrize("shards", [2, 7])
def test_shards_have_equal_bytes_within_five_percent_or_a_record(
    to: str, shards: int, make_jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    chance = np.random.default_rng(0)
    for number in range(60):
        side = int(chance.integers(8, 90))
        content = make_jpeg(chance.integers(0, 256, (side, side, 3), np.uint8))
        plant(tmp_path / "source", content, f"a/{number}.jpg")
    convert(tmp_path / "source", tmp_path / "out", ConversionOptions(to=to, shards=shards), workers=1)
    manifest = Manifest.open(tmp_path / "out")
    pictures = [
        int(Ledger.load(tmp_path / "out" / shard.ledger.name).rows["image_bytes"].sum())
        for shard in manifest.splits["train"].shards
    ]
    largest = max(path.stat().st_size for path in (tmp_path / "source").rglob("*.jpg"))
    mean = sum(pictures) / shards
    assert len(pictures) == shards
    assert all(abs(size - mean) <= max(0.05 * mean, largest) for size in pictures), pictures


@every_format
def test_a_picture_of_more_pixels_than_allowed_is_rejected_before_it_is_decoded(
    to: str, picture_bytes: bytes, make_jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    source = plant(tmp_path / "source", picture_bytes, "a/1.jpg")
    plant(source, make_jpeg(np.zeros((100, 101, 3), np.uint8)), "a/large.jpg")
    convert(source, tmp_path / "out", ConversionOptions(to=to, image=ImageOptions(max_pixels=10_000)), workers=1)
    assert list(labels(tmp_path / "out")) == [b"a/1.jpg"]
    assert '"too_many_pixels"' in (tmp_path / "out" / "outcomes.jsonl").read_text()


@every_format
def test_other_kinds_of_pictures_are_refused_when_asked(to: str, picture_bytes: bytes, tmp_path: Path) -> None:
    source = plant(tmp_path / "source", picture_bytes, "a/1.jpg")
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    plant(source, buffer.getvalue(), "a/png.jpg")
    convert(source, tmp_path / "out", ConversionOptions(to=to, image=ImageOptions(non_jpeg="reject")), workers=1)
    assert list(labels(tmp_path / "out")) == [b"a/1.jpg"]
    convert(source, tmp_path / "all", ConversionOptions(to=to), workers=1)
    assert list(labels(tmp_path / "all")) == [b"a/1.jpg", b"a/png.jpg"]


@every_format
def test_pictures_are_read_while_somebody_holds_locks_on_their_files(
    to: str, picture_bytes: bytes, tmp_path: Path
) -> None:
    source = plant(tmp_path / "source", picture_bytes, "a/1.jpg", "a/2.jpg")
    convert(source, tmp_path / "out", ConversionOptions(to=to), workers=1)
    held = [os.open(path, os.O_RDWR) for path in (tmp_path / "out").rglob("*") if path.is_file()]
    for descriptor in held:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        data = open_data(tmp_path / "out")
        assert isinstance(data, StoredData)
        assert [record["image"] for record in data.records("train").as_numpy_iterator()] == [picture_bytes] * 2
        assert not verify(tmp_path / "out").damages
        assert inspect(tmp_path / "out").splits["train"].records == 2
    finally:
        for descriptor in held:
            os.close(descriptor)


@every_format
def test_turned_pictures_keep_their_bytes_and_tag_or_are_stored_upright(
    to: str, odd_files: tuple[object, ...], tmp_path: Path
) -> None:
    turned = {file.name: file for file in odd_files if file.name.startswith("orientation_")}  # type: ignore[attr-defined]
    for name, file in turned.items():
        plant(tmp_path / "source", file.content, f"a/{name}.jpg")  # type: ignore[attr-defined]
    for mode in ("store", "apply"):
        out = tmp_path / mode
        convert(
            tmp_path / "source", out, ConversionOptions(to=to, image=ImageOptions(exif_orientation=mode)), workers=1
        )
        (shard,) = Manifest.open(out).splits["train"].shards
        ledger = Ledger.load(out / shard.ledger.name)
        assert len(ledger) == 7
        with open(out / shard.file.name, "rb") as content:
            for position, row in enumerate(ledger.rows):
                file = turned[Path(os.fsdecode(ledger.path(position))).stem]
                image = stored_image(content.fileno(), out, ledger, position)
                if mode == "store":
                    assert image == file.content  # type: ignore[attr-defined]
                    assert int(row["orientation"]) == file.orientation  # type: ignore[attr-defined]
                else:
                    assert int(row["orientation"]) == 1
                    with Image.open(io.BytesIO(image)) as opened:
                        pixels = np.asarray(opened.convert("RGB"), np.float64)
                    assert abs(pixels - file.truth).mean() < 3  # type: ignore[attr-defined]
