"""The loop with a step, judged: what its verdict tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dataio.bench import looping
from dataio.bench.choosing import Candidate
from dataio.bench.recording import Measured
from dataio.bench.results import Loop
from dataio.bench.setting import Setting
from dataio.bench.words import HELD_UP_PLAN
from dataio.data import Data
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stall import Interval
from tests.bench.test_filling import STEP, measure
from tests.bench.virtual import Time, VirtualStep

SUPPLY = SimpleNamespace(images_per_second=Interval(value=160, low=150, high=170))


def verdict_of(monkeypatch: pytest.MonkeyPatch, *, plan: Plan | None = None, **how: Any) -> tuple[str, Loop]:
    samples = measure(**how)
    monkeypatch.setattr(looping, "measure_stall", lambda *given, **options: samples)
    setting = Setting(Recipe(batch_size=4), "train", 80.0, 2, lambda progress: None, Time().clock)
    one = Measured("photos", cast(Data, None), candidates={"autotune": Candidate(plan or Plan(), cast(Any, SUPPLY))})
    loops: list[Loop] = []
    verdict, _ = looping.run_loop(setting, one, "autotune", VirtualStep(Time(), STEP), 60.0, loops)
    assert verdict.outcome == "fed" and verdict.stall.value == 0.0
    return verdict.reason, loops[0]


def test_a_fed_loop_that_loses_time_at_the_starts_of_its_epochs_says_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    reason, loop = verdict_of(monkeypatch, batches=25, first=0.4)
    assert reason.endswith("; besides, the start of every epoch of 25 batches takes 400 ms: 24 % of the time")
    assert loop.first_fill is not None and loop.first_fill.seconds == pytest.approx(0.4)


def test_starts_of_long_epochs_are_not_worth_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    reason, loop = verdict_of(monkeypatch, batches=200, first=0.4)
    assert "besides" not in reason
    assert loop.first_fill is not None and loop.first_fill.share == pytest.approx(0.4 / 10.4, rel=0.02)


def test_ends_that_are_held_up_are_told_with_the_remedy_unless_the_plan_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told, _ = verdict_of(monkeypatch, batches=25, first=0.4, end=0.6)
    assert told.endswith(f"take 400 ms and, on average, 600 ms: 44 % of the time. {HELD_UP_PLAN}")
    fixed = Plan(autotune=False, num_parallel_calls=3, cycle_length=2, prefetch=2)
    plain, _ = verdict_of(monkeypatch, plan=fixed, batches=25, first=0.4, end=0.6)
    assert plain == told.removesuffix(f". {HELD_UP_PLAN}")
