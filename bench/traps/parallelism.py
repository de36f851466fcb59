"""Traps of parallelism: one thread where there could be many, or far too many."""

from __future__ import annotations

from collections.abc import Iterator

from dataio.bench.traps.graph import Pipeline
from dataio.bench.traps.trap import Surroundings, Trap, costly_calls

#: Calls at once, as a multiple of the cores, above which a fixed parallelism only costs memory and switches.
#: Source: own measurement on 2 cores: 16 threads on 2 cores take 1.7 times the CPU time a picture that 2 threads take.
_TOO_MANY_PER_CORE = 8

#: Operations that read records from files.
_READERS = frozenset({"TFRecord", "TextLine", "FixedLengthRecord"})


def find(pipeline: Pipeline, surroundings: Surroundings) -> Iterator[Trap]:
    """Finds serial maps that cost something, serial reading of several files, and too many calls at once."""
    if surroundings.cores > 1:
        yield from _serial_maps(pipeline)
        yield from _serial_reading(pipeline)
    most = _TOO_MANY_PER_CORE * surroundings.cores
    for operator in pipeline.of("ParallelMap", "ParallelInterleave"):
        calls = operator.number(0 if operator.kind == "ParallelMap" else 4)
        if calls is not None and calls > most:
            yield Trap(
                name="too-many-parallel-calls",
                operator=str(operator),
                cost="memory",
                finding=f"num_parallel_calls={calls} on {surroundings.cores} cores: threads only take turns",
                fix=f"write num_parallel_calls=tf.data.AUTOTUNE, or {surroundings.cores}",
            )


def _serial_maps(pipeline: Pipeline) -> Iterator[Trap]:
    for operator in pipeline.of("Map"):
        costly = costly_calls(operator)
        if costly:
            yield Trap(
                name="serial-map",
                operator=str(operator),
                cost="speed",
                finding=f"map runs {', '.join(costly)} without num_parallel_calls: one element after the other",
                fix="write .map(function, num_parallel_calls=tf.data.AUTOTUNE)",
            )


def _serial_reading(pipeline: Pipeline) -> Iterator[Trap]:
    for operator in pipeline.of("FlatMap", "Interleave"):
        inside = [one for one in pipeline.operators if one.nested and one.position == operator.position]
        files = next((one for one in pipeline.below(operator) if one.kind == "TensorSlice"), None)
        several = files is None or not files.arguments or files.arguments[0] is None or len(files.arguments[0]) > 1
        if not operator.nested and several and any(one.kind in _READERS for one in inside):
            yield Trap(
                name="serial-reading",
                operator=str(operator),
                cost="speed",
                finding="several files are read one after the other, on one thread",
                fix=(
                    "write TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE), or "
                    ".interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)"
                ),
            )
