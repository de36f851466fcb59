"""Traps of prefetching: nothing ready when the step asks."""

from __future__ import annotations

from collections.abc import Iterator

from dataio.bench.traps.graph import Pipeline
from dataio.bench.traps.trap import BATCHING, Surroundings, Trap

#: Operators that change no element: a batch that is ready below one of them is ready.
_PASSING = ("AssertCardinality", "Take", "Skip", "Repeat", "Model", "Window")


def find(pipeline: Pipeline, surroundings: Surroundings) -> Iterator[Trap]:
    """Finds missing, tiny and misplaced prefetching, and copies to a device that nothing prefetches."""
    outer = [operator for operator in pipeline.operators if not operator.nested]
    end = next((operator for operator in reversed(outer) if operator.kind not in _PASSING), outer[-1])
    if end.kind == "CopyToDevice":
        yield Trap(
            name="unbuffered-device-copy",
            operator=str(end),
            cost="speed",
            finding="batches are copied to the device one by one, each while the step waits for it",
            fix="end with .prefetch(2) after copy_to_device, or use tf.data.experimental.prefetch_to_device",
        )
    elif end.kind != "Prefetch":
        yield Trap(
            name="no-prefetch-at-the-end",
            operator=str(end),
            cost="speed",
            finding=f"the pipeline ends with {end}, so that a batch is only begun when the step asks for it",
            fix="end with .prefetch(tf.data.AUTOTUNE)",
        )
    elif end.number(0) == 0:
        yield Trap(
            name="tiny-prefetch",
            operator=str(end),
            cost="speed",
            finding="prefetch(0) keeps nothing ready",
            fix="write .prefetch(tf.data.AUTOTUNE)",
        )
    for operator in outer:
        if operator.kind == "Prefetch" and any(above.kind in BATCHING for above in pipeline.above(operator)):
            count, batch = operator.number(0), _batch_above(pipeline, operator)
            if count is not None and 0 < count < batch:
                yield Trap(
                    name="prefetch-of-single-elements",
                    operator=str(operator),
                    cost="speed",
                    finding=f"prefetch({count}) before batch({batch}) holds {count} elements, less than a batch",
                    fix="prefetch after batch, where one unit is a whole batch",
                )
        if operator.kind == "CopyToDevice":
            later = [above for above in pipeline.above(operator) if above.kind not in (*_PASSING, "Prefetch")]
            if later:
                yield Trap(
                    name="lost-device-prefetch",
                    operator=str(operator),
                    cost="speed",
                    finding=f"after the copy to the device, {later[0]} brings the batch back to the host",
                    fix="make prefetch_to_device the last operator of the pipeline",
                )


def _batch_above(pipeline: Pipeline, operator: object) -> int:
    for above in pipeline.operators:
        if above.kind in BATCHING and any(one is operator for one in pipeline.below(above)):
            return above.number(0) or 0
    return 0
