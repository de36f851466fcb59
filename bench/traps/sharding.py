"""Traps of several workers: records that nobody or everybody reads, and work that all of them do."""

from __future__ import annotations

from collections.abc import Iterator

from dataio.bench.traps.graph import Operator, Pipeline
from dataio.bench.traps.trap import Surroundings, Trap, costly_calls


def find(pipeline: Pipeline, surroundings: Surroundings) -> Iterator[Trap]:
    """Finds too few files for AutoShard's FILE policy, shards of a shuffled order, and shards after costly work."""
    yield from _files(pipeline, surroundings)
    for shard in pipeline.of("Shard"):
        for below in pipeline.below(shard):
            if below.kind == "Shuffle" and _is_unseeded(below):
                yield Trap(
                    name="shard-after-shuffle",
                    operator=str(shard),
                    cost="wrong",
                    finding="each worker takes every n-th of an order of its own: some records come twice, some never",
                    fix="shard first, then shuffle",
                )
            elif costly_calls(below):
                yield Trap(
                    name="shard-after-work",
                    operator=str(shard),
                    cost="speed",
                    finding=f"every worker runs {', '.join(costly_calls(below))} on all records and drops most of them",
                    fix="shard file names or records right after the source",
                )
                break


def _files(pipeline: Pipeline, surroundings: Surroundings) -> Iterator[Trap]:
    policy = getattr(pipeline.options.get("experimental_distribute.auto_shard_policy"), "name", "AUTO")
    if policy not in {"FILE", "AUTO"} or (policy == "AUTO" and surroundings.replicas == 1):
        return
    wanted = max(surroundings.replicas, 2)
    for source in pipeline.of("TensorSlice", "Tensor"):
        names = source.arguments[0] if source.arguments else None
        if names is None or not _reads_files(pipeline, source):
            continue
        count = names.size
        if count < wanted and policy == "FILE":
            yield Trap(
                name="too-few-files-to-share",
                operator=str(source),
                cost="wrong",
                finding=(
                    f"AutoShardPolicy.FILE gives each worker whole files: {wanted} workers cannot share "
                    f"{'a single one' if count == 1 else count}"
                ),
                fix="write one file a worker or more, or use AutoShardPolicy.DATA",
            )
        elif count % wanted and policy == "FILE" and surroundings.replicas > 1:
            yield Trap(
                name="files-do-not-divide",
                operator=str(source),
                cost="speed",
                finding=f"{count} files over {wanted} workers: some read more than others, and all wait for them",
                fix=f"write a multiple of {wanted} files of equal size",
            )


def _reads_files(pipeline: Pipeline, source: Operator) -> bool:
    readers = {"TFRecordDataset", "TFRecordDatasetV2", "TextLineDataset", "FixedLengthRecordDatasetV2", "ReadFile"}
    return source.attributes.get("is_files") is True or any(
        above.calls & readers or above.kind in {"TFRecord", "TextLine", "FixedLengthRecord"}
        for above in pipeline.above(source)
    )


def _is_unseeded(shuffle: Operator) -> bool:
    """Whether a shuffle draws a seed of its own: both seeds are 0."""
    return shuffle.number(1) == 0 and shuffle.number(2) == 0
