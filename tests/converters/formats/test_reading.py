"""Reading what was converted, over every format: the same records whatever the order, process or thread; and damage."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataio.converters.conversion import ConversionOptions, convert
from dataio.converters.inspection import inspect
from dataio.converters.manifest import Manifest
from dataio.converters.picture import ImageOptions
from dataio.converters.registry import WRITABLE, open_data
from dataio.data import Data, Order, Read, Shard
from dataio.errors import DataDamaged, DataNotFound
from tests.converters.conversions import every_format

ROOT = Path(__file__).resolve().parents[3]

STORES = {
    "source": ImageOptions(),
    "jpeg": ImageOptions(encoding="jpeg", short_side=32, quality=90),
    "raw": ImageOptions(encoding="raw", size=(24, 32)),
}

Record = tuple[int, int, int, int, int, bytes]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, make_jpeg: Callable[..., bytes]) -> Path:
    """A folder with `source` (2 splits, 3 classes, 60 pictures) and datasets `<format>-<store>` of it."""
    folder = tmp_path_factory.mktemp("made")
    chance = np.random.default_rng(0)
    for number in range(60):
        height, width = chance.integers(40, 90, 2)
        file = folder / "source" / ("train" if number % 5 else "val") / f"class {number % 3}" / f"{number:02d}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(make_jpeg(chance.integers(0, 256, (height, width, 3), np.uint8)))
    for store, image in STORES.items():
        for to in WRITABLE:
            made = ConversionOptions(to=to, image=image, unit_bytes=60_000)
            convert(folder / "source", folder / f"{to}-{store}", made)
    return folder


def as_tuple(record: dict[str, Any]) -> Record:
    image = record["image"]
    content = image if isinstance(image, bytes) else image.tobytes()
    names = ("index", "label", "orientation", "height", "width")
    return (*(int(record[name]) for name in names), hashlib.sha256(content).digest())  # type: ignore[return-value]


def read(data: Data, split: str = "train", **how: Any) -> list[Record]:
    return [as_tuple(record) for record in data.records(split, **how).as_numpy_iterator()]


def in_order(seed: int, epoch: int, buffer: int = 16) -> Order:
    import tensorflow as tf

    return Order(seed=seed, epoch=tf.data.Dataset.from_tensors(tf.constant(epoch, tf.int64)), buffer=buffer)


@every_format
@pytest.mark.parametrize("store", STORES)
def test_every_order_and_every_way_of_reading_gives_each_record_once(to: str, store: str, made: Path) -> None:
    data = open_data(made / f"{to}-{store}")
    stored = read(data)
    assert len(stored) == data.splits["train"].records == 48
    assert read(data) == stored
    for how in (Read(cycle_length=1), Read(cycle_length=3, block_length=2, deterministic=False)):
        assert sorted(read(data, read=how)) == sorted(stored)
        shuffled = read(data, read=how, order=in_order(1, 0))
        assert sorted(shuffled) == sorted(stored) and shuffled != stored
    again = [read(data, order=in_order(1, epoch)) for epoch in (0, 1, 0)]
    assert again[0] == again[2] != again[1]
    parts = [read(data, order=in_order(1, 0), shard=Shard(5, index)) for index in range(5)]
    assert sorted(record for part in parts for record in part) == sorted(stored)
    assert [len(part) for part in parts] == [Shard(5, index).size(48) for index in range(5)]


@pytest.mark.parametrize("store", STORES)
def test_all_formats_hold_the_same_records(store: str, made: Path) -> None:
    for split in ("train", "val"):
        first, *others = (sorted(read(open_data(made / f"{to}-{store}"), split)) for to in WRITABLE)
        assert all(other == first for other in others)
        if store == "source":
            assert sorted(read(open_data(made / "source"), split)) == first


@every_format
def test_raw_pictures_are_pixels_of_the_size_asked_for(to: str, made: Path) -> None:
    data = open_data(made / f"{to}-raw")
    assert (data.encoding, data.raw_height_width) == ("raw", (24, 32))
    for record in data.records("train").take(3).as_numpy_iterator():
        assert record["image"].shape == (24, 32, 3) and record["image"].dtype == np.uint8
        assert (record["height"], record["width"]) == (24, 32)


@every_format
def test_smaller_jpegs_have_the_short_side_asked_for(to: str, made: Path) -> None:
    for record in open_data(made / f"{to}-jpeg").records("train").take(5).as_numpy_iterator():
        import io

        with Image.open(io.BytesIO(record["image"])) as picture:
            assert min(picture.size) == 32
            assert picture.size == (record["width"], record["height"])


def test_raw_hdf5_in_stored_order_runs_no_python_for_a_record(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    def forbidden(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("Python was asked to read a record")

    monkeypatch.setattr(tf, "numpy_function", forbidden)
    monkeypatch.setattr(tf, "py_function", forbidden)
    assert len(read(open_data(made / "hdf5-raw"))) == 48


def test_raw_hdf5_is_contiguous_and_unfiltered(made: Path) -> None:
    import h5py

    for path in (made / "hdf5-raw").glob("*.h5"):
        with h5py.File(path) as file:
            images = file["images"]
            assert images.chunks is None and images.compression is None and images.shape[1:] == (24, 32, 3)


@pytest.mark.parametrize("store", STORES)
def test_tfds_loads_the_tfrecords_with_the_right_classes(store: str, made: Path) -> None:
    tfds = pytest.importorskip("tensorflow_datasets")
    builder = tfds.builder_from_directory(str(made / f"tfrecord-{store}"))
    assert builder.info.features["label"].names == ["class 0", "class 1", "class 2"]
    for split, count in (("train", 48), ("val", 12)):
        assert builder.info.splits[split].num_examples == count
        records = list(builder.as_dataset(split=split).as_numpy_iterator())
        assert len(records) == count
        for record in records:
            number = int(record["image/filename"].decode()[-6:-4])
            assert int(record["label"]) == number % 3
    for image, label in builder.as_dataset(as_supervised=True, split="val").take(2):
        assert image.dtype == "uint8" and image.shape[-1] == 3 and int(label) in range(3)


@every_format
def test_the_data_describes_itself(to: str, made: Path) -> None:
    data = open_data(made / f"{to}-source")
    assert data.format == to
    assert data.class_names == ("class 0", "class 1", "class 2")
    assert data.describe()["splits"]["val"]["records"] == 12
    assert data.fingerprint != open_data(made / f"{to}-jpeg").fingerprint
    with pytest.raises(DataNotFound, match="train, val"):
        data.records("test")


@every_format
def test_readers_may_be_pickled_forked_and_spawned(to: str, made: Path) -> None:
    data = open_data(made / f"{to}-source")
    expected = sorted(raw_records(data))
    assert sorted(raw_records(pickle.loads(pickle.dumps(data)))) == expected
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            for found in pool.map(raw_records, [data, data]):
                assert sorted(found) == expected


def raw_records(data: Data) -> list[tuple[int, bytes]]:
    """(index, SHA-256 of the picture) of the training records, read without TensorFlow, which a fork does not bear."""
    from dataio.converters.format import stored_image
    from dataio.converters.ledger import Ledger
    from dataio.converters.stored import LedgerData, StoredData

    assert isinstance(data, StoredData)
    found = []
    for entry in data.manifest.splits["train"].shards:
        if isinstance(data, LedgerData):
            images = np.empty(entry.records, object)
            positions = list(range(entry.records))
            ledger = data.ledger(entry)
            data._read_images(entry.file, ledger, positions, positions, images)
            pictures: Sequence[bytes] = images.tolist()
        else:
            ledger = Ledger.load(data.path / entry.ledger.name)
            descriptor = os.open(data.path / entry.file.name, os.O_RDONLY)
            pictures = [stored_image(descriptor, data.path, ledger, position) for position in range(len(ledger))]
            os.close(descriptor)
        digests = [hashlib.sha256(picture).digest() for picture in pictures]
        found += list(zip(ledger.rows["index"].tolist(), digests, strict=True))
    return found


@every_format
def test_several_threads_and_two_openings_of_one_path_read_at_once(to: str, made: Path) -> None:
    data = [open_data(made / f"{to}-source") for _ in range(2)]
    expected = sorted(raw_records(data[0]))
    found: list[list[tuple[int, bytes]]] = []
    threads = [
        threading.Thread(target=lambda which=which: found.append(sorted(raw_records(which)))) for which in data * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


@every_format
def test_a_record_that_was_damaged_is_an_error_and_never_a_picture(to: str, made: Path, tmp_path: Path) -> None:
    import tensorflow as tf

    shutil.copytree(made / f"{to}-source", tmp_path / "dataset")
    shard = Manifest.open(tmp_path / "dataset").splits["train"].shards[0]
    path = tmp_path / "dataset" / shard.file.name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises((tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.UnknownError, DataDamaged)):
        read(open_data(tmp_path / "dataset"))


@every_format
def test_a_cut_or_missing_shard_is_named_when_the_dataset_is_opened(to: str, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / f"{to}-source", tmp_path / "dataset")
    shard = Manifest.open(tmp_path / "dataset").splits["val"].shards[0]
    path = tmp_path / "dataset" / shard.file.name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataDamaged, match=r"bytes where .* `dataio repair`"):
        open_data(tmp_path / "dataset")
    path.unlink()
    with pytest.raises(DataDamaged, match="cannot be read"):
        open_data(tmp_path / "dataset")


def test_nothing_and_an_unknown_folder_are_not_found(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match="nothing is there"):
        open_data(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataNotFound):
        open_data(tmp_path / "file")


_FUZZ = """
import sys, random, hashlib
from pathlib import Path
from dataio.converters.registry import open_data
from dataio.converters.verification import verify
from dataio.errors import DataioError
from dataio.converters.lmdb_tree import read_tree
from tests_reading import raw_records

