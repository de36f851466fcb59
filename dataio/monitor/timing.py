"""How a monitor tells time, and the recorder that suits an iterator."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import tensorflow as tf

from dataio.monitor.holding import Holding
from dataio.monitor.readings import Reading, read_model
from dataio.monitor.recorders import CallRecorder, GapRecorder, StepRecorder


def device_barrier() -> Callable[[], None] | None:
    """A function that waits until the GPUs have done what they were given; None on a machine without any.

    A GPU works on while Python goes ahead: whether the next GetNext kept it waiting can only be told from the moment
    at which it was done.
    """
    if not tf.config.list_logical_devices("GPU"):
        return None
    barrier: Callable[[], None] = tf.test.experimental.sync_devices
    return barrier


@dataclass(frozen=True)
class Timing:
    """Clock, sleep and device barrier; tests give their own."""

    clock: Callable[[], float] = time.perf_counter
    """Seconds, monotonic."""
    sleep: Callable[[float], None] = time.sleep
    """Sleeps for so many seconds."""
    synchronise: Callable[[], None] | None = field(default_factory=device_barrier)
    """Waits for the device; None where there is none to wait for."""


def make_recorder(iterator: tf.data.Iterator, timing: Timing, *, told: bool, keep: bool) -> StepRecorder:
    """The best recorder for `iterator`; with `keep` it keeps the iterator alive as long as it lives itself.

    Args:
        iterator: TensorFlow's own.
        timing: clock and device barrier.
        told: whether the iterator has a model.
        keep: whether to hold on to the iterator.
    """
    if not told:
        return CallRecorder(clock=timing.clock, synchronise=timing.synchronise)
    reference: Callable[[], tf.data.Iterator | None] = (lambda: iterator) if keep else weakref.ref(iterator)
    if not keep:
        del iterator

    def read() -> Reading | None:
        alive = reference()
        return read_model(alive) if alive is not None else None

    # A GPU's step does not depend on how long the host's threads slept.
    holding = None if timing.synchronise else Holding(read, clock=timing.clock, sleep=timing.sleep)
    return GapRecorder(read, clock=timing.clock, synchronise=timing.synchronise, holding=holding)
