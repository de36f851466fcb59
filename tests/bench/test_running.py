"""A whole bench run on a dataset in memory: what is measured, chosen and judged."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from dataio.bench import remedies, running, sweeping
from dataio.bench.baselines import baseline_plans
from dataio.bench.grid import parse_sweep
from dataio.bench.recording import Measured
from dataio.bench.results import Results
from dataio.bench.running import BenchProgress, bench_seconds, run_bench, short_names
from dataio.bench.setting import Setting
from dataio.bench.step import SimulatedAccelerator
from dataio.data import Data
from dataio.errors import DataNotFound, PlanError
from dataio.plan import Plan
from dataio.recipe import Recipe
from tests.bench.memory_data import MemoryData

RECIPE = Recipe(image_size=16, batch_size=16, dtype="uint8")
#: Enough that a round does not consist of starting epochs.
RECORDS = 1600
SWEEP = parse_sweep(["prefetch=auto", "cache=none,memory"])


@pytest.fixture(scope="module")
def quick() -> pytest.MonkeyPatch:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeping, "ROUNDS", 2)
        patch.setattr(sweeping, "ROUND_SECONDS", 0.05)
        patch.setattr(sweeping, "GROUP", 3)
        patch.setattr(sweeping, "FINALISTS", 3)
        patch.setattr(sweeping, "WARM_UP_SECONDS", 0.2)
        patch.setattr(sweeping, "baseline_plans", lambda data, recipe: few_baselines(data, recipe, "stage_based"))
        patch.setattr(running, "LOOP_SECONDS", (1.0, 1.0))
        patch.setattr(remedies, "TRIAL_SECONDS", 0.1)
        yield patch


def few_baselines(data: Data, recipe: Recipe, *left_out: str) -> dict[str, Plan]:
    return {name: plan for name, plan in baseline_plans(data, recipe).items() if name not in left_out}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    (folder / "records.bin").write_bytes(bytes(1 << 16))
    return folder


@pytest.fixture(scope="module")
def swept(quick: pytest.MonkeyPatch, folder: Path) -> tuple[Results, list[BenchProgress]]:
    heard: list[BenchProgress] = []
    results = run_bench(
        [MemoryData(folder, records=RECORDS)],
        RECIPE,
        step=SimulatedAccelerator(0.004),
        sweep=SWEEP,
        command="dataio bench somewhere",
        on_progress=heard.append,
    )
    return results, heard


def test_baselines_and_the_whole_grid_are_measured(swept: tuple[Results, list[BenchProgress]]) -> None:
    results, _ = swept
    names = {run.name for run in results.runs}
    assert {"naive", "cores", "autotune", "autotune_fused"} <= names
    plans = [run.plan for run in results.runs]
    assert Plan() in plans and Plan(cache="memory") in plans
    assert len(set(plans)) == len(plans), "a plan of the grid that is a baseline is measured once"


def test_one_run_is_chosen_and_every_run_has_its_raw_rounds(swept: tuple[Results, list[BenchProgress]]) -> None:
    results, _ = swept
    assert sum(run.chosen for run in results.runs) == 1
    assert all(len(run.samples) == 2 for run in results.runs)
    assert {run.state for run in results.runs if run.plan.cache == "memory"} == {"cached"}


def test_what_is_chosen_met_the_best_baseline_in_the_final(swept: tuple[Results, list[BenchProgress]]) -> None:
    results, heard = swept
    finalists = {progress.detail for progress in heard if progress.phase.startswith("finalists")}
    assert len(finalists) == 3
    assert results.chosen.name in finalists
    assert finalists & {run.name for run in results.runs if run.baseline}


def test_a_step_gives_two_verdicts_and_the_loops_behind_them(swept: tuple[Results, list[BenchProgress]]) -> None:
    results, _ = swept
    assert results.verdict is not None and results.verdict_before is not None
    assert results.step is not None
    assert results.step.images_per_second == pytest.approx(16 / 0.004)
    assert results.loops[0].run == "autotune"
    assert results.loops[-1].run == results.chosen.name
    assert all(len(loop.wait_seconds) == len(loop.step_seconds) > 0 for loop in results.loops)


def test_stages_machine_and_sweep_are_recorded(swept: tuple[Results, list[BenchProgress]]) -> None:
    results, _ = swept
    assert sum(cost.share for cost in results.costs) == pytest.approx(1)
    assert results.machine.storage[0].sampled_bytes == 1 << 16
    assert results.sweep == SWEEP
    assert results.command == "dataio bench somewhere"


def test_progress_names_the_plan_and_never_goes_past_its_end(swept: tuple[Results, list[BenchProgress]]) -> None:
    _, heard = swept
    assert {progress.detail for progress in heard} >= {"naive", "autotune"}
    assert all(0 <= progress.done <= progress.total for progress in heard)


def test_a_cache_that_does_not_fit_is_refused_and_not_tried(
    quick: pytest.MonkeyPatch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "usable_memory_bytes", lambda: 100_000_000)
    left_out = ("naive", "cores", "stage_based")
    monkeypatch.setattr(sweeping, "baseline_plans", lambda data, recipe: few_baselines(data, recipe, *left_out))
    data = MemoryData(folder, records=RECORDS)
    data.splits = {"train": replace(data.splits["train"], bytes=10**12)}
    results = run_bench([data], RECIPE, sweep=parse_sweep(["cache=memory"]))
    assert [refused.name for refused in results.refused] == ["cache=memory"]
    assert all(run.plan.cache == "none" for run in results.runs)
    assert results.verdict is None and results.verdict_before is None


def test_a_sweep_of_what_the_recipe_forbids_is_an_error_before_anything_runs(folder: Path) -> None:
    with pytest.raises(PlanError, match="exact"):
        run_bench([MemoryData(folder)], RECIPE.replace(fidelity="exact"), sweep=parse_sweep(["kernel=opencv"]))


def test_a_missing_split_is_an_error_before_anything_runs(folder: Path) -> None:
    with pytest.raises(DataNotFound, match="val"):
        run_bench([MemoryData(folder)], RECIPE, split="val")


def test_a_longer_sweep_is_told_to_take_longer(folder: Path) -> None:
    data = [MemoryData(folder)]
    short = bench_seconds(data, parse_sweep(["prefetch=1"]), RECIPE, split="train", step=False)
    long = bench_seconds(data, parse_sweep(["prefetch=1,2,3", "threads=1,2"]), RECIPE, split="train", step=False)
    assert long > short > 10
    assert bench_seconds(data, parse_sweep(["prefetch=1"]), RECIPE, split="train", step=True) > short


def test_datasets_get_the_shortest_names_that_tell_them_apart(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "photos", tmp_path / "b" / "photos", tmp_path / "b" / "other"]
    assert short_names([MemoryData(path, records=1) for path in paths]) == ["a/photos", "b/photos", "b/other"]
    assert short_names([MemoryData(paths[0], records=1)]) == ["photos"]
    assert len(set(short_names([MemoryData(paths[0], records=1)] * 2))) == 2


def test_a_sample_is_searched_as_a_part_of_its_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked(Exception):
        pass

    asked: list[float] = []

    def search(data: Data, recipe: Recipe, *, whole: float, **_: object) -> None:
        asked.append(whole)
        raise Asked

    monkeypatch.setattr(running, "search", search)
    one = Measured("sample", MemoryData(folder, records=16), whole=40.0)
    with pytest.raises(Asked):
        running._search(Setting(RECIPE, "train", None, 2, lambda progress: None, time.perf_counter), one, 1.0)
    assert asked == [40.0]


def test_a_sweep_of_a_sample_refuses_caches_that_could_not_hold_the_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "usable_memory_bytes", lambda: 1_000_000_000)
    setting = Setting(RECIPE, "train", None, 2, lambda progress: None, time.perf_counter)
    plans = {"cached": Plan(cache="memory")}
    sample = Measured("sample", MemoryData(folder), whole=1.0)
    assert sweeping._possible(setting, sample, plans) == plans
    sample.whole = 10_000.0
    assert sweeping._possible(setting, sample, plans) == {}
    assert "needs" in sample.refused["cached"]
