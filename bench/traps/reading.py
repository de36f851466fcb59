"""Traps of reading: compression that gains nothing, arrays inside the graph, damage that is hidden."""

from __future__ import annotations

from collections.abc import Iterator

from dataio.bench.traps.graph import Pipeline
from dataio.bench.traps.trap import Surroundings, Trap, say_bytes

#: Share of the memory from which arrays in the graph matter: they are held several times.
_LARGE_SHARE = 0.03

_PICTURES = ("DecodeJpeg", "DecodeAndCropJpeg", "DecodeImage", "DecodePng", "DecodeWebP")


def find(pipeline: Pipeline, surroundings: Surroundings) -> Iterator[Trap]:
    """Finds compressed shards of compressed pictures, large arrays held as constants, and ignored errors."""
    decodes = any(name.startswith(_PICTURES) for operator in pipeline.operators for name in operator.calls)
    for operator in pipeline.of("TFRecord", "FixedLengthRecord"):
        values = [one.item() for one in operator.arguments if one is not None and one.ndim == 0]
        compressed = [value.decode() for value in values if value in (b"GZIP", b"ZLIB")]
        if compressed and decodes:
            yield Trap(
                name="compressed-pictures",
                operator=str(operator),
                cost="speed",
                finding=f"shards of pictures are {compressed[0]}-compressed again: CPU time for hardly fewer bytes",
                fix="write them without compression",
            )
    for operator in pipeline.of("TensorSlice", "Tensor"):
        size = sum(getattr(argument, "nbytes", 0) for argument in operator.arguments if argument is not None)
        if size > _LARGE_SHARE * surroundings.memory_bytes:
            yield Trap(
                name="arrays-in-the-graph",
                operator=str(operator),
                cost="memory",
                finding=f"{say_bytes(size)} of arrays are copied into the graph, and into every copy of it",
                fix="keep them in files, or index them: Dataset.range(n) and a tf.numpy_function a batch of indices",
            )
    for operator in pipeline.of("IgnoreErrors"):
        yield Trap(
            name="ignored-errors",
            operator=str(operator),
            cost="wrong",
            finding="elements that raise an error disappear: damaged files shrink the epoch and nobody learns of it",
            fix="let the pipeline fail, and find damaged records beforehand: dataio verify PATH",
        )
