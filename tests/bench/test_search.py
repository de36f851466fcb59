"""The search, on a machine that exists as a formula: what it tries, what it refuses, and what it chooses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from dataio.bench.costs import Costs, StageSeconds, measure_costs
from dataio.bench.measuring import SupplySamples
from dataio.bench.search import SearchResult, calibrate_serially, search
from dataio.data import Data, Split
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe

from .test_bounds import Pictures

RECIPE = Recipe(image_size=224, batch_size=64, dtype="uint8")
CORES = 4
GB = 10**9


class Told(Data):
    """A dataset of which only the figures matter."""

    def __init__(self, records: int = 2000, *, encoding: str = "jpeg", record_bytes: int = 100_000) -> None:
        self.path, self.format, self.fingerprint = Path("told"), "hdf5", "told"
        self.encoding = encoding  # type: ignore[assignment]
        self.random_access = True
        self.class_names = ("a", "b")
        self.splits = {"train": Split(records=records, shards=1, bytes=records * record_bytes)}

    def records(self, split: str, **_: Any) -> tf.data.Dataset:
        """Only sizes are asked for: of photographs of 500 x 375."""
        return tf.data.Dataset.from_tensors({"height": 375, "width": 500}).repeat(3)


class Machine:
    """Rates by formula, time by count; also what measures its pipelines."""

    def __init__(self, rate: Callable[[Plan], float]) -> None:
        self.now = 0.0
        self.rate = rate
        self.plans: dict[str, Plan] = {}
        """Every plan that was ever built, in order."""
        self.alive: set[str] = set()
        self.calibrated: list[Plan] = []
        """Every plan that was run serially, in order."""
        self.turns: list[str] = []
        """The plan of every round, in order."""

    def clock(self) -> float:
        return self.now

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.alive.clear()

    def add(self, name: str, build: Callable[[], Any], *, whole_first_epoch: bool = False) -> None:
        plan = _plan_of(build)
        assert name not in self.plans, "a plan is built once"
        assert whole_first_epoch == (plan.cache != "none")
        self.plans[name] = plan
        self.alive.add(name)
        self.now += 2.0

    def run_round(self, name: str, seconds: float) -> None:
        assert name in self.alive
        self.turns.append(name)
        self.now += 2 * seconds

    def samples(self, name: str, *, latest: int | None = None) -> SupplySamples:
        rounds = self.turns.count(name)
        rate = self.rate(self.plans[name])
        # The first round is slow and the second fast by the same share: the median is the formula's.
        rates = [rate * (1 + 0.004 * ((number % 3) - 1)) for number in range(rounds)][-(latest or rounds) :]
        return SupplySamples(
            name=name,
            batch_size=64,
            round_images_per_second=tuple(rates),
            round_batch_seconds=tuple((64 / rate,) for rate in rates),
            first_epoch_images_per_second=None,
            first_epoch_whole=False,
            first_batch_seconds=(0.3,),
            warm_up_seconds=1.0,
            steady=True,
            peak_memory_bytes=100_000_000,
        )

    def drop(self, name: str) -> None:
        self.alive.remove(name)

    def calibrate(self, plan: Plan) -> Costs:
        self.calibrated.append(plan)
        self.now += 2.0
        seconds = 1 / self.rate(plan.replace(num_parallel_calls=1, cycle_length=1, prefetch=0))
        stages = (("read", 0.1), ("boxes", 0.01), ("picture", 0.8), ("op overhead", 0.09))
        return Costs(
            images=1000,
            seconds_per_image=seconds,
            stages=tuple(
                StageSeconds(stage=stage, seconds_per_image=share * seconds, bytes_per_image=None, share=share)
                for stage, share in stages
            ),
        )

    def cut(self) -> float:
        self.now += 0.3
        return 0.12 / self.rate(Plan(kernel="opencv", num_parallel_calls=1))  # the rest of the work is decoding

    def search(self, data: Data | None = None, recipe: Recipe = RECIPE, **options: Any) -> SearchResult:
        given: dict[str, Any] = {"cores": CORES, "free_bytes": 16 * GB} | options
        given |= {"calibrate": self.calibrate, "cut": self.cut, "clock": self.clock}
        return search(data or Told(), recipe, supply=lambda: self, **given)


def _plan_of(build: Callable[[], Any]) -> Plan:
    """The plan in a builder's closure."""
    for cell in build.__closure__ or ():
        if isinstance(cell.cell_contents, Plan):
            return cell.cell_contents
    raise AssertionError("a builder without a plan")


