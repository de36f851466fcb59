"""Caches on disk: the same pictures as without, no trace after the process, and clear words where there is no room."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter, namedtuple
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import dataio
from dataio.converters.blocks import read_blocks
from dataio.converters.conversion import ConversionOptions, convert
from dataio.converters.imaging import ImageOptions
from dataio.errors import DestinationError
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stages import cache_folder, disk_cache
from dataio.stages.cache_folder import CacheFolder, cache_room_bytes, remove_leftovers
from tests.dataio.conftest import MemoryData

RECIPE = Recipe(image_size=32, batch_size=5, dtype="uint8", fidelity="exact", drop_remainder=False, seed=7)
ON_DISK = [Plan(cache="disk"), Plan(cache="decoded_disk"), Plan(cache="decoded_disk", num_parallel_calls=2, prefetch=2)]
ROOT = Path(__file__).resolve().parents[3]


class CountingData(MemoryData):
    """Counts how often a record is read from where it lies."""

    def __init__(self, pictures: list[dict[str, object]]) -> None:
        super().__init__(pictures)
        self.reads = 0

    def records(self, split, *, read=None, order=None, shard=None):  # type: ignore[no-untyped-def]
        def block(positions: np.ndarray) -> list[np.ndarray]:
            self.reads += len(positions)
            chosen = [self.pictures[at] for at in positions]
            names = ("label", "index", "orientation", "height", "width")
            images = np.array([picture["image"] for picture in chosen], dtype=object)
            return [images, *(np.array([picture[name] for picture in chosen], np.int64) for name in names)]

        return read_blocks(len(self.pictures), block, read=read, order=order, shard=shard)


@pytest.fixture
def many(memory_data: MemoryData) -> CountingData:
    """More records than any stage reads ahead, so that an epoch can be left before they are all read."""
    return CountingData(12 * memory_data.pictures)


@pytest.fixture
def data(memory_data: MemoryData) -> CountingData:
    return CountingData(memory_data.pictures)


def pictures(batches: Iterator[tuple[tf.Tensor, tf.Tensor]] | tf.data.Dataset) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for images, labels in batches:
        for image, label in zip(images.numpy(), labels.numpy(), strict=True):
            found[image.tobytes() + label.tobytes()] += 1
    return found


@pytest.mark.parametrize("plan", ON_DISK, ids=["encoded", "decoded", "decoded in parallel"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("block_below", [0, 1 << 30], ids=["one by one", "in blocks"])
def test_every_epoch_shows_the_pictures_of_a_pipeline_without_cache_and_reads_the_source_once(
    data: CountingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Plan, training: bool, block_below: int
) -> None:
    monkeypatch.setattr(disk_cache, "BLOCK_BELOW_BYTES", block_below)
    monkeypatch.setattr(disk_cache, "BLOCK_RECORDS", 7)
    expected = build(data, RECIPE, Plan(), training=training)
    shown = build(data, RECIPE, plan, training=training, cache_dir=tmp_path)
    for epoch in range(3):
        reference, data.reads = pictures(expected), 0
        assert pictures(shown) == reference
        assert data.reads == (0 if epoch else len(data.pictures))


@pytest.mark.parametrize("form", ["tfrecord", "hdf5", "lmdb", "folder", "raw"])
def test_every_format_gives_the_same_pictures_from_disk(memory_data: MemoryData, tmp_path: Path, form: str) -> None:
    for number, picture in enumerate(memory_data.pictures):
        path = tmp_path / "folder" / "train" / f"class{picture['label']}" / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture["image"])
    if form != "folder":
        image = ImageOptions(encoding="raw", size=(40, 48)) if form == "raw" else ImageOptions()
        options = ConversionOptions(to="hdf5" if form == "raw" else form, image=image)
        convert(tmp_path / "folder", tmp_path / form, options, workers=1)
    stored = dataio.open(tmp_path / form)
    reference = build(stored, RECIPE, Plan())
    shown = [build(stored, RECIPE, plan, cache_dir=tmp_path / "cache") for plan in ON_DISK[:2]]
    for _ in range(2):
        expected = pictures(reference)
        assert expected.total() == len(memory_data.pictures)
        assert [pictures(dataset) for dataset in shown] == [expected, expected]


@pytest.mark.parametrize("place", ["memory", "decoded"])
def test_the_order_is_that_of_the_cache_in_memory(data: CountingData, tmp_path: Path, place: str) -> None:
    on_disk = {"memory": "disk", "decoded": "decoded_disk"}[place]
    one = build(data, RECIPE, Plan().replace(cache=place))
    other = build(data, RECIPE, Plan().replace(cache=on_disk), cache_dir=tmp_path)
    for _ in range(2):
        for (images, labels), (others, other_labels) in zip(one, other, strict=True):
            np.testing.assert_array_equal(images, others)
            np.testing.assert_array_equal(labels, other_labels)


def test_an_epoch_that_is_left_early_is_thrown_away_and_the_next_one_is_kept(
    many: CountingData, tmp_path: Path
) -> None:
    plan, recipe = Plan(cache="disk", prefetch=0, num_parallel_calls=1, autotune=False), RECIPE.replace(shuffle=False)
    dataset = build(many, recipe, plan, cache_dir=tmp_path)
    next(iter(dataset))
    gc.collect()
    reference = build(many, recipe, plan.replace(cache="none"), initial_epoch=1)
    for epoch in range(2):
        expected, many.reads = pictures(reference), 0
        assert pictures(dataset) == expected
        assert many.reads == (0 if epoch else len(many.pictures))


def test_an_iterator_beside_the_one_that_writes_neither_fails_nor_destroys_its_file(
    many: CountingData, tmp_path: Path
) -> None:
    plan = Plan(cache="disk", prefetch=0, num_parallel_calls=1, autotune=False)
    recipe = RECIPE.replace(shuffle=False)
    dataset = build(many, recipe, plan, cache_dir=tmp_path)
    reference = build(many, recipe, plan.replace(cache="none"))
    expected = [pictures(reference) for _ in range(3)]
    writing, beside = iter(dataset), iter(dataset)
    first = [next(writing)]
    assert pictures(beside) == expected[1]
    del beside
    gc.collect()
    assert pictures(iter([*first, *writing])) == expected[0]
    many.reads = 0
    assert pictures(dataset) == expected[2]
    assert many.reads == 0


def test_replicas_that_share_a_folder_each_keep_their_own_records(data: CountingData, tmp_path: Path) -> None:
    whole = build(data, RECIPE, Plan())
    parts = [
        build(data, RECIPE, Plan(cache="disk"), num_shards=3, shard_index=index, cache_dir=tmp_path)
        for index in range(3)
    ]
    for _ in range(2):
        assert sum((pictures(part) for part in parts), Counter()) == pictures(whole)


def test_autograph_can_convert_the_stage_so_that_it_warns_nobody() -> None:
    assert "tf__cached_on_disk" in tf.autograph.to_code(disk_cache.cached_on_disk)


def test_the_file_goes_with_the_pipeline(data: CountingData, tmp_path: Path) -> None:
    dataset = build(data, RECIPE, Plan(cache="disk"), cache_dir=tmp_path)
    iterator = iter(dataset)
    del dataset
    assert pictures(iterator).total() == len(data.pictures)
    assert any(path.name == "records.index" for path in tmp_path.rglob("*"))
    del iterator
    gc.collect()
    assert list(tmp_path.iterdir()) == []


SCRIPT = """
import os, signal, sys
from tests.dataio.conftest import MemoryData, make_picture
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe
data = MemoryData([make_picture(number, 1) for number in range(12)] * 40)
dataset = build(data, Recipe(image_size=8, batch_size=2, shuffle=False), Plan(cache="disk", prefetch=0))
iterator = iter(dataset.repeat())
next(iterator)
print(len(os.listdir(os.environ["DATAIO_CACHE_DIR"])), flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(how: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DATAIO_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, how], env=env, cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_a_process_that_ends_while_it_writes_leaves_nothing(tmp_path: Path) -> None:
    done = run("ended", tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_goes_when_the_next_cache_is_made(data: CountingData, tmp_path: Path) -> None:
    assert run("killed", tmp_path).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert any(left.rglob("*.lockfile"))
    dataset = build(data, RECIPE, Plan(cache="disk"), cache_dir=tmp_path)
    assert pictures(dataset) == pictures(build(data, RECIPE, Plan()))
    assert not left.exists() and len(list(tmp_path.iterdir())) == 1


def test_leftovers_are_told_from_the_folders_of_living_pipelines_and_of_others(tmp_path: Path) -> None:
    alive = CacheFolder.create(tmp_path, needed_bytes=0)
    (tmp_path / "dataio-cache-of-mine").mkdir()
    remove_leftovers(tmp_path)
    assert alive.path.exists() and (tmp_path / "dataio-cache-of-mine").exists()


def test_a_forked_child_that_ends_leaves_its_parent_the_folder(tmp_path: Path) -> None:
    folder = CacheFolder.create(tmp_path, needed_bytes=0)
    child = os.fork()
    if child == 0:
        del folder
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.exists()


def test_a_place_that_cannot_be_written_is_an_error_that_names_it_and_what_to_do(
    data: CountingData, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/dataio")):
        with pytest.raises(DestinationError, match=r"cache_dir=.*DATAIO_CACHE_DIR.*cache='none'") as raised:
            build(data, RECIPE, Plan(cache="disk"), cache_dir=place)
        assert str(place) in str(raised.value)


def test_a_cache_that_would_fill_the_disk_is_refused_before_anything_is_written(
    data: CountingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = data.split("train").bytes
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 0, size))
    with pytest.raises(DestinationError, match="90% of the"):
        build(data, RECIPE, Plan(cache="disk"), cache_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 0, 2 * size))
    build(data, RECIPE, Plan(cache="disk"), cache_dir=tmp_path)


def test_writing_stops_before_the_disk_is_full_and_names_folder_and_remedy(
    data: CountingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = build(data, RECIPE, Plan(cache="decoded_disk"), cache_dir=tmp_path)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12, 1000))
    with pytest.raises(tf.errors.OpError, match="are to stay free") as raised:
        pictures(dataset)
    assert str(tmp_path) in str(raised.value) and "cache='none'" in str(raised.value)


