"""Heat maps of a sweep."""

from __future__ import annotations

from dataio.bench.report.sweeps import heat_maps
from tests.bench.sample_results import sample_results


def test_a_cell_is_the_best_of_everything_else_and_one_is_outlined() -> None:
    (heat,) = heat_maps(sample_results())
    cells = [cell for row in heat["rows"] for cell in row["cells"]]
    assert sum(cell["best"] for cell in cells) == 1
    assert heat["columns"] == (2, 4)
    assert [row["name"] for row in heat["rows"]] == [2, 4]


def test_one_field_gives_one_line() -> None:
    results = sample_results().replace(sweep={"prefetch": (2, 4)})
    (heat,) = heat_maps(results)
    assert len(heat["rows"]) == 1
    assert len(heat["rows"][0]["cells"]) == 2


def test_a_combination_that_was_not_run_is_left_open() -> None:
    results = sample_results().replace(sweep={"num_parallel_calls": (2, 4), "prefetch": (2, 4, 99)})
    (heat,) = heat_maps(results)
    assert [row["cells"][2]["words"] for row in heat["rows"]] == ["–", "–"]


def test_without_a_sweep_there_is_no_map() -> None:
    assert heat_maps(sample_results(sweep=False)) == []
