"""The gate against an earlier run."""

from __future__ import annotations

import random

import pytest

from dataio.bench.gate import check_baseline, compare
from dataio.bench.results import Results
from dataio.errors import LimitExceeded, RecordError
from dataio.recipe import Recipe
from dataio.stall import Stall
from tests.bench.sample_results import sample_results


def scaled(
    results: Results, factor: float, *, chosen_only: bool = False, seed: int = 1, noise: float = 0.02
) -> Results:
    """The results as a run `factor` times as fast would have given them."""
    random_ = random.Random(seed)
    runs = []
    for run in results.runs:
        if chosen_only and not run.chosen:
            runs.append(run)
            continue
        samples = tuple(run.images_per_second.median * factor * random_.gauss(1, noise) for _ in run.samples)
        rate = run.images_per_second.replace(low=min(samples), median=sorted(samples)[2], high=max(samples))
        runs.append(run.replace(samples=samples, images_per_second=rate))
    return results.replace(runs=tuple(runs))


def stalled(results: Results, value: float, low: float, high: float) -> Results:
    assert results.verdict is not None
    return results.replace(verdict=results.verdict.replace(stall=Stall(value=value, low=low, high=high)))


BEFORE = sample_results()


def test_a_plan_that_became_a_fifth_slower_is_a_regression_that_says_by_how_much() -> None:
    with pytest.raises(LimitExceeded, match=r"the chosen plan supplies .* (19|20|21)% .*less than .* in old\.json"):
        check_baseline(scaled(BEFORE, 0.8), BEFORE, origin="old.json")


def test_a_plan_that_only_varies_is_none() -> None:
    for seed in range(20):
        assert not compare(scaled(BEFORE, 0.98, seed=seed, noise=0.04), BEFORE).losses


def test_a_slower_machine_shows_in_the_plans_that_both_runs_have() -> None:
    assert compare(scaled(BEFORE, 0.8), BEFORE).same_plans == pytest.approx(0.8, abs=0.03)
    assert compare(scaled(BEFORE, 0.8, chosen_only=True), BEFORE).same_plans == pytest.approx(1.0)


def test_a_noisy_run_must_lose_more_than_its_noise() -> None:
    slower = scaled(BEFORE, 0.85, noise=0.001)
    assert compare(slower, BEFORE).losses
    assert not compare(slower.replace(noise=0.2), BEFORE).losses


def test_being_faster_is_no_regression() -> None:
    comparison = check_baseline(scaled(BEFORE, 1.5), BEFORE)
    assert comparison.supply.value == pytest.approx(1.5, abs=0.05)


def test_a_stall_that_grew_beyond_both_intervals_is_a_regression() -> None:
    before = stalled(BEFORE, 0.05, 0.04, 0.06)
    assert not compare(stalled(BEFORE, 0.07, 0.06, 0.08), before).losses
    with pytest.raises(LimitExceeded, match=r"waits 12\.0% of the time \(10\.0% to 14\.0%\), 5\.0% in the baseline"):
        check_baseline(stalled(BEFORE, 0.12, 0.10, 0.14), before)


def test_runs_of_different_recipes_or_steps_are_not_compared() -> None:
    with pytest.raises(RecordError, match="another recipe"):
        compare(BEFORE.replace(recipe=Recipe(batch_size=3)), BEFORE)
    with pytest.raises(RecordError, match="another step"):
        compare(sample_results(step=False), BEFORE)


def test_another_machine_and_changed_data_are_noted() -> None:
    other = BEFORE.replace(machine=BEFORE.machine.replace(cpu="another"))
    changed = other.replace(datasets=tuple(data.replace(fingerprint="new") for data in other.datasets))
    notes = compare(changed, BEFORE, origin="old.json").notes
    assert notes[0] == "old.json comes from another machine"
    assert "has changed since old.json" in notes[1]
