"""Traps of Python: functions that hold the interpreter's lock, whatever the number of threads."""

from __future__ import annotations

from collections.abc import Iterator

from dataio.bench.traps.graph import Operator, Pipeline
from dataio.bench.traps.trap import Surroundings, Trap, calls_python, is_batched


def find(pipeline: Pipeline, surroundings: Surroundings) -> Iterator[Trap]:
    """Finds Python functions called for each element, and generators."""
    for operator in pipeline.of("Map", "ParallelMap", "Filter", "Interleave", "ParallelInterleave"):
        if not calls_python(operator):
            continue
        often = "each batch" if is_batched(pipeline, operator) else "each element"
        yield Trap(
            name="python-function",
            operator=str(operator),
            cost="speed",
            finding=(
                f"{operator} calls a Python function for {often}; Python runs one at a time, so that "
                f"num_parallel_calls{_calls(operator)} helps only where the function lets go of the interpreter's lock"
            ),
            fix=(
                "write it with TensorFlow operations, or call code that lets go of the lock (OpenCV, Pillow, NumPy on "
                "large arrays) once a batch: .batch(n).map(function, num_parallel_calls=tf.data.AUTOTUNE)"
            ),
        )
    for operator in pipeline.of("Generator"):
        yield Trap(
            name="from-generator",
            operator=str(operator),
            cost="speed",
            finding="a Python generator runs on one thread, under the interpreter's lock, element by element",
            fix=(
                "yield file names or indices and load them in .map(..., num_parallel_calls=AUTOTUNE), or convert the "
                "data once: dataio convert SRC DST --to tfrecord"
            ),
        )


def _calls(operator: Operator) -> str:
    number = operator.number(0) if operator.kind == "ParallelMap" else None
    return "" if number in {None, -1} else f"={number}"
