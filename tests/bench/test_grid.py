"""Sweeps: what `--sweep` takes, and the plans it stands for."""

from __future__ import annotations

import pytest

from dataio.bench.grid import grid_plans, parse_sweep
from dataio.errors import PlanError
from dataio.plan import Plan


def test_a_sweep_is_every_combination_in_the_order_given() -> None:
    plans = grid_plans(parse_sweep(["num_parallel_calls=1,2", "cache=none,memory"]))
    assert list(plans) == [
        "num_parallel_calls=1, cache=none",
        "num_parallel_calls=1, cache=memory",
        "num_parallel_calls=2, cache=none",
        "num_parallel_calls=2, cache=memory",
    ]
    assert plans["num_parallel_calls=2, cache=memory"] == Plan(num_parallel_calls=2, cache="memory")


def test_values_may_be_numbers_words_and_truths() -> None:
    assert parse_sweep(["prefetch=0,2,auto", "fused_decode_and_crop=true,False"]) == {
        "prefetch": (0, 2, "auto"),
        "fused_decode_and_crop": (True, False),
    }


def test_fields_that_are_not_swept_come_from_the_base_plan() -> None:
    (plan,) = grid_plans(parse_sweep(["prefetch=2"]), base=Plan(threads=3)).values()
    assert plan == Plan(prefetch=2, threads=3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour=1", "num_parallel_calls"),
        ("prefetch", "takes a plan field"),
        ("prefetch=", "takes a plan field"),
        ("prefetch=2,2", "given twice"),
        ("cache=none,floppy", "cache"),
        ("num_parallel_calls=0", "num_parallel_calls"),
        ("schema_version=1", "no field"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_with_what_would_do(text: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        parse_sweep([text])


def test_a_field_given_twice_is_refused() -> None:
    with pytest.raises(PlanError, match="given twice"):
        parse_sweep(["prefetch=1", "prefetch=2"])


def test_a_cache_on_disk_can_be_swept() -> None:
    plans = grid_plans(parse_sweep(["cache=none,disk,decoded_disk"]))
    assert [plan.cache for plan in plans.values()] == ["none", "disk", "decoded_disk"]
