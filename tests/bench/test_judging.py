"""Verdicts in words."""

from __future__ import annotations

import pytest

from dataio.bench.judging import Verdict, judge
from dataio.stall import Stall


def verdict(value: float, low: float, high: float, *, supply: float = 500, **options: object) -> Verdict:
    given = {"supply": supply, "demand_images_per_second": 920, "step_name": "a100-resnet50"} | options
    return judge(Stall(value=value, low=low, high=high), **given)  # type: ignore[arg-type]


def test_a_starved_step_is_told_how_long_it_waits_and_how_much_is_missing() -> None:
    found = verdict(0.457, 0.45, 0.465, limit="decoding on 2 cores")
    assert found.outcome == "starved"
    assert found.reason == (
        "the step waits 45.7 % (45.0 % to 46.5 %) of the time: the pipeline delivers 500 images/s and "
        "a100-resnet50 takes 920, limited by decoding on 2 cores"
    )
    assert found.advice == ("the pipeline must become 1.8 times as fast to feed this step",)


def test_a_fed_step_needs_no_advice() -> None:
    found = verdict(0.0, 0.0, 0.006, supply=1840)
    assert found.outcome == "fed"
    assert found.reason.startswith("the step waits less than 1 % of the time")
    assert found.reason.endswith("2 times as many as needed")
    assert found.advice == ()


@pytest.mark.parametrize(("low", "high", "line"), [(0.03, 0.08, "5 %"), (0.15, 0.3, "20 %")])
def test_an_inconclusive_one_says_which_line_and_how_long_it_was_tried(low: float, high: float, line: str) -> None:
    found = verdict((low + high) / 2, low, high, budget_seconds=20)
    assert found.outcome == "inconclusive"
    assert f"both sides of the {line} line" in found.reason
    assert "within 20 s" in found.reason
    assert "longer" in found.advice[0]


def test_a_step_that_waits_for_a_pipeline_that_alone_is_fast_enough_is_told_so() -> None:
    found = verdict(0.1, 0.09, 0.11, supply=1000)
    assert "alone it is fast enough" in found.reason
    assert "prefetch" in found.advice[0]


def test_given_advice_replaces_the_general_one() -> None:
    assert verdict(0.5, 0.49, 0.51, advice=["cache in memory"]).advice == ("cache in memory",)


def test_a_verdict_goes_to_json_and_back() -> None:
    found = verdict(0.5, 0.49, 0.51)
    assert Verdict.from_json(found.to_json()) == found


def test_a_loop_that_kept_up_is_fed_also_where_supply_alone_came_out_lower() -> None:
    found = verdict(0.0, 0.0, 0.006, supply=850)
    assert found.outcome == "fed"
    assert "0.9" not in found.reason and "in the loop, which kept up" in found.reason
