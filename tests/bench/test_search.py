"""The search, on a machine that exists as a formula: what it tries, what it refuses, and what it chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from dataio.bench.costs import Costs, StageSeconds
from dataio.bench.measuring import SupplySamples
from dataio.bench.search import SearchResult, search
from dataio.bench.words import plan_words
from dataio.data import Data, Split
from dataio.plan import Plan
from dataio.recipe import Recipe

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
    """Rates by formula, time by count."""

    def __init__(self, rate: Callable[[Plan], float], plans: dict[int, Plan] | None = None) -> None:
        self.now = 0.0
        self.rate = rate
        self.measured: list[list[Plan]] = []

    def clock(self) -> float:
        return self.now

    def measure(
        self,
        builders: Mapping[str, Callable[[], Any]],
        *,
        batch_size: int,
        rounds: int,
        round_seconds: float,
        warm_up_seconds: float,
        whole_first_epoch: set[str],
        clock: Callable[[], float],
        on_progress: Any,
    ) -> dict[str, SupplySamples]:
        plans = {name: _plan_of(build) for name, build in builders.items()}
        self.measured.append(list(plans.values()))
        assert whole_first_epoch == {name for name, plan in plans.items() if plan.cache != "none"}
        self.now += len(plans) * (2.0 + rounds * round_seconds * 1.5)
        found = {}
        for name, plan in plans.items():
            # The first round is slow and the second fast by the same share: the median is the formula's.
            rates = [self.rate(plan) * (1 + 0.004 * ((number % 3) - 1)) for number in range(rounds)]
            found[name] = SupplySamples(
                name=name,
                batch_size=batch_size,
                round_images_per_second=tuple(rates),
                round_batch_seconds=tuple((batch_size / rate,) for rate in rates),
                first_epoch_images_per_second=None,
                first_epoch_whole=False,
                first_batch_seconds=(0.3,),
                warm_up_seconds=1.0,
                steady=True,
                peak_memory_bytes=100_000_000,
            )
        return found

    def calibrate(self, plan: Plan) -> Costs:
        self.now += 2.0
        seconds = 1 / self.rate(plan.replace(num_parallel_calls=1, cycle_length=1, prefetch=0))
        stages = (("read", 0.1), ("boxes", 0.01), ("picture", 0.8), ("op overhead", 0.09))
        return Costs(
            images=1000,
            seconds_per_image=seconds,
            stages=tuple(
                StageSeconds(stage=stage, seconds_per_image=share * seconds, bytes_per_image=None, share=share)  # type: ignore[arg-type]
                for stage, share in stages
            ),
        )

    def search(self, data: Data | None = None, recipe: Recipe = RECIPE, **options: Any) -> SearchResult:
        given: dict[str, Any] = {"cores": CORES, "free_bytes": 16 * GB} | options
        return search(data or Told(), recipe, measure=self.measure, calibrate=self.calibrate, clock=self.clock, **given)


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
    rungs = [len(rung) for rung in machine.measured]
    assert len(rungs) == 2 and rungs[1] == 1  # one variant that promises much is worth its time; no final


def test_where_nothing_beats_autotune_autotune_is_chosen() -> None:
    found = Machine(lambda plan: 2000.0 if plan == Plan() else 1000.0).search()
    assert found.chosen == "autotune"


def test_a_tie_goes_to_the_simplest_plan() -> None:
    found = Machine(lambda plan: 1000.0).search()
    assert found.chosen == "autotune"


def test_the_choice_is_made_among_plans_measured_in_turn_with_the_best_baseline() -> None:
    machine = Machine(typical)
    found = machine.search()
    assert set(machine.measured[-1]) == {found.candidates[name].plan for name in found.finalists}
    assert "autotune_fused" in found.finalists
    assert found.chosen in found.finalists


def test_an_exact_recipe_is_never_given_a_kernel_that_differs() -> None:
    machine = Machine(typical)
    found = machine.search(recipe=RECIPE.replace(fidelity="exact"))
    for plans in machine.measured:
        assert all(plan.kernel == "tensorflow" and not plan.fused_decode_and_crop for plan in plans)
    assert "autotune_fused" not in found.candidates


def test_raw_pixels_are_never_decoded() -> None:
    machine = Machine(typical)
    machine.search(Told(encoding="raw"))
    assert not any(plan.fused_decode_and_crop for plans in machine.measured for plan in plans)


def test_a_cache_that_the_whole_split_does_not_fit_in_is_refused_and_not_run() -> None:
    machine = Machine(lambda plan: 10 * typical(plan) if plan.cache == "memory" else typical(plan))
    found = machine.search(Told(records=1_281_167), free_bytes=64 * GB, budget_seconds=120.0)
    assert not any(plan.cache == "memory" for plans in machine.measured for plan in plans)
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
    variants = {plan_words(plan) for plan in machine.measured[1]}
    assert variants
    for name in variants:
        if "decoded" in name:
            continue  # the formula has no decoding that a cache could save
        measured = found.candidates[name].samples.images_per_second.value
        assert measured == pytest.approx(found.predicted[name].value, rel=0.25)
