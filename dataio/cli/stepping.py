"""The step that the options of `dataio bench` ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from dataio.bench.step import Step
    from dataio.recipe import Recipe


def check_step_options(
    *,
    step_ms: float | None = None,
    accelerator: str | None = None,
    model: str | None = None,
    function: str | None = None,
    mixed_precision: bool = False,
) -> bool:
    """Whether any step is asked for; a usage error when the options contradict each other. Costs no import."""
    given = {"--step-ms": step_ms, "--accelerator": accelerator, "--model": model, "--step": function}
    asked = [option for option, value in given.items() if value is not None]
    if len(asked) > 1:
        raise typer.BadParameter(f"give one of {' and '.join(asked)}", param_hint=asked[-1])
    if mixed_precision and model is None:
        raise typer.BadParameter("needs --model", param_hint="--mixed-precision")
    return bool(asked)


def make_step(
    recipe: Recipe,
    *,
    step_ms: float | None = None,
    accelerator: str | None = None,
    model: str | None = None,
    function: str | None = None,
    mixed_precision: bool = False,
    classes: int = 0,
) -> Step | None:
    """The step that the options ask for, or None. A model or function is made here, before any pipeline uses the GPU.

    Args:
        recipe: what a batch is.
        step_ms: length of a simulated step, milliseconds.
        accelerator: name of a preset.
        model: name of a keras.applications model.
        function: `MODULE:FUNCTION`.
        mixed_precision: for `model`.
        classes: classes of the data.

    Raises:
        StepError: it cannot be made.
    """
    check_step_options(
        step_ms=step_ms, accelerator=accelerator, model=model, function=function, mixed_precision=mixed_precision
    )
    if step_ms is not None:
        from dataio.bench.step import SimulatedAccelerator

        return SimulatedAccelerator(step_ms / 1000)
    if accelerator is not None:
        from dataio.bench.step import simulated_step

        return simulated_step(accelerator, recipe.batch_size)
    if model is not None:
        from dataio.bench.keras_step import IMAGENET_CLASSES, keras_step

        # One-hot labels must be as wide as the last layer; numbers only have to be below its width.
        width = classes if recipe.label_mode == "categorical" else max(classes, IMAGENET_CLASSES)
        return keras_step(model, recipe, classes=width, mixed_precision=mixed_precision)
    if function is not None:
        from dataio.bench.user_step import load_step

        return load_step(function)
    return None
