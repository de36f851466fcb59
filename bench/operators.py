"""The operators of a running pipeline: what each costs, how busy its threads are, and what AUTOTUNE gave it.

From two readings of TensorFlow's model of one iterator. Of any pipeline, not only of ours: nothing is known about it
but the kinds of its operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from dataio.records import Record

#: Operators whose own work is spread over `parallelism` threads; what they read comes from one more thread.
#: Source: node names of get_model_proto in TensorFlow 2.21.
_PARALLEL = ("ParallelMap", "MapAndBatch", "ParallelBatch", "ParallelFilter")

#: Operators whose inputs after the first run on `parallelism` threads.
_INTERLEAVE = ("ParallelInterleave",)

#: Operators that take elements in a thread of their own.
_BUFFERS = ("Prefetch",)

#: Share of the cores from which on they count as all busy, or as taken by others, and share of a thread's time from
#: which on it is the limit. Source: own measurement on 2 cores: AUTOTUNE's best pipelines keep 1.85 to 1.95 of them
#: busy, and a serial map that limits a pipeline is busy 76 to 91 % by TensorFlow's account, which leaves out dispatch.
_ALL_BUSY = 0.85
_OTHERS_BUSY = 0.3
_THREADS_BUSY = 0.7


class OperatorLoad(Record):
    """One operator between two readings."""

    name: str
    """TensorFlow's name of its kind, such as ParallelMapV2."""
    depth: int
    """Operators between it and the consumer."""
    cpu_milliseconds_per_image: float
    """Processing time per image, one core, milliseconds; dispatch of operations (0.1 to 0.2 ms a call) is not in it."""
    share: float
    """Of the processing time of all operators, in [0, 1]."""
    threads: int
    """Threads that it may run on."""
    busy: float
    """Share of the time that these threads work, with what else runs on them, in [0, 1]. Near 1: it is the limit."""
    bytes_per_image: float
    """Bytes per image that leave it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An iterator's model at one time."""

    nodes: tuple[Node, ...]
    """Operators from the consumer down."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of a reading."""

    name: str
    path: tuple[int, ...]
    """How to get there: which input of which operator, from the consumer down."""
    thread: tuple[int, ...]
    """Where the thread that runs it begins: the path of the operator that owns the thread, and a number."""
    threads: int
    seconds: float
    elements: int
    bytes: int
    parameters: tuple[tuple[str, int], ...]
    """What can be tuned and its value now."""


def read_model(iterator: Any) -> Reading | None:
    """The model of an iterator, or None when it has none because autotuning is off."""
    try:
        model = tf.data.experimental.get_model_proto(iterator)
    except tf.errors.NotFoundError:
        return None

    def walk(number: int, path: tuple[int, ...], thread: tuple[int, ...], threads: int) -> Iterator[Node]:
        node = model.nodes[number]
        parameters = tuple((p.name, int(p.value)) for p in node.parameters)
        own, own_threads = thread, threads
        parallelism = max(dict(parameters).get("parallelism", 1), 1)
        if node.name.startswith(_PARALLEL):
            own, own_threads = (*path, -1), parallelism
        yield Node(
            node.name,
            path,
            own,
            own_threads,
            node.processing_time * 1e-9,
            int(node.num_elements),
            int(node.bytes_produced),
            parameters,
        )
        for place, below in enumerate(node.inputs):
            inside = (*path, place)
            if node.name.startswith(_INTERLEAVE):
                yield from walk(below, inside, (*path, -2 if place else -3), parallelism if place else 1)
            elif node.name.startswith((*_PARALLEL, *_BUFFERS)):
                yield from walk(below, inside, (*path, -3), 1)
            else:
                yield from walk(below, inside, thread, threads)

    return Reading(tuple(walk(model.output, (), (), 1)))


