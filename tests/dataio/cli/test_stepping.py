"""Which step the options mean."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from dataio.cli.stepping import check_step_options, make_step
from dataio.errors import StepError
from dataio.recipe import Recipe


def test_no_option_means_no_step() -> None:
    assert not check_step_options()
    assert make_step(Recipe()) is None


def test_a_step_time_and_a_preset_make_a_simulated_step() -> None:
    timed, preset = make_step(Recipe(), step_ms=70), make_step(Recipe(batch_size=400), accelerator="a100-resnet50")
    assert timed is not None and timed.step_seconds == 0.07
    assert preset is not None and preset.step_seconds == pytest.approx(0.435)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_ms": 70, "accelerator": "a100-resnet50"}, "give one of --step-ms and --accelerator"),
        ({"model": "ResNet50", "function": "a:b"}, "give one of --model and --step"),
        ({"mixed_precision": True, "step_ms": 70}, "needs --model"),
    ],
)
def test_options_that_contradict_each_other_are_a_usage_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        check_step_options(**options)


@pytest.mark.parametrize("options", [{"model": "ResNet51"}, {"function": "nowhere"}, {"accelerator": "b500"}])
def test_a_step_that_does_not_exist_is_an_error_of_steps(options: dict[str, Any]) -> None:
    with pytest.raises(StepError):
        make_step(Recipe(), **options)