def typical(plan: Plan) -> float:
    """Work by kernel, side by side on the cores."""
    work = {("tensorflow", False): 2.0, ("tensorflow", True): 1.6, ("opencv", False): 1.5, ("opencv", True): 1.0}
    seconds = work[plan.kernel, plan.fused_decode_and_crop] * 1e-3
    if plan.cache != "none":
        seconds -= 0.1e-3
    calls = plan.num_parallel_calls
    if calls == "auto":
        calls = CORES if plan.autotune else 1
    return min(calls, CORES) / seconds


def test_the_fastest_kernel_is_found() -> None:
    found = Machine(typical).search()
    assert found.plan.kernel == "opencv" and found.plan.fused_decode_and_crop
    assert typical(found.plan) >= 0.97 * CORES / 0.9e-3


def test_all_baselines_are_measured_and_known_as_such() -> None:
    found = Machine(typical).search()
    assert found.baselines == {"naive", "cores", "autotune", "stage_based", "autotune_fused"}
    assert found.baselines <= set(found.candidates)


def test_it_ends_within_its_budget() -> None:
    for budget in (40.0, 60.0, 120.0):
        machine = Machine(typical)
        machine.search(budget_seconds=budget)
        assert machine.now <= budget * 1.05


def test_a_budget_too_short_for_a_final_still_chooses_from_what_was_measured() -> None:
    machine = Machine(typical)
    found = machine.search(budget_seconds=5.0)
    assert found.plan.kernel == "opencv" and found.plan.fused_decode_and_crop
    variants = [name for name in machine.plans if name not in found.baselines]
    assert len(variants) <= 3  # two ways that no baseline uses, and one that promises much
    assert set(found.finalists) == set(found.candidates)  # no final


def test_where_nothing_beats_autotune_autotune_is_chosen() -> None:
    found = Machine(lambda plan: 2000.0 if plan == Plan() else 1000.0).search()
    assert found.chosen == "autotune"


def test_a_tie_goes_to_the_simplest_plan() -> None:
    found = Machine(lambda plan: 1000.0).search()
    assert found.chosen == "autotune"


def test_the_choice_is_made_among_plans_measured_in_turn_with_the_best_baseline() -> None:
    machine = Machine(typical)
    found = machine.search()
    # Two early rounds and three of the final, in which it fell out of reach.
    assert machine.turns.count("autotune_fused") == 5
    assert found.chosen in found.finalists
    count = len(found.finalists)
    rounds = {len(found.candidates[name].samples.round_images_per_second) for name in found.finalists}
    assert rounds == {max(rounds)} and max(rounds) >= 3
    assert set(machine.turns[-count:]) == set(found.finalists)


def test_a_baseline_within_reach_stays_in_the_final() -> None:
    found = Machine(lambda plan: 1000.0 if plan.kernel == "tensorflow" else 1050.0).search()
    assert found.baselines & set(found.finalists)
    assert found.plan.kernel == "opencv"


def test_what_reading_costs_is_told_after_the_baselines_have_read_the_files() -> None:
    machine = Machine(typical)
    begun: list[int] = []
    calibrate = machine.calibrate
    machine.calibrate = lambda plan: (begun.append(len(machine.plans)), calibrate(plan))[1]  # type: ignore[method-assign, func-returns-value]
    machine.search()
    assert begun[0] >= 5


def test_no_pipeline_is_left_alive() -> None:
    machine = Machine(typical)
    machine.search()
    assert not machine.alive


