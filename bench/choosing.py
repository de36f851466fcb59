"""Which of the plans that were measured to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataio.bench.measuring import SupplySamples
from dataio.bench.stats import differs, ratio_interval
from dataio.machine import usable_cores
from dataio.plan import Plan

#: How far the lower end of a plan's supply must lie above the demand before the plan counts as feeding it.
#: A step starves now and then on a pipeline that is only just as fast: both vary.
HEADROOM = 1.10

#: Plans whose medians lie within this share of the fastest count as tied with it if their rounds do not tell them
#: apart either. Without it a noisy machine would tie plans that differ by its noise.
TIE_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that was measured."""

    plan: Plan
    """The plan."""
    samples: SupplySamples
    """What it supplied."""


def choose(
    candidates: Sequence[Candidate], *, demand_images_per_second: float | None = None, cores: int | None = None
) -> int:
    """Position of the plan to take.

    Without a demand: the fastest, and of those tied with it the simplest. With a demand: of the plans whose lower bound
    passes it by a tenth, the cheapest (fewest cores, then least memory, then simplest); where none does, the fastest.

    Args:
        candidates: plans on the same data, at least one, measured in the same run.
        demand_images_per_second: what the step takes, or None.
        cores: cores that the process may use; found out when None.
    """
    cores = usable_cores() if cores is None else cores
    if demand_images_per_second is not None:
        enough = [
            position
            for position, candidate in enumerate(candidates)
            if candidate.samples.images_per_second.low >= HEADROOM * demand_images_per_second
        ]
        if enough:
            return min(enough, key=lambda position: _price(candidates[position], cores))
    by_rate = sorted(range(len(candidates)), key=lambda position: -candidates[position].samples.images_per_second.value)
    fastest = by_rate[0]
    parallel = next((position for position in by_rate if not _serial(candidates[position].plan)), fastest)
    # One picture after the other is only taken where it is surely better: noise must not choose it.
    if fastest != parallel and not differs(
        ratio_interval(
            candidates[fastest].samples.round_images_per_second, candidates[parallel].samples.round_images_per_second
        )
    ):
        fastest = parallel
    tied = [position for position, candidate in enumerate(candidates) if _tied(candidate, candidates[fastest])]
    return min(tied, key=lambda position: complexity(candidates[position].plan))


def complexity(plan: Plan) -> int:
    """In how many fields a plan differs from AUTOTUNE throughout; 0 is the plan that needs no explaining."""
    default = Plan()
    return sum(getattr(plan, name) != getattr(default, name) for name in Plan.model_fields)


def _serial(plan: Plan) -> bool:
    return not plan.autotune and plan.num_parallel_calls in (1, "auto")


def _price(candidate: Candidate, cores: int) -> tuple[int, int, int]:
    plan = candidate.plan
    used = [cores if value == "auto" else value for value in (plan.threads, plan.num_parallel_calls)]
    busy = min(cores, *used) if plan.autotune or plan.num_parallel_calls != "auto" else 1
    # Memory in steps of 16 MB: smaller differences are the allocator's mood.
    return busy, candidate.samples.peak_memory_bytes // (16 << 20), complexity(plan)


def _tied(candidate: Candidate, fastest: Candidate) -> bool:
    if candidate is fastest:
        return True
    ours, best = candidate.samples, fastest.samples
    if ours.images_per_second.value < (1 - TIE_SHARE) * best.images_per_second.value:
        return False
    return not differs(ratio_interval(ours.round_images_per_second, best.round_images_per_second))
