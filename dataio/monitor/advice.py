"""What to do about a stall, from what TensorFlow's model of the pipeline knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

#: Operators that hold finished elements ready while the step runs. Names as TensorFlow's model writes them (2.21).
_BUFFERS = ("Prefetch", "ParallelMap", "MapAndBatch", "ParallelBatch", "ParallelInterleave")

#: Below this many busy cores it is not the CPU that holds a pipeline up: half of what a serial one would keep busy.
_IDLE_CORES = 0.5


def explain(iterator: tf.data.Iterator, seconds: float) -> str | None:
    """What holds the pipeline up, in words: the operator that takes most CPU time, or something other than the CPU.

    Args:
        iterator: the one that fed the steps.
        seconds: for how long it did.

    Returns:
        None where the iterator has no model (autotuning is off).
    """
    import tensorflow as tf

    try:
        model = tf.data.experimental.get_model_proto(iterator)
    except tf.errors.NotFoundError:
        return None
    nodes = [node for node in model.nodes.values() if node.processing_time > 0]
    total = sum(node.processing_time for node in nodes) * 1e-9
    if not nodes or seconds <= 0:
        return None
    if not any(node.name.startswith(_BUFFERS) for node in model.nodes.values()):
        return "Nothing is prefetched: end the pipeline with .prefetch(tf.data.AUTOTUNE)"
    if total / seconds < _IDLE_CORES:
        return (
            f"The input keeps only {total / seconds:.2g} cores busy: it waits for storage, a remote source or a lock "
            "rather than for the CPU"
        )
    slowest = max(nodes, key=lambda node: node.processing_time)
    words = f"{slowest.name} takes {slowest.processing_time * 1e-7 / total:.0f} % of the input's CPU time"
    parallelism = [int(p.value) for p in slowest.parameters if p.name == "parallelism"]
    return f"{words} (parallelism {parallelism[0]})" if parallelism else f"{words}, on one thread"


def advise(step_ms: float | None, explanation: str | None) -> str:
    """What to do when the step waits for input."""
    measure = f"`dataio bench DATA --step-ms {step_ms:.3g}`" if step_ms else "`dataio bench DATA`"
    first = f"{explanation}. " if explanation else ""
    return (
        f"{first}{measure} measures what feeds this step and writes tuned.json; "
        "`dataio.load_tuned('tuned.json').build(split='train')` then gives that pipeline."
    )