def test_plans_that_cannot_win_do_not_hold_memory_in_the_final() -> None:
    machine = Machine(typical)
    alive: list[set[str]] = []
    run = machine.run_round
    machine.run_round = lambda name, seconds: (alive.append(set(machine.alive)), run(name, seconds))[1]  # type: ignore[method-assign, func-returns-value]
    machine.search()
    assert "naive" in alive[0] and "naive" not in alive[-1]
    assert len(alive[-1]) <= 4


def test_two_caches_that_do_not_fit_beside_each_other_are_not_both_built() -> None:
    def rate(plan: Plan) -> float:
        return typical(plan) * (2.0 if plan.cache != "none" else 1.0)

    machine = Machine(rate)
    # Decoded 11.3 GB, as stored 6 GB: each within 80 % of what is free.
    found = machine.search(Told(records=20_000, record_bytes=300_000), budget_seconds=600.0, free_bytes=20 * GB)
    assert {plan.cache for plan in machine.plans.values()} == {"none", "decoded"}
    assert any("cache=memory" in name for name in found.skipped)
    assert not any("cache=memory" in name for name in found.refused)


def test_a_plan_that_promises_much_is_measured_although_the_time_is_up() -> None:
    machine = Machine(typical)
    machine.search(budget_seconds=5.0)
    assert [plan.cache for plan in machine.plans.values()].count("decoded") == 1


