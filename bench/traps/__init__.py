"""Known mistakes in tf.data pipelines, read from the graph of any dataset, each with its fix. One file a family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataio.bench.traps import (
    batching,
    caching,
    parallelism,
    prefetching,
    python_calls,
    reading,
    settings,
    sharding,
    shuffling,
)
from dataio.bench.traps.graph import read_pipeline
from dataio.bench.traps.trap import Surroundings, Trap
from dataio.machine import usable_cores, usable_memory_bytes

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["Surroundings", "Trap", "find_traps"]

_FAMILIES = (prefetching, parallelism, python_calls, caching, shuffling, batching, sharding, reading, settings)


def find_traps(dataset: tf.data.Dataset, surroundings: Surroundings | None = None) -> tuple[Trap, ...]:
    """The known mistakes in `dataset`, those that make the data wrong first, then speed, then memory.

    The pipeline is read as it was written, and not run.

    Args:
        dataset: any tf.data pipeline.
        surroundings: what to judge by; None takes this machine.

    Raises:
        StepError: TensorFlow cannot write the dataset as a graph.
    """
    around = surroundings or Surroundings(memory_bytes=usable_memory_bytes(), cores=usable_cores())
    pipeline = read_pipeline(dataset)
    found = [trap for family in _FAMILIES for trap in family.find(pipeline, around)]
    order = ("wrong", "speed", "memory")
    return tuple(sorted(found, key=lambda trap: order.index(trap.cost)))