def loads_between(before: Reading, after: Reading, *, seconds: float, images: int) -> tuple[OperatorLoad, ...]:
    """What every operator did between two readings of one iterator, from the consumer down.

    Args:
        before: the earlier reading.
        after: the later one.
        seconds: clock time between them.
        images: pictures that the pipeline gave meanwhile.
    """
    earlier = {(node.path, node.name): node for node in before.nodes}
    spent: dict[Node, float] = {}
    given: dict[Node, int] = {}
    for node in after.nodes:
        first = earlier.get((node.path, node.name))
        # An iterator that was made anew in between (repeat) starts from zero.
        fresh = first is None or first.elements > node.elements
        spent[node] = max(node.seconds - (0.0 if fresh or first is None else first.seconds), 0.0)
        given[node] = max(node.bytes - (0 if fresh or first is None else first.bytes), 0)
    by_thread: dict[tuple[int, ...], float] = {}
    for node, value in spent.items():
        by_thread[node.thread] = by_thread.get(node.thread, 0.0) + value
    total = sum(spent.values()) or 1.0
    return tuple(
        OperatorLoad(
            name=node.name,
            depth=len(node.path),
            cpu_milliseconds_per_image=1e3 * spent[node] / max(images, 1),
            share=spent[node] / total,
            threads=node.threads,
            busy=min(by_thread[node.thread] / (seconds * node.threads), 1.0),
            bytes_per_image=given[node] / max(images, 1),
        )
        for node in after.nodes
        if node.name not in {"Root", "Model"}
    )


class Tuned(Record):
    """What AUTOTUNE chose for one operator, over time."""

    operator: str
    """TensorFlow's name of its kind."""
    depth: int
    """Operators between it and the consumer."""
    parameter: str
    """`parallelism` or `buffer_size`."""
    seconds: tuple[float, ...]
    """When the value changed, seconds since the run began; the first is when it was first read."""
    values: tuple[int, ...]
    """The value from then on."""


class TuningLog:
    """Collects what AUTOTUNE chooses while a pipeline runs."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, str, str], list[tuple[float, int]]] = {}

    def add(self, seconds: float, reading: Reading) -> None:
        """Takes the values of a reading made `seconds` after the run began."""
        for node in reading.nodes:
            for parameter, value in node.parameters:
                known = self._values.setdefault((len(node.path), node.name, parameter), [])
                if not known or known[-1][1] != value:
                    known.append((seconds, value))

    def choices(self) -> tuple[Tuned, ...]:
        """All of it, from the consumer down."""
        return tuple(
            Tuned(
                operator=name,
                depth=depth,
                parameter=parameter,
                seconds=tuple(seconds for seconds, _ in values),
                values=tuple(value for _, value in values),
            )
            for (depth, name, parameter), values in sorted(self._values.items())
        )


def name_limit(
    loads: Sequence[OperatorLoad],
    *,
    busy_cores: float,
    cores: int,
    other_busy_cores: float = 0.0,
    calls_python: bool = False,
) -> tuple[str, str | None]:
    """What limits a pipeline that runs as fast as it can, in words, and the operator at fault, if it is one.

    Args:
        loads: of its operators.
        busy_cores: cores that the process kept busy meanwhile.
        cores: cores that it may keep busy.
        other_busy_cores: cores that other processes kept busy.
        calls_python: whether Python functions are called for elements.
    """
    if not loads:
        return "unknown: autotuning is off, so TensorFlow keeps no account of the operators", None
    heaviest = max(loads, key=lambda load: load.share)
    if busy_cores >= _ALL_BUSY * cores:
        return (
            f"the processor: {busy_cores:.1f} of {cores} cores are busy, {heaviest.share:.0%} of the input's work in "
            f"{heaviest.name}".replace("%", " %"),
            heaviest.name,
        )
    if other_busy_cores >= _OTHERS_BUSY * cores and busy_cores + other_busy_cores >= _ALL_BUSY * cores:
        return (
            f"other processes: they keep {other_busy_cores:.1f} of {cores} cores busy and leave this one "
            f"{busy_cores:.1f}; measure again when the machine is quiet",
            None,
        )
    busiest = max(loads, key=lambda load: (load.busy, load.share))
    if busiest.busy >= _THREADS_BUSY:
        same = [load for load in loads if load.busy == busiest.busy and load.threads == busiest.threads]
        worst = max(same, key=lambda load: load.share)
        threads = "its only thread is" if worst.threads == 1 else f"its {worst.threads} threads are"
        return f"{worst.name}: {threads} busy {worst.busy:.0%} of the time".replace("%", " %"), worst.name
    rest = f"{busy_cores:.1f} of {cores} cores are busy and no operator's threads are"
    if calls_python:
        return f"Python: {rest}, as when functions wait for the interpreter's lock", None
    return f"something other than the processor, such as storage or a remote source: {rest}", None
