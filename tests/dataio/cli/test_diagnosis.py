"""The command that looks at somebody else's pipeline."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf
import typer
from typer.testing import CliRunner

from dataio.bench.step import SimulatedAccelerator
from dataio.cli.bench import register
from dataio.cli.diagnosis import bench_dataset, recipe_of
from dataio.errors import LimitExceeded, StepError
from dataio.recipe import Recipe

SOURCE = """
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

def make():
    pictures = tf.data.Dataset.range(10_000).map(lambda x: (tf.zeros([6, 8, 3]) + tf.cast(x, tf.float32), x))
    return pictures.batch(4, drop_remainder=True)

def make_slow():
    return make().apply(testing.sleep(20_000))  # microseconds
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "their_inputs.py").write_text(SOURCE)
    yield "their_inputs:make"
    sys.modules.pop("their_inputs", None)


def no_step(recipe: Recipe) -> None:
    return None


def test_what_was_found_is_printed(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    bench_dataset(spec, make_step=no_step, budget=1)
    said = capsys.readouterr().out
    assert said.startswith("their_inputs:make delivers ")
    assert "no-prefetch-at-the-end" in said
    assert "verdict" not in said


def test_with_json_nothing_else_is_printed(spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench_dataset(spec, make_step=lambda _: SimulatedAccelerator(0.002), budget=2, out=tmp_path / "out", json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "diagnosis.json").read_text())
    assert printed["batch_size"] == 4
    assert printed["verdict"]["outcome"] in {"fed", "limited", "starved", "inconclusive"}


def test_a_stall_above_the_limit_is_an_error_of_its_own(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LimitExceeded, match="above --max-stall"):
        bench_dataset(f"{spec}_slow", make_step=lambda _: SimulatedAccelerator(0.002), budget=2, limit=0.5)


def test_the_step_is_made_for_the_batches_that_come(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Recipe] = []

    def make(recipe: Recipe) -> None:
        asked.append(recipe)

    bench_dataset(spec, make_step=make, budget=1)
    (recipe,) = asked
    assert recipe.batch_size == 4
    assert recipe.height_width == (6, 8)


def test_shapes_that_do_not_tell_leave_the_recipe_as_it_is() -> None:
    dataset = tf.data.Dataset.range(3)
    assert recipe_of(dataset) == Recipe()
    assert recipe_of(dataset, 16) == Recipe(batch_size=16)


def test_a_dataset_that_is_not_there_is_an_error(spec: str) -> None:
    with pytest.raises(StepError, match="has no 'other'"):
        bench_dataset("their_inputs:other", make_step=no_step)


def test_bench_takes_the_pipeline_as_an_option(spec: str) -> None:
    app = typer.Typer()
    register(app)
    result = CliRunner().invoke(app, ["--dataset", spec, "--step-ms", "1", "--budget", "2", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["batch_size"] == 4


@pytest.mark.parametrize("other", [["folder"], ["--sweep", "prefetch=2"], ["--try", "lmdb"]])
def test_bench_refuses_what_a_pipeline_of_ones_own_cannot_have(spec: str, other: list[str]) -> None:
    app = typer.Typer()
    register(app)
    assert CliRunner().invoke(app, ["--dataset", spec, *other]).exit_code == 2
