"""`dataio bench`: options, exit codes and outputs. What it measures is tested where it is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from dataio.bench.filling import FirstFill
from dataio.cli import bench as command
from dataio.cli.bench import show, write_outputs
from dataio.cli.limits import check_against, check_limit
from dataio.cli.measuring import damage_said
from dataio.cli.recipes import Crop, make_recipe
from dataio.cli.trying import Way, parse_ways
from dataio.errors import DataDamaged, DataNotFound, LimitExceeded, PlanError, RecipeError, RecordError
from dataio.recipe import Recipe
from dataio.tuned import Tuned
from tests.bench.memory_data import MemoryData
from tests.bench.sample_results import sample_results


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Puts invented results in the place of measuring, and keeps what was asked for."""
    asked: dict[str, Any] = {}

    def run(paths: list[Path], recipe: Recipe, **options: Any) -> Any:
        asked.update(options, paths=paths, recipe=recipe)
        return sample_results(), [MemoryData(tmp_path, records=8)]

    monkeypatch.setattr(command, "run", run)
    return asked


def invoke(*words: str) -> Any:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, list(words))


def test_options_override_the_recipe_file(tmp_path: Path) -> None:
    Recipe(image_size=160, batch_size=8, dtype="uint8").save(tmp_path / "recipe.json")
    recipe = make_recipe(tmp_path / "recipe.json", batch_size=32, image_size="128x96", crop=Crop.CENTER, flip=False)
    assert recipe == Recipe(image_size=(128, 96), batch_size=32, crop="center", flip=False, dtype="uint8")


def test_a_recipe_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no such recipe file"):
        make_recipe(tmp_path / "none.json", batch_size=None, image_size=None, crop=None, flip=None)


def test_json_is_all_that_stdout_holds(measured: dict[str, Any]) -> None:
    result = invoke("somewhere", "--json", "--step-ms", "10")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["verdict"]["outcome"] == "fed"


def test_out_holds_results_tuned_and_report(measured: dict[str, Any], tmp_path: Path) -> None:
    result = invoke("somewhere", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "results.json", "tuned.json"]
    assert Tuned.load(tmp_path / "out" / "tuned.json").plan == sample_results().chosen.plan


@pytest.mark.parametrize(("limit", "passes"), [("5%", True), ("0.05", True), ("1%", False), ("0", False)])
def test_a_stall_above_the_limit_is_an_error_of_its_own(measured: dict[str, Any], limit: str, passes: bool) -> None:
    result = invoke("somewhere", "--step-ms", "10", "--max-stall", limit)
    if passes:
        assert result.exit_code == 0
    else:
        assert isinstance(result.exception, LimitExceeded)
        assert "1.3%" in str(result.exception)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("somewhere", "--max-stall", "5%"),
        ("somewhere", "--step-ms", "1", "--max-stall", "many"),
        ("somewhere", "--step-ms", "1", "--accelerator", "a100-resnet50"),
        ("somewhere", "--image-size", "large"),
        ("somewhere", "--crop", "round"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(measured: dict[str, Any], words: tuple[str, ...]) -> None:
    assert invoke(*words).exit_code == 2
    assert "paths" not in measured, "nothing was measured"


def test_a_dataset_that_is_not_there_is_said_before_tensorflow_is_loaded(tmp_path: Path) -> None:
    result = invoke(str(tmp_path / "nothing"))
    assert isinstance(result.exception, DataNotFound)


def test_a_sweep_that_cannot_be_is_said_first(tmp_path: Path) -> None:
    result = invoke(str(tmp_path / "nothing"), "--sweep", "colour=red")
    assert isinstance(result.exception, PlanError)


def test_accelerators_are_listed_without_data() -> None:
    result = invoke("--accelerator", "list")
    assert result.exit_code == 0
    assert "a100-resnet50" in result.stdout and "920" in result.stdout


def test_tables_fit_into_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show(sample_results(), None)
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= 80
    for words in ("autotune_fused", "FED", "1.3 %", "36 %", "The plan chosen"):
        assert words in text


def test_what_lies_between_epochs_and_the_gpu_are_shown_where_they_were_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    results = sample_results()
    show(results, None)
    text = capsys.readouterr().out
    assert "epoch gaps" not in text and "GPU" not in text
    told = {"gpu_utilisation": 0.83, "host_to_device_bytes_per_second": 9.5e9}
    fills = (None, FirstFill(epoch_batches=25, seconds=0.4, share=0.12))
    loops = tuple(loop.replace(first_fill=fill, **told) for loop, fill in zip(results.loops, fills, strict=True))
    show(results.replace(loops=loops), None)
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= 80
    starts = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
    assert "epoch gaps" in text
    assert " 12 % " in starts["the"] and " - " in starts["autotune"]
    assert "The GPU was busy 83 % of the time" in text and "9.5 GB/s" in text


def test_a_run_like_the_baseline_passes_and_a_slower_one_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    now = sample_results()
    check_against(now, now, "before.json", quiet=False)
    assert "before.json" in capsys.readouterr().out
    slow = now.replace(runs=tuple(run.replace(samples=tuple(rate / 2 for rate in run.samples)) for run in now.runs))
    with pytest.raises(LimitExceeded):
        check_against(slow, now, "before.json", quiet=True)


def test_a_baseline_that_is_not_there_is_said_before_measuring(measured: dict[str, Any], tmp_path: Path) -> None:
    result = invoke("somewhere", "--baseline", str(tmp_path / "none.json"))
    assert isinstance(result.exception, RecordError)
    assert "paths" not in measured


def test_without_a_verdict_no_limit_is_checked() -> None:
    check_limit(sample_results(step=False), 0.0)


def test_ways_of_storing_are_understood() -> None:
    assert parse_ways("tfrecord, hdf5-raw@256,lmdb@64") == [
        Way("tfrecord", "tfrecord", raw=False, side=None),
        Way("hdf5-raw@256", "hdf5", raw=True, side=256),
        Way("lmdb@64", "lmdb", raw=False, side=64),
    ]


@pytest.mark.parametrize("text", ["zip", "tfrecord-raw", "tfrecord,tfrecord", "hdf5@", ""])
def test_ways_that_are_not_understood_are_usage_errors(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_ways(text)


def test_outputs_name_the_data_of_the_plan_chosen(tmp_path: Path) -> None:
    results = sample_results()
    write_outputs(results, [MemoryData(tmp_path, records=8)], tmp_path / "out")
    assert Tuned.load(tmp_path / "out" / "tuned.json").data.path == str(tmp_path.resolve())


def test_damaged_records_are_said_with_the_way_to_find_them() -> None:
    import tensorflow as tf

    told = "ValueError: DataDamaged: train.h5: record 3 is damaged\nTraceback (most recent call last): ..."
    said = r"photos-hdf5: .*record 3 is damaged. Find it with: dataio verify"
    with pytest.raises(DataDamaged, match=said), damage_said([Path("photos-hdf5")]):
        raise tf.errors.InvalidArgumentError(None, None, told)
    with pytest.raises(DataDamaged, match="corrupted record at 17"), damage_said([Path("photos")]):
        raise tf.errors.DataLossError(None, None, "corrupted record at 17")
