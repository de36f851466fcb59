"""Measuring pipelines: what they supply alone, and (from `stalling`) how long a step waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import tensorflow as tf

from dataio.bench.idling import wait_until_idle
from dataio.bench.iterating import Clock
from dataio.bench.stalling import StallSamples, measure_stall
from dataio.bench.supply import LiveSupply, SupplySamples
from dataio.machine import anonymous_memory_bytes

__all__ = ["LiveSupply", "Progress", "StallSamples", "SupplySamples", "measure_stall", "measure_supply"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a measurement is."""

    name: str
    """The plan being measured."""
    phase: Literal["warm-up", "round"]
    """What is being done."""
    done: int
    """Pieces of work (warm-ups and rounds of every plan) finished."""
    total: int
    """Pieces of work in all."""


def measure_supply(
    builders: Mapping[str, Callable[[], tf.data.Dataset]],
    *,
    batch_size: int,
    rounds: int = 5,
    round_seconds: float = 0.7,
    warm_up_seconds: float = 3.0,
    whole_first_epoch: Collection[str] = (),
    clock: Clock = time.perf_counter,
    memory: Callable[[], int] = anonymous_memory_bytes,
    on_progress: Callable[[Progress], None] | None = None,
    settle: Callable[[], object] = wait_until_idle,
) -> dict[str, SupplySamples]:
    """What each pipeline supplies, in rounds taken in turn (A B C A B C ...), so that a slow minute hits all alike.

    Every pipeline is warmed up first until its rate stops rising. All stay alive until the end and so hold their memory
    (and caches) at once; measure many in several calls.

    Args:
        builders: for each plan's name, what makes its dataset; called once.
        batch_size: pictures a batch.
        rounds: of each plan, at least 2.
        round_seconds: length of a round.
        warm_up_seconds: warm-up is given up after this long (a whole first epoch apart).
        whole_first_epoch: names of plans that are measured from their second epoch on, because they cache.
        clock: seconds, monotonic.
        memory: gives the process's anonymous memory in bytes.
        on_progress: called after each warm-up and round.
        settle: called before each warm-up and round, to wait until the pipelines that were read before stand still.

    Raises:
        RecipeError: a pipeline yields no batch.
    """
    if rounds < 2:
        raise ValueError(f"supply needs at least 2 rounds, found {rounds}")
    total = len(builders) * (rounds + 1)
    done = 0

    def report(name: str, phase: Literal["warm-up", "round"]) -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(Progress(name, phase, done, total))

    with LiveSupply(
        batch_size=batch_size, warm_up_seconds=warm_up_seconds, clock=clock, memory=memory, settle=settle
    ) as live:
        for name, build in builders.items():
            live.add(name, build, whole_first_epoch=name in whole_first_epoch)
            report(name, "warm-up")
        for _ in range(rounds):
            for name in builders:
                live.run_round(name, round_seconds)
                report(name, "round")
        return {name: live.samples(name) for name in builders}
