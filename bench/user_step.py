"""A step of the user's own: a Python function named on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from dataio.errors import StepError
from dataio.loading import load_function


class FunctionStep:
    """Calls a function with each batch and waits until the devices are done with it."""

    def __init__(self, function: Callable[[Any], object], *, name: str) -> None:
        """
        Args:
            function: takes a batch as the pipeline yields it, `(images, labels)`.
            name: what messages call it.
        """
        self._function, self._name = function, name

    @property
    def name(self) -> str:
        return self._name

    @property
    def step_seconds(self) -> None:
        """None: only measuring tells."""
        return None

    def __call__(self, batch: Any) -> None:
        try:
            self._function(batch)
            # A GPU works on after the call has returned; without waiting, its time would be measured as the next wait.
            tf.test.experimental.sync_devices()
        except Exception as problem:
            shapes = tf.nest.map_structure(lambda part: f"{part.dtype.name}{list(part.shape)}", batch)
            raise StepError(
                f"the step {self._name} failed on a batch of {shapes}: {type(problem).__name__}: {problem}"
            ) from problem


def load_step(spec: str) -> FunctionStep:
    """The step that `MODULE:FUNCTION` names, importable from the current folder or the environment.

    The function takes one argument, the batch `(images, labels)`. One that takes none is called once and must return
    such a function: the place to make a model.

    Raises:
        StepError: the form is wrong, the module cannot be imported, has no such function, or the function takes
            something else.
    """
    function = load_function(spec, what="--step", error=StepError)
    required = _required_arguments(function)
    if required == 0:
        try:
            function = function()
        except Exception as problem:
            raise StepError(f"--step {spec}: calling it failed: {type(problem).__name__}: {problem}") from problem
        if not callable(function):
            raise StepError(
                f"--step {spec}: a function without arguments must return the step, a function of one batch; "
                f"it returned {type(function).__name__}"
            )
        required = _required_arguments(function)
    if required not in (1, None):
        raise StepError(f"--step {spec}: the step takes one argument, the batch (images, labels); it takes {required}")
    return FunctionStep(function, name=spec)


def _required_arguments(function: Callable[..., Any]) -> int | None:
    """Positional arguments that must be given; None where that cannot be known, as for functions written in C."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    positional = [
        one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL)
    ]
    required = [one for one in positional if one.default is one.empty and one.kind is not one.VAR_POSITIONAL]
    # A function that can take the batch takes it; only one with no place for it is a maker.
    return 1 if not required and positional else len(required)
