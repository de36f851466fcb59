"""What each stage of a pipeline costs, from TensorFlow's own model of it and the clock.

`tf.data.experimental.get_model_proto` gives the processing time, elements and bytes of every operator since its
iterator began; the difference between two readings is what happened between them. For a map it sums the time of the
kernels in the captured function and leaves out dispatching them, so the operators of a serial pipeline add up to less
than the clock shows: what is missing is the row `op overhead`.

Operators are read while the pipeline runs serially. With more threads than cores the times include waiting for a core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dataio.bench.iterating import Clock, LivePipeline
from dataio.bench.model_reading import Operator, difference, read_operators
from dataio.bench.stage_names import STAGE_WORDS, Stage, assign_stages
from dataio.plan import Plan
from dataio.records import Record

if TYPE_CHECKING:
    import tensorflow as tf

#: Batches after an iterator's start that a reading leaves out: tracing, opening files, first touch of memory.
SETTLE_BATCHES = 2

#: Reading ends after this many times what was asked for, whatever was read: with epochs of a few batches, which all
#: start anew, most of the time is spent between windows.
MOST_TIMES = 3


class StageSeconds(Record):
    """What one stage costs."""

    stage: Stage
    """Which."""
    seconds_per_image: float
    """Processor time per image, one core, seconds."""
    bytes_per_image: float | None
    """Bytes per image that leave the stage; None where nothing leaves it."""
    share: float
    """Of the time of all stages, in [0, 1]."""


class Costs(Record):
    """What the stages of a serial pipeline cost; with `op overhead` they add up to the clock."""

    images: int
    """Images that the figures rest on."""
    seconds_per_image: float
    """Clock time per image of the serial pipeline, seconds."""
    stages: tuple[StageSeconds, ...]
    """In the order in which a picture passes them, `op overhead` last."""

    @property
    def slowest(self) -> StageSeconds:
        """The stage that takes most time."""
        return max(self.stages, key=lambda stage: stage.seconds_per_image)

    def seconds(self, *stages: Stage) -> float:
        """Seconds per image of some stages together."""
        return sum(stage.seconds_per_image for stage in self.stages if stage.stage in stages)


def serial(plan: Plan) -> Plan:
    """`plan` made serial, in a way that keeps TensorFlow's model on."""
    return plan.replace(num_parallel_calls=1, cycle_length=1, prefetch=0, autotune=True, threads="auto")


def measure_costs(
    build: Callable[[Plan], tf.data.Dataset],
    plan: Plan,
    *,
    seconds: float = 1.0,
    whole_first_epoch: bool = False,
    clock: Clock = time.perf_counter,
) -> Costs:
    """Runs a plan serially and tells what each stage cost.

    Args:
        build: makes the pipeline of a plan.
        plan: its kernel, decoding and cache are kept; parallelism and prefetching are not.
        seconds: how long to read for, apart from warming up and starting epochs; at most three times as long in all.
        whole_first_epoch: whether to read one epoch before, so that a cache is filled.
        clock: seconds, monotonic.

    Raises:
        RecipeError: the pipeline yields no batch.
    """
    alone = serial(plan)
    # Fused with the batch, a map would count the copy as its own.
    with LivePipeline(lambda: _without_fusion(build(alone)), name="calibration", clock=clock) as live:
        images, wall = 0, 0.0
        found: list[Operator] = []
        live.advance()
        while whole_first_epoch and live.epoch == 0:
            live.advance()
        limit = clock() + MOST_TIMES * seconds
        while wall < seconds and (images == 0 or clock() < limit):
            window = _read_window(live, seconds - wall, clock)
            images, wall = images + window.images, wall + window.seconds
            found.extend(window.operators)
    return summarise(found, plan=alone, images=images, wall_seconds=wall)


def summarise(operators: Sequence[Operator], *, plan: Plan, images: int, wall_seconds: float) -> Costs:
    """Costs from operators, which may come from several readings of the same pipeline."""
    by_depth: dict[int, list[Operator]] = {}
    for operator in operators:
        by_depth.setdefault(operator.depth, []).append(operator)
    depths = sorted(by_depth)
    stages = assign_stages([by_depth[depth][0].name for depth in depths], kernel=plan.kernel)
    seconds: dict[Stage, float] = {}
    produced: dict[Stage, float] = {}
    for depth, stage in zip(depths, stages, strict=True):
        same = by_depth[depth]
        seconds[stage] = seconds.get(stage, 0.0) + sum(operator.seconds for operator in same)
        # The operator nearest to the consumer comes first: its bytes are what leaves the stage.
        produced.setdefault(stage, sum(operator.bytes for operator in same))
    seconds["op overhead"] = max(0.0, wall_seconds - sum(seconds.values()))
    total = sum(seconds.values()) or 1.0
    return Costs(
        images=images,
        seconds_per_image=wall_seconds / images,
        stages=tuple(
            StageSeconds(
                stage=stage,
                seconds_per_image=seconds[stage] / images,
                bytes_per_image=produced[stage] / images if stage in produced else None,
                share=seconds[stage] / total,
            )
            for stage in STAGE_WORDS
            if stage in seconds
        ),
    )


@dataclass(frozen=True, slots=True)
class _Window:
    images: int
    seconds: float
    operators: list[Operator]


def _read_window(live: LivePipeline, seconds: float, clock: Clock) -> _Window:
    """Reads within one epoch, since every iterator has operators of its own, for at most `seconds`."""
    short = live.epoch_batches is not None and live.epoch_batches <= 2 * SETTLE_BATCHES
    images = 0
    if short:  # an epoch of a few batches is taken whole, its first fill included
        start = clock()
        got = live.advance()
        while got.position > 0:  # towards the start of the next epoch
            start = clock()
            got = live.advance()
        before: list[Operator] = []
        images += got.images
    else:
        while (got := live.advance()).position < SETTLE_BATCHES:
            pass
        before = read_operators(live.iterator)
        start = clock()
    end = clock()
    after = read_operators(live.iterator)
    last = live.epoch_batches - 1 if live.epoch_batches is not None else None
    while end - start < seconds and (last is None or got.position < last):
        epoch = live.epoch
        got = live.advance()
        if live.epoch != epoch:
            break
        images, end = images + got.images, clock()
        after = read_operators(live.iterator)
    if images == 0:
        return _read_window(live, seconds, clock)
    return _Window(images, end - start, difference(before, after))


def _without_fusion(dataset: tf.data.Dataset) -> tf.data.Dataset:
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_optimization.map_and_batch_fusion = False
    return dataset.with_options(options)


def typical(costs: Sequence[Costs]) -> Costs:
    """Of several readings the one whose clock time is the median: a reading that was disturbed does not count."""
    ordered = sorted(costs, key=lambda one: one.seconds_per_image)
    return ordered[int(np.ceil(len(ordered) / 2)) - 1]
