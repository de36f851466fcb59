"""Traps of batching: work a picture that could be done once a batch."""

from __future__ import annotations

from collections.abc import Iterator

from dataio.bench.traps.graph import Operator, Pipeline
from dataio.bench.traps.trap import BATCHING, Surroundings, Trap, is_batched

#: Operations that cost next to nothing themselves, so that calling a function a picture costs more than they do: 0.1 ms
#: a call. They give the same on a batch as on its pictures.
_CHEAP = frozenset(
    {
        "Add",
        "AddV2",
        "Cast",
        "ClipByValue",
        "Const",
        "Identity",
        "Maximum",
        "Minimum",
        "Mul",
        "Neg",
        "NoOp",
        "OneHot",
        "Pow",
        "RealDiv",
        "Round",
        "Sub",
        "Placeholder",
        "PartitionedCall",
        "StatefulPartitionedCall",
    }
)


def find(pipeline: Pipeline, surroundings: Surroundings) -> Iterator[Trap]:
    """Finds cheap maps before batch, parsing a record at a time, and batches that are taken apart again."""
    for operator in pipeline.of("Map", "ParallelMap"):
        batch = _next(pipeline, operator)
        if batch is None or batch.kind not in BATCHING:
            continue
        work = operator.calls - {"Const", "Identity", "NoOp", "Placeholder"}
        if work and operator.calls <= _CHEAP:
            yield Trap(
                name="cheap-map-before-batch",
                operator=str(operator),
                cost="speed",
                finding=f"{', '.join(sorted(work))} run once a picture: the call costs more than the work",
                fix="batch first and map the whole batch: .batch(n).map(function, num_parallel_calls=tf.data.AUTOTUNE)",
            )
    for operator in pipeline.of("Map", "ParallelMap"):
        parses = operator.calls & {"ParseExample", "ParseExampleV2", "ParseSingleExample"}
        if parses and not is_batched(pipeline, operator) and not operator.calls & _DECODERS:
            yield Trap(
                name="parse-before-batch",
                operator=str(operator),
                cost="speed",
                finding="records are parsed one at a time, in a map of its own",
                fix="parse in the map that decodes, or batch first and use tf.io.parse_example",
            )
    for operator in pipeline.of("Unbatch"):
        if any(below.kind in BATCHING for below in pipeline.below(operator)):
            yield Trap(
                name="batch-taken-apart",
                operator=str(operator),
                cost="speed",
                finding="a batch is made and taken apart again: every picture is copied twice",
                fix="leave out batch and unbatch, or use rebatch(n) to change the batch size",
            )


_DECODERS = frozenset({"DecodeJpeg", "DecodeAndCropJpeg", "DecodeImage", "DecodePng", "DecodeRaw"})


def _next(pipeline: Pipeline, operator: Operator) -> Operator | None:
    for other in pipeline.operators:
        if any(one is operator for one in other.inputs):
            return other
    return None
