"""tuned.json: loading it gives the pipeline, and what has changed since is said."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from dataio import tuned as tuned_module
from dataio.data import Data, Split
from dataio.errors import DataNotFound, PlanError, RecordError
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.tuned import Tuned, TunedPipeline, TunedWarning
from tests.bench.memory_data import MemoryData

RECIPE = Recipe(image_size=16, batch_size=8, dtype="uint8")


@pytest.fixture
def data(tmp_path: Path) -> MemoryData:
    (tmp_path / "data").mkdir()
    return MemoryData(tmp_path / "data", records=20)


def save(data: Data, folder: Path, *, plan: Plan | None = None) -> Path:
    tuned = Tuned.describe(data, RECIPE, plan or Plan(), images_per_second=500.0, folder=folder, tool_version="0.1.0")
    tuned.save(folder / "tuned.json")
    return folder / "tuned.json"


def test_a_tuned_pipeline_gives_the_batches_that_were_measured(data: MemoryData, tmp_path: Path) -> None:
    pipeline = TunedPipeline.load(save(data, tmp_path), opener=lambda path: data)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TunedWarning)
        dataset = pipeline.build(split="train", training=True)
    images, labels = next(iter(dataset))
    assert images.shape == (8, 16, 16, 3)
    assert labels.shape == (8,)
    assert dataset.cardinality() == 2


def test_evaluation_keeps_every_record(data: MemoryData, tmp_path: Path) -> None:
    pipeline = TunedPipeline.load(save(data, tmp_path), opener=lambda path: data)
    assert sum(len(labels) for _, labels in pipeline.build(training=False)) == 20


def test_the_batch_size_may_be_another(data: MemoryData, tmp_path: Path) -> None:
    pipeline = TunedPipeline.load(save(data, tmp_path), opener=lambda path: data)
    images, _ = next(iter(pipeline.build(batch_size=5)))
    assert images.shape[0] == 5


def test_data_that_moved_with_the_file_are_found(data: MemoryData, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "data").rename(tmp_path / "here" / "data")
    data.path = tmp_path / "here" / "data"
    save(data, tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    opened = []

    def opener(path: Path | str) -> Data:
        opened.append(Path(path))
        return data

    TunedPipeline.load(tmp_path / "there" / "tuned.json", opener=opener).open_data()
    assert [path.resolve() for path in opened] == [tmp_path / "there" / "data"]


def test_data_that_are_gone_are_an_error_that_says_how_to_name_them(data: MemoryData, tmp_path: Path) -> None:
    path = save(data, tmp_path)
    (tmp_path / "data").rmdir()
    with pytest.raises(DataNotFound, match=r"build\(data="):
        TunedPipeline.load(path, opener=lambda path: data).build()


def test_other_data_may_be_given(data: MemoryData, tmp_path: Path) -> None:
    path = save(data, tmp_path)
    (tmp_path / "data").rmdir()
    built = TunedPipeline.load(path, opener=lambda path: data).build(data=data)
    assert built.cardinality() == 2


def test_changed_data_are_said_with_both_counts(data: MemoryData, tmp_path: Path) -> None:
    path = save(data, tmp_path)
    now = MemoryData(data.path, records=24)
    with pytest.warns(TunedWarning, match="20.*24"):
        TunedPipeline.load(path, opener=lambda path: now).build()


def test_another_format_is_said(data: MemoryData, tmp_path: Path) -> None:
    path = save(data, tmp_path)
    now = MemoryData(data.path, records=24)
    now.format = "lmdb"
    with pytest.warns(TunedWarning, match="tuned for memory data"):
        TunedPipeline.load(path, opener=lambda path: now).build()


def test_another_machine_is_said(data: MemoryData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(data, tmp_path)
    monkeypatch.setattr(tuned_module, "usable_cores", lambda: 96)
    with pytest.warns(TunedWarning, match="96"):
        TunedPipeline.load(path, opener=lambda path: data).build()


def test_a_cache_that_does_not_fit_here_is_an_error_before_it_fills_memory(
    data: MemoryData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(data, tmp_path, plan=Plan(cache="memory"))
    data.splits = {"train": Split(records=20, shards=1, bytes=3 << 40)}
    pipeline = TunedPipeline.load(path, opener=lambda path: data)
    with pytest.raises(PlanError, match="cache='none'"):
        pipeline.build()
    assert pipeline.build(plan=pipeline.plan.replace(cache="none")).cardinality() == 2


def test_a_file_of_another_form_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "tuned.json").write_text('{"schema_version": 99}')
    with pytest.raises(RecordError, match=r"tuned\.json"):
        TunedPipeline.load(tmp_path / "tuned.json", opener=lambda path: pytest.fail("opened"))
