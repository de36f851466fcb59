"""Steps: what consumes a batch. The protocol, and a simulated accelerator of known step time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from dataio.bench.accelerators import ACCELERATORS, Accelerator, accelerator
from dataio.errors import StepError

__all__ = ["ACCELERATORS", "Accelerator", "SimulatedAccelerator", "Step", "simulated_step"]

#: Weight of the newest observation in the running mean of how late sleep returns, and the most that it may correct.
#: Source: own measurement on Linux: time.sleep returns 0.1 ms late (timer slack and wake-up), up to 0.4 ms at the 95th
#: percentile; longer delays are the machine's and not sleep's.
_LATENESS_WEIGHT = 0.1
_MOST_LATENESS_SECONDS = 0.0005


class Step(Protocol):
    """What consumes a batch; called once a batch, it returns when the device is done with it."""

    @property
    def name(self) -> str:
        """What messages and reports call it."""

    @property
    def step_seconds(self) -> float | None:
        """Seconds that a batch is known to take, or None where only measuring tells."""

    def __call__(self, batch: Any) -> None:
        """Consumes a batch, as the pipeline yields it, and waits for the device."""


class SimulatedAccelerator:
    """A device that is busy for `step_seconds` with each batch and uses no CPU: a sleep.

    It stands in for a GPU that this machine does not have. Sleep returns late by a nearly constant amount; a running
    mean of that is taken off the time asked for, so that a step takes `step_seconds` on average.
    """

    def __init__(
        self,
        step_seconds: float,
        *,
        name: str | None = None,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        Args:
            step_seconds: seconds a batch, above 0.
            name: what reports call it; by default its step time.
            clock: seconds, monotonic.
            sleep: sleeps for some seconds.

        Raises:
            StepError: the step time is not above 0 and finite.
        """
        if not 0 < step_seconds < float("inf"):
            raise StepError(f"a simulated step takes a time above 0 seconds, found {step_seconds!r}")
        self._step_seconds = float(step_seconds)
        self._name = name or f"simulated step of {step_seconds * 1e3:g} ms"
        self._clock, self._sleep = clock, sleep
        self._lateness_seconds = 0.0

    @property
    def name(self) -> str:
        return self._name

    @property
    def step_seconds(self) -> float:
        return self._step_seconds

    def __call__(self, batch: Any) -> None:
        start = self._clock()
        asked = max(self._step_seconds - self._lateness_seconds, 0.0)
        self._sleep(asked)
        late = min(max(self._clock() - start - asked, 0.0), _MOST_LATENESS_SECONDS)
        self._lateness_seconds += _LATENESS_WEIGHT * (late - self._lateness_seconds)


def simulated_step(preset: str, batch_size: int) -> SimulatedAccelerator:
    """The accelerator preset `preset` working on batches of `batch_size` pictures.

    Raises:
        StepError: no such preset; the message lists those there are.
    """
    device = accelerator(preset)
    return SimulatedAccelerator(batch_size / device.images_per_second, name=device.name)
