"""Traps of shuffling: whole batches in another order, mixed epochs, buffers that do not fit or do not mix."""

from __future__ import annotations

from collections.abc import Iterator

from dataio.bench.traps.graph import Operator, Pipeline
from dataio.bench.traps.trap import Surroundings, Trap, costly_calls, is_batched, say_bytes

#: Elements below which a shuffle of records hardly mixes.
_TINY_BUFFER = 16


def find(pipeline: Pipeline, surroundings: Surroundings) -> Iterator[Trap]:
    """Finds shuffles after batch, repeats before shuffle, and buffers that are too large, too small or filled late."""
    for shuffle in pipeline.of("Shuffle", "ShuffleAndRepeat"):
        below = list(pipeline.below(shuffle))
        if is_batched(pipeline, shuffle):
            yield Trap(
                name="shuffle-after-batch",
                operator=str(shuffle),
                cost="wrong",
                finding="whole batches are shuffled: the same pictures always share a batch",
                fix="shuffle before batch",
            )
        for operator in below:
            if operator.kind in {"Repeat", "ForeverRepeat"}:
                yield Trap(
                    name="repeat-before-shuffle",
                    operator=str(operator),
                    cost="wrong",
                    finding="shuffle mixes an epoch with the next: some pictures come twice in it, others never",
                    fix="write .shuffle(n).repeat()",
                )
        if shuffle.attributes.get("reshuffle_each_iteration") is False:
            yield Trap(
                name="shuffle-once",
                operator=str(shuffle),
                cost="wrong",
                finding="reshuffle_each_iteration=False: every epoch comes in the same order",
                fix="leave reshuffle_each_iteration out, unless the split depends on it",
            )
        yield from _buffer(shuffle, below, surroundings)


def _buffer(shuffle: Operator, below: list[Operator], surroundings: Surroundings) -> Iterator[Trap]:
    count, size = shuffle.number(0), shuffle.element_bytes
    if count is None:
        return
    if size is not None and count * size > surroundings.memory_bytes:
        yield Trap(
            name="shuffle-buffer-larger-than-memory",
            operator=str(shuffle),
            cost="memory",
            finding=(
                f"shuffle({count:,}) holds elements of {say_bytes(size)}: {say_bytes(count * size)}, and there are "
                f"{say_bytes(surroundings.memory_bytes)}"
            ),
            fix="shuffle file names or encoded records, before decoding",
        )
    elif size is not None and any(costly_calls(operator) for operator in below):
        yield Trap(
            name="shuffle-after-decode",
            operator=str(shuffle),
            cost="memory",
            finding=(
                f"shuffle({count:,}) holds decoded pictures: {say_bytes(count * size)}, decoded before the first step"
            ),
            fix="shuffle file names or encoded records, before decoding",
        )
    if 1 < count < _TINY_BUFFER:
        yield Trap(
            name="tiny-shuffle-buffer",
            operator=str(shuffle),
            cost="wrong",
            finding=f"shuffle({count}) moves an element by about {count} places: classes stored together stay together",
            fix="use a buffer of thousands of records, or shuffle the files as well",
        )
