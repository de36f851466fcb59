"""`dataio demo`: the whole way, with measuring left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import dataio
from dataio.cli import demo, measuring
from dataio.errors import DestinationError
from dataio.recipe import Recipe
from tests.bench.sample_results import sample_results


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    def measured(paths: list[Path], recipe: Recipe, **options: Any) -> Any:
        return sample_results(), [dataio.open(path) for path in paths]

    monkeypatch.setattr(measuring, "run", measured)
    monkeypatch.setattr(demo, "_PICTURES", {"train": 16, "val": 8})
    app = typer.Typer()
    demo.register(app)
    return lambda *words: CliRunner().invoke(app, list(words))


def test_it_leaves_pictures_three_formats_a_plan_and_a_report(run: Any, tmp_path: Path) -> None:
    result = run(str(tmp_path / "demo"))
    assert result.exit_code == 0, result.exception
    made = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"pictures", "tfrecord", "hdf5", "lmdb", "results.json", "tuned.json", "report.html"} <= made
    for name in ("tfrecord", "hdf5", "lmdb"):
        assert dataio.open(tmp_path / "demo" / name).split("train").records == 16
    assert "load_tuned" in result.output
    again = run(str(tmp_path / "demo"))
    assert again.exit_code == 0, "a folder that a demo made may be replaced"


def test_it_touches_no_folder_that_is_not_its_own(run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("dear to me")
    result = run(str(tmp_path))
    assert isinstance(result.exception, DestinationError)
    assert (tmp_path / "mine.txt").read_text() == "dear to me"


def test_it_takes_pictures_of_the_user(run: Any, tmp_path: Path) -> None:
    from dataio.cli.demo_pictures import draw_pictures

    draw_pictures(tmp_path / "mine", splits={"train": 9})
    result = run(str(tmp_path / "demo"), "--src", str(tmp_path / "mine"))
    assert result.exit_code == 0, result.exception
    assert dataio.open(tmp_path / "demo" / "lmdb").split("train").records == 9