def test_a_limit_on_the_size_of_files_counts_as_room(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        assert cache_room_bytes(tmp_path / "not" / "there" / "yet") == int(0.9 * (1 << 20))
        with pytest.raises(DestinationError, match="ulimit -f"):
            CacheFolder.create(tmp_path, needed_bytes=2 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_writing_stops_before_a_file_is_larger_than_the_process_may_make_it(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    sequence = [{"image": noise.bytes(200_000), "label": 0, "index": number} for number in range(300)]
    sequence = [record | {"orientation": 1, "height": 1, "width": 1} for record in sequence]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40 << 20, before[1]))
    try:
        folder = CacheFolder.create(tmp_path, needed_bytes=0)
        records = MemoryData(sequence).records("train")
        with pytest.raises(tf.errors.OpError, match="ulimit -f"):
            list(disk_cache.cached_on_disk(records, folder, record_bytes=200_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_place_is_the_argument_then_the_environment_then_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache_folder.ENVIRONMENT, str(tmp_path / "environment"))
    assert cache_folder.cache_parent(tmp_path) == tmp_path
    assert cache_folder.cache_parent() == tmp_path / "environment"
    monkeypatch.delenv(cache_folder.ENVIRONMENT)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    assert cache_folder.cache_parent() == tmp_path / "temporary"