path, seed = Path(sys.argv[1]), int(sys.argv[2])
names = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
whole = {name: (path / name).read_bytes() for name in names}
chance = random.Random(seed)
outcomes = {"whole": 0, "error": 0}
for _ in range(60):
    name = chance.choice([name for name in names if whole[name]])
    content = bytearray(whole[name])
    for _ in range(chance.choice([1, 1, 4, 64])):
        start = chance.randrange(len(content))
        content[start:start + chance.choice([0, 1, 8, 200])] = chance.randbytes(chance.choice([0, 1, 8, 200]))
        content = content or bytearray(b"x")
    (path / name).write_bytes(content)
    try:
        for file in path.glob("*.lmdb/data.mdb"):
            for _, value in zip(range(1000), read_tree(file)):
                pass
    except DataioError:
        pass
    try:
        verify(path)
        raw_records(open_data(path))
        outcomes["whole"] += 1
    except DataioError as problem:
        assert str(problem)
        outcomes["error"] += 1
    (path / name).write_bytes(whole[name])
print(outcomes)
"""


@every_format
def test_hostile_bytes_end_in_an_error_of_ours_and_never_in_a_crash(to: str, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / f"{to}-source", tmp_path / "dataset")
    shutil.copy(__file__, tmp_path / "tests_reading.py")
    seed = random.Random(to).randrange(2**32)
    done = subprocess.run(
        [sys.executable, "-c", _FUZZ, str(tmp_path / "dataset"), str(seed)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "error" in done.stdout


@every_format
def test_a_flipped_bit_anywhere_in_a_ledger_is_an_error_and_never_a_wrong_label(
    to: str, made: Path, tmp_path: Path
) -> None:
    shutil.copytree(made / f"{to}-source", tmp_path / "broken")
    entry = Manifest.open(tmp_path / "broken").splits["train"].shards[0].ledger
    path = tmp_path / "broken" / entry.name
    whole = path.read_bytes()
    for position in range(0, len(whole), 29):
        content = bytearray(whole)
        content[position] ^= 1
        path.write_bytes(content)
        data = open_data(tmp_path / "broken")
        if not data.random_access:
            continue  # read from the shards alone
        with pytest.raises(DataDamaged, match=r"\.ledger: .*run `dataio repair`"):
            data.records("train")
    assert any("ledger is damaged" in problem for problem in inspect(tmp_path / "broken").problems)