def test_pictures_that_tensorflows_ops_cut_from_a_cache_are_calibrated_where_no_other_kernel_may() -> None:
    fast, exact = Machine(typical), Machine(typical)
    fast.search()
    assert Plan(cache="decoded") not in [plan.replace(num_parallel_calls="auto") for plan in fast.calibrated]
    exact.search(recipe=RECIPE.replace(fidelity="exact"))
    assert [(plan.kernel, plan.cache) for plan in exact.calibrated[:2]] == [
        ("tensorflow", "none"),
        ("tensorflow", "decoded"),
    ]
    short = Machine(typical)
    short.search(recipe=RECIPE.replace(fidelity="exact"), budget_seconds=20.0)
    tight = Machine(typical)
    tight.search(recipe=RECIPE.replace(fidelity="exact"), free_bytes=GB // 2)  # 2,000 pictures of 562 kB
    assert {plan.cache for plan in (*tight.calibrated, *short.calibrated)} == {"none"}


def test_a_serial_run_of_a_cache_holds_a_part_of_the_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []

    def counted(*arguments: Any, num_shards: int, **named: Any) -> tf.data.Dataset:
        parts.append(num_shards)
        return build(*arguments, num_shards=num_shards, **named)

    filled: list[bool] = []

    def measured(*arguments: Any, whole_first_epoch: bool, **named: Any) -> Costs:
        filled.append(whole_first_epoch)
        return measure_costs(*arguments, whole_first_epoch=whole_first_epoch, **named)

    monkeypatch.setattr("dataio.bench.search.build", counted)
    monkeypatch.setattr("dataio.bench.search.measure_costs", measured)
    monkeypatch.setattr("dataio.bench.search.CALIBRATION_RECORDS", 24)
    monkeypatch.setattr("dataio.bench.search.CALIBRATION_SECONDS", 0.1)
    small = Recipe(image_size=32, batch_size=4, dtype="uint8")
    data = Pictures(96)
    whole = calibrate_serially(data, small, Plan(), split="train")
    kept = calibrate_serially(data, small, Plan(cache="decoded"), split="train")
    large = calibrate_serially(data, small.replace(batch_size=6), Plan(cache="decoded"), split="train")
    assert parts == [1, 3, 2]  # 32 records are eight batches, and 48
    assert filled == [False, True, True]
    assert large.seconds_per_image < whole.seconds_per_image
    assert 0 < kept.seconds_per_image < whole.seconds_per_image


def test_plans_of_few_rounds_know_how_rounds_scatter_in_the_whole_run() -> None:
    found = Machine(typical).search()
    spreads = {candidate.samples.spread for candidate in found.candidates.values()}
    assert len(spreads) == 1
    (spread,) = spreads
    assert spread is not None and spread.freedom >= len(found.candidates)


def test_an_exact_recipe_is_never_given_a_kernel_that_differs() -> None:
    machine = Machine(typical)
    found = machine.search(recipe=RECIPE.replace(fidelity="exact"))
    assert all(plan.kernel == "tensorflow" and not plan.fused_decode_and_crop for plan in machine.plans.values())
    assert "autotune_fused" not in found.candidates


def test_raw_pixels_are_never_decoded() -> None:
    machine = Machine(typical)
    machine.search(Told(encoding="raw"))
    assert not any(plan.fused_decode_and_crop for plan in machine.plans.values())


def test_a_cache_that_the_whole_split_does_not_fit_in_is_refused_and_not_run() -> None:
    machine = Machine(lambda plan: 10 * typical(plan) if plan.cache == "memory" else typical(plan))
    found = machine.search(Told(records=1_281_167), free_bytes=64 * GB, budget_seconds=120.0)
    assert not any(plan.cache == "memory" for plan in machine.plans.values())
    assert any("cache=memory" in name and "needs 130" in reason for name, reason in found.refused.items())


def test_a_cache_that_fits_and_pays_is_chosen() -> None:
    def rate(plan: Plan) -> float:
        return typical(plan) * (1.0 if plan.cache == "memory" else 0.5)

    assert Machine(rate).search(budget_seconds=120.0).plan.cache == "memory"


def test_a_cache_of_decoded_pictures_is_chosen_where_it_fits_and_refused_where_not() -> None:
    def rate(plan: Plan) -> float:
        return typical(plan) * (5.0 if plan.cache == "decoded" else 1.0)

    assert Machine(rate).search(budget_seconds=120.0).plan.cache == "decoded"
    tight = Machine(rate).search(budget_seconds=120.0, free_bytes=1 * GB)  # 2,000 pictures of 562 kB
    assert tight.plan.cache != "decoded"
    assert any("cache=decoded" in name for name in tight.refused)


def test_a_cache_that_fits_the_sample_but_not_the_whole_is_refused_and_not_run() -> None:
    machine = Machine(lambda plan: 10 * typical(plan) if plan.cache != "none" else typical(plan))
    found = machine.search(whole=640, free_bytes=64 * GB, budget_seconds=120.0)
    assert all(plan.cache == "none" for plan in machine.plans.values())
    assert any("cache=memory" in name and "needs 130" in reason for name, reason in found.refused.items())


def test_plans_that_prediction_rules_out_are_skipped_and_told() -> None:
    machine = Machine(typical)
    found = machine.search(budget_seconds=600.0)
    fastest = max(candidate.samples.images_per_second.value for candidate in found.candidates.values())
    assert found.skipped
    assert all(predicted.high < fastest for predicted in found.skipped.values())


def test_with_a_demand_the_cheapest_plan_that_meets_it_is_chosen() -> None:
    found = Machine(typical).search(demand=800.0, budget_seconds=120.0)
    assert typical(found.plan) >= 1.1 * 800
    assert found.plan.num_parallel_calls == 1
    assert found.plan.kernel == "opencv"


def test_with_a_demand_that_nothing_meets_the_fastest_is_chosen() -> None:
    found = Machine(typical).search(demand=50_000.0)
    assert found.plan.kernel == "opencv" and found.plan.fused_decode_and_crop


@pytest.mark.parametrize("demand", [None, 800.0])
def test_predictions_are_kept_beside_what_was_measured(demand: float | None) -> None:
    machine = Machine(typical)
    found = machine.search(demand=demand, budget_seconds=120.0)
    assert set(found.predicted) == set(found.candidates)
    variants = set(list(machine.plans)[7:])  # after five baselines and two ways that none of them uses
    assert variants
    for name in variants:
        if "decoded" in name:
            continue  # the formula has no decoding that a cache could save
        measured = found.candidates[name].samples.images_per_second.value
        assert measured == pytest.approx(found.predicted[name].value, rel=0.25)
