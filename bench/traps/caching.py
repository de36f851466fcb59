"""Traps of caching: caches that freeze what should be random, that never fill, or that do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from dataio.bench.traps.graph import Operator, Pipeline
from dataio.bench.traps.trap import Surroundings, Trap, is_random, say_bytes


def find(pipeline: Pipeline, surroundings: Surroundings) -> Iterator[Trap]:
    """Finds caches above random operations, shuffles and repeats, partly read caches, and those larger than memory."""
    for cache in pipeline.of("Cache", "MemoryCache"):
        below = list(pipeline.below(cache))
        for operator in below:
            if is_random(operator):
                yield Trap(
                    name="cache-after-random",
                    operator=str(cache),
                    cost="wrong",
                    finding=f"the random draws of {operator} are cached: every epoch sees the same pictures",
                    fix="cache before the random map",
                )
            if operator.kind == "Shuffle":
                yield Trap(
                    name="cache-after-shuffle",
                    operator=str(cache),
                    cost="wrong",
                    finding="the shuffled order is cached: every epoch comes in the same order",
                    fix="cache before shuffle",
                )
            if operator.kind in {"Repeat", "ForeverRepeat"}:
                yield Trap(
                    name="cache-after-repeat",
                    operator=str(cache),
                    cost="memory",
                    finding="cached after repeat: it holds every repetition anew, and never completes an endless one",
                    fix="write .cache().repeat()",
                )
        yield from _partly_read(pipeline, cache)
        yield from _too_large(pipeline, cache, surroundings)


def _partly_read(pipeline: Pipeline, cache: Operator) -> Iterator[Trap]:
    for above in pipeline.above(cache):
        if above.kind == "Take":
            yield Trap(
                name="cache-partly-read",
                operator=str(cache),
                cost="speed",
                finding=f"{above} stops before the cache has been filled, so that it is thrown away and filled anew",
                fix="write .take(n).cache()",
            )
            return


def _too_large(pipeline: Pipeline, cache: Operator, surroundings: Surroundings) -> Iterator[Trap]:
    in_memory = not cache.arguments or cache.arguments[0] is None or not cache.arguments[0].item()
    count, size = _elements(pipeline, cache), cache.element_bytes
    if not in_memory or count is None or size is None:
        return
    if count * size > surroundings.memory_bytes:
        yield Trap(
            name="cache-larger-than-memory",
            operator=str(cache),
            cost="memory",
            finding=(
                f"{count:,} elements of {say_bytes(size)} make a cache of {say_bytes(count * size)}; "
                f"there are {say_bytes(surroundings.memory_bytes)}"
            ),
            fix="cache the encoded pictures (before decoding), or cache to disk: .cache('/local/disk/file')",
        )


def _elements(pipeline: Pipeline, operator: Operator) -> int | None:
    """Elements that reach `operator` an epoch, where the graph tells; None elsewhere."""
    factor = 1.0
    for below in pipeline.below(operator):
        if below.kind in {"Batch", "ParallelBatch", "PaddedBatch"}:
            size = below.number(0)
            if not size:
                return None
            factor /= size
        elif below.kind == "AssertCardinality":
            known = below.number(0)
            return int(known * factor) if known is not None and known >= 0 else None
        elif below.kind == "Take":
            count = below.number(0)
            if count is not None and count >= 0:
                return int(count * factor)
        elif below.kind == "TensorSlice":
            first = below.arguments[0] if below.arguments else None
            return int(len(first) * factor) if first is not None and first.ndim else None
        elif below.kind == "Range":
            start, stop, step = (below.number(place) for place in range(3))
            if start is None or stop is None or not step:
                return None
            return int(max(0, -(-(stop - start) // step)) * factor)
        elif below.kind not in {"Map", "ParallelMap", "Shuffle", "Prefetch", "Cache"}:
            return None
    return None
