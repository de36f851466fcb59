"""Choosing among measured plans: the fastest, the simplest of a tie, the cheapest that suffices."""

from __future__ import annotations

from collections.abc import Sequence

from dataio.bench.choosing import Candidate, choose
from dataio.bench.measuring import SupplySamples
from dataio.plan import Plan


def candidate(plan: Plan, rates: Sequence[float], *, memory: int = 0) -> Candidate:
    return Candidate(
        plan,
        SupplySamples(
            name="plan",
            batch_size=32,
            round_images_per_second=tuple(rates),
            round_batch_seconds=tuple((0.1,) for _ in rates),
            first_epoch_images_per_second=None,
            first_epoch_whole=True,
            first_batch_seconds=(0.1,),
            warm_up_seconds=1.0,
            steady=True,
            peak_memory_bytes=memory,
        ),
    )


STEADY = [0.99, 1.0, 1.0, 1.0, 1.01]


def rates(median: float) -> list[float]:
    return [median * share for share in STEADY]


def test_without_a_demand_the_fastest_is_taken() -> None:
    plans = [candidate(Plan(), rates(1000)), candidate(Plan(num_parallel_calls=8), rates(1200))]
    assert choose(plans) == 1


def test_of_plans_tied_within_their_noise_the_simplest_is_taken() -> None:
    tied = [1005, 995, 1012, 1001, 998]
    plans = [candidate(Plan(num_parallel_calls=8, prefetch=4), tied), candidate(Plan(), list(reversed(tied)))]
    assert choose(plans) == 1


def test_a_noisy_machine_does_not_tie_plans_that_differ_a_lot() -> None:
    noisy, fast = [600, 900, 1000, 1100, 1400], [700, 1000, 1200, 1300, 1500]
    assert choose([candidate(Plan(), noisy), candidate(Plan(prefetch=4, threads=2), fast)]) == 1


def test_with_a_demand_the_plan_that_takes_the_fewest_cores_is_taken() -> None:
    plans = [
        candidate(Plan(num_parallel_calls=8), rates(2000)),
        candidate(Plan(num_parallel_calls=2), rates(1200)),
        candidate(Plan(num_parallel_calls=1), rates(900)),
    ]
    assert choose(plans, demand_images_per_second=1000, cores=8) == 1


def test_of_plans_on_as_many_cores_the_one_with_least_memory_is_taken() -> None:
    plans = [
        candidate(Plan(num_parallel_calls=2, cache="memory"), rates(2000), memory=900 << 20),
        candidate(Plan(num_parallel_calls=2), rates(1500), memory=80 << 20),
    ]
    assert choose(plans, demand_images_per_second=1000, cores=2) == 1


def test_a_plan_that_only_just_meets_the_demand_does_not_count_as_enough() -> None:
    plans = [candidate(Plan(num_parallel_calls=1), rates(1050)), candidate(Plan(num_parallel_calls=2), rates(1500))]
    assert choose(plans, demand_images_per_second=1000, cores=2) == 1


def test_where_nothing_suffices_the_fastest_is_taken() -> None:
    plans = [candidate(Plan(num_parallel_calls=1), rates(300)), candidate(Plan(num_parallel_calls=2), rates(500))]
    assert choose(plans, demand_images_per_second=1000, cores=2) == 1


def test_one_picture_after_the_other_is_only_taken_where_it_is_surely_better() -> None:
    naive = Plan(num_parallel_calls=1, cycle_length=1, prefetch=0, autotune=False)
    noisy, other = [1400, 600, 1250, 900, 1100], [600, 1400, 900, 1200, 1000]
    assert choose([candidate(naive, noisy), candidate(Plan(), other)]) == 1
    assert choose([candidate(naive, rates(1200)), candidate(Plan(), rates(1000))]) == 0
